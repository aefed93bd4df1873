"""Where the tests' data is: what ships with the repository, and the shared traces where they
stand."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

import tracekit

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(Path(__file__).parent))  # oracles, synthetic
sys.path.append(str(ROOT))  # tests.*, also in processes that tests spawn; after what is installed
GOLDEN = ROOT / "tests" / "golden"

# A test run in the background by a shell ignores SIGINT, and so would every program it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# ``python -m tracekit`` in a test must find the package that is tested: not the sources in the
# working directory, which have no extension where tracekit was installed.
_PACKAGE = str(Path(tracekit.__file__).resolve().parent.parent)
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [_PACKAGE, os.environ.get("PYTHONPATH", "")])
)


@pytest.fixture(scope="session", autouse=True)
def _elsewhere(tmp_path_factory: pytest.TempPathFactory):
    before = Path.cwd()
    os.chdir(tmp_path_factory.mktemp("elsewhere"))
    yield
    os.chdir(before)


@pytest.fixture(scope="session")
def golden() -> Path:
    return GOLDEN


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of shared traces ($TRACEKIT_SHARED, else ../shared/traces); skips where there is
    none."""
    folder = Path(os.environ.get("TRACEKIT_SHARED", ROOT.parent / "shared" / "traces"))
    if not folder.is_dir():
        pytest.skip("the shared traces are not here")
    return folder
