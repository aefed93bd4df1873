"""The fuzz targets for a bounded time under ASan and UBSan (csrc/fuzz/run)."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
RUN = ROOT / "csrc" / "fuzz" / "run"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
@pytest.mark.skipif(not RUN.exists(), reason="no sources beside the tests")
def test_fuzz_targets():
    """Each target over its samples and one second of mutations."""
    command = [sys.executable, str(RUN), "--json", "--seconds", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 3:
        pytest.skip(done.stderr.strip())
    assert done.stdout, done.stderr
    failed = [r for r in json.loads(done.stdout) if r["code"]]
    assert not failed, "\n".join(f"{r['target']}:\n{r['output']}" for r in failed)
    assert done.returncode == 0
