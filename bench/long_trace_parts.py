"""What long_trace.py does in processes of their own: ``make FILE ROWS [TRACE]``, ``read FILE``,
``decode FILE``."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from repeat_trace import feats, repeated

import tracekit


def make(file: str, rows: str, trace: str | None = None) -> None:
    with tempfile.TemporaryDirectory() as name:
        repeated(Path(trace) if trace else feats(Path(name), 70_000), Path(file), int(rows))


def read(file: str) -> None:
    with Path(file).open("rb", buffering=0) as f:
        while f.read(1 << 20):
            pass


def decode(file: str) -> None:
    with tracekit.open(file) as trace:
        for number in range(trace.chunks):
            chunk = trace.chunk(number)
            for name in ("static_id", "addr", "bits"):
                chunk.column(name)


if __name__ == "__main__":
    {"make": make, "read": read, "decode": decode}[sys.argv[1]](*sys.argv[2:])
