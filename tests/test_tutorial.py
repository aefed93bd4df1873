"""The commands of docs/tutorial.md, as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_the_tutorial_runs(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "tutorial.md").read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.S | re.M)
    assert len(blocks) == 6
    (tmp_path / "bin").mkdir()
    for name, what in (("tracekit", "-m tracekit"), ("python", "")):
        script = tmp_path / "bin" / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {what} "$@"\n')
        script.chmod(0o755)
    (tmp_path / "tests").symlink_to(ROOT / "tests")
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
    for file in ("lua.data.zst", "model/card.json", "mine.json", "lua.npy"):
        assert (tmp_path / file).exists()
    for said in ("2 machines", "by phase, on", "both programs:", "constant CPI", "1. l1d_kb"):
        assert said in done.stdout
