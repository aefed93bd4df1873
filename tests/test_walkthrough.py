"""The commands of docs/walkthrough.md, as they stand there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tracekit
from tests.test_record import _why_not
from tracekit.streams.tks import summary

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.skipif(_why_not() is not None, reason=_why_not() or "")
@pytest.mark.skipif(shutil.which("gzip") is None, reason="needs gzip")
def test_the_walkthrough_runs(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "walkthrough.md").read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.S | re.M)
    assert len(blocks) == 8
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "tracekit"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tracekit "$@"\n')
    script.chmod(0o755)
    # Itself, no script that becomes it by exec: what is recorded would depend on when.
    (tmp_path / "bin" / "python3").symlink_to(Path(sys.executable).resolve())
    path = os.pathsep.join([str(tmp_path / "bin"), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(blocks)],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "numbers.gz").exists()
    for said in ("mix ", "first touches", "gzip", "fetch_distance", "why epochs ended"):
        assert said in done.stdout, said
    assert summary(tmp_path / "gzip.tks")["instructions"] == 60_000
    with tracekit.open(tmp_path / "python.zst") as f:
        assert len(f) == summary(tmp_path / "python.tks")["instructions"] > 0
