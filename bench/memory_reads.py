"""Peak memory and time of reading long files, and mrc's bytes a distinct line.

``python bench/memory_reads.py [ROWS [LINES]]`` (default 100000000 3000000) makes a file of ROWS
rows by writing one chunk's frames again and again, and one that touches LINES distinct lines all
over the address space; it prints a line each.  ``simulate`` and ``predict``
are of one machine; ``hot`` reads the static instructions alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from repeat_trace import feats

import tracekit
from tracekit.analysis.mrc import data_counts
from tracekit.store.writer import Writer


class Repeated(Writer):
    """A file of one chunk's rows over and over: its frames are copied as they are."""

    def again(self, source: tracekit.open, number: int) -> None:
        meta = source.index["chunks"][number]
        places: dict[str, Any] = {}
        for name, (at, size, raw) in meta["streams"].items():
            places[name] = [self.append(source.read_bytes(at, size)), size, raw]
        self._chunks.append({**meta, "first": self.rows, "streams": places})
        self.rows += meta["rows"]


def long_file(folder: Path, rows: int) -> Path:
    """A file of at least ``rows`` rows."""
    with tracekit.open(feats(folder, 70_000)) as f:
        out = Repeated(folder / "long.zst", {"tracekit": tracekit.__version__})
        while out.rows < rows:
            out.again(f, 0)
        kept = ("arch", "cpu", "level", "options", "input", "source", "anomalies", "bits")
        out.finish(f.statics, {k: f.index[k] for k in kept})
    return folder / "long.zst"


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
    rows, lines = ([int(a) for a in sys.argv[1:]] + [100_000_000, 3_000_000][len(sys.argv) - 1 :])[
        :2
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        long = long_file(folder, rows)
        for command, *options in (
            ("info",),
            ("mrc",),
            ("simulate", "-m", "o3_small"),
            ("predict", "--uarch", "o3_small"),
        ):
            began = time.monotonic()
            bytes_ = peak(command, long, *options)
            seconds = time.monotonic() - began
            print(f"{command:<9}{rows:>12,} rows: {bytes_ / 1e6:.0f} MB peak, {seconds:.0f} s")
        long.unlink()
        place = strewn(folder, lines)
        base = peak("mrc", folder / "feats.zst")
        more = peak("mrc", "--stream", "data", place) - base
        with tracekit.open(place) as f:
            distinct = int((data_counts(f).accesses) / 2)
        print(f"mrc  {distinct:>12,} distinct lines: {more / distinct:.0f} bytes a line")


if __name__ == "__main__":
    main()
