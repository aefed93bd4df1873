"""Where the tests' data is: what ships with the repository, and the shared traces where they
stand."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import hypothesis
import pytest

import tracekit

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(Path(__file__).parent))  # oracles, synthetic
sys.path.append(str(ROOT))  # tests.*, also in processes that tests spawn; after what is installed
GOLDEN = ROOT / "tests" / "golden"

# How long an example takes is the computer's, and no property of what is tested.
hypothesis.settings.register_profile(
    "tracekit", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("tracekit")

# A test run in the background by a shell ignores SIGINT, and so would every program it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# ``python -m tracekit`` in a test must find the package that is tested: not the sources in the
# working directory, which have no extension where tracekit was installed.
_PACKAGE = str(Path(tracekit.__file__).resolve().parent.parent)
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [_PACKAGE, os.environ.get("PYTHONPATH", "")])
)


# Results are compared to the bit: a GPU's are others.
os.environ["CUDA_VISIBLE_DEVICES"] = ""


@pytest.fixture(scope="session", autouse=True)
def _elsewhere(tmp_path_factory: pytest.TempPathFactory):
    # Nor does a test see what the user's computer was measured to be, or the user's models.
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))
    os.environ["XDG_DATA_HOME"] = str(tmp_path_factory.mktemp("data"))
    for name in ("TRACEKIT_PLUGINS", "TRACEKIT_DEBUG"):
        os.environ.pop(name, None)
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


@pytest.fixture
def chromium():
    """The distribution's Chromium, driven by Playwright; skips where one of the two is missing."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("no chromium")
    with sync_api.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


#: 3,000 instructions and a line of output: dynamic linking alone is 100,000 of `true`.
_TINY = """.globl _start
_start: mov $1000, %ecx
1: add %rcx, %rax
dec %ecx
jnz 1b
mov $1, %eax
mov $1, %edi
lea text(%rip), %rsi
mov $10, %edx
syscall
mov $60, %eax
xor %edi, %edi
syscall
text: .ascii "it speaks\\n"
"""


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A program that is stepped at once; skips where gcc does not make one."""
    folder = tmp_path_factory.mktemp("tiny")
    (folder / "tiny.s").write_text(_TINY)
    command = ["gcc", "-nostdlib", "-static", "-o", str(folder / "tiny"), str(folder / "tiny.s")]
    if shutil.which("gcc") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("gcc makes no program of x86-64 here")
    return str(folder / "tiny")
