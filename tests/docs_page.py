"""The commands of a page of docs/, as they stand there, run in a folder of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def commands(page: str) -> list[str]:
    """The page's ``sh`` blocks."""
    text = (ROOT / "docs" / page).read_text()
    return re.findall(r"^```sh\n(.*?)^```$", text, re.S | re.M)


def run_in(folder: Path, *blocks: str) -> str:
    """What the blocks print; ``tracekit``, ``python`` and ``python3`` are those of this run."""
    tools = folder / "bin"
    tools.mkdir()
    for name, what in (("tracekit", "-m tracekit"), ("python", "")):
        script = tools / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {what} "$@"\n')
        script.chmod(0o755)
    # Itself, no script that becomes it by exec: what is recorded of it would depend on when.
    (tools / "python3").symlink_to(Path(sys.executable).resolve())
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(blocks)],
        cwd=folder,
        env={**os.environ, "PATH": os.pathsep.join([str(tools), os.environ["PATH"]])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
