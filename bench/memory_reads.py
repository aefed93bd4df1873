"""Bytes that commands keep for each distinct line of memory that a trace touches.

``python bench/memory_reads.py [LINES]`` (default 3000000) makes a file that touches LINES lines all
over the address space, and prints a line for each command.  What they keep for each row is
long_trace.py's.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from repeat_trace import feats

import tracekit
from tracekit.analysis.mrc import data_counts

#: A command, and its own peak on standard error.  What wait4 tells includes the peak of the process
#: that started it.
RUN = """
import sys
from tracekit.cli.main import main
code = main(sys.argv[1:])
with open("/proc/self/status") as f:
    sys.stderr.write(next(line for line in f if line.startswith("VmHWM:")))
sys.exit(code)
"""


def peak(*args: object) -> int:
    """Peak resident bytes of a command."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, *map(str, args)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    return int(done.stderr.splitlines()[-1].split()[1]) * 1024


def strewn(folder: Path, lines: int) -> Path:
    """A file whose rows touch ``lines`` distinct lines in random order, each twice."""
    places = np.random.default_rng(1).permutation(lines).astype(np.uint64) * 64 + (1 << 32)
    with (folder / "lackey").open("w") as f:
        f.write("I  00400000,4\n" * 4)
        for part in (places, places):
            for at in range(0, lines, 1 << 16):
                text = (f"I  00400010,4\n L {a:x},8\n" for a in part[at : at + (1 << 16)].tolist())
                f.write("".join(text))
    tracekit.extract(folder / "lackey", folder / "strewn.zst", level="macro")
    (folder / "lackey").unlink()
    return folder / "strewn.zst"


def main() -> None:
    lines = int(sys.argv[1]) if len(sys.argv) > 1 else 3_000_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        short, long = feats(folder, 70_000), strewn(folder, lines)
        with tracekit.open(long) as f:
            distinct = data_counts(f).accesses // 2
        for command, *options in (
            ("mrc", "--stream", "data"),
            ("simulate", "-m", "o3_small"),
            ("simulate", "-m", "o3_small", "--samples", "40"),
        ):
            more = peak(command, long, *options) - peak(command, short, *options)
            said = " ".join((command, *options))
            print(f"{said}: {distinct:,} lines, {more / distinct:.0f} bytes a line")


if __name__ == "__main__":
    main()
