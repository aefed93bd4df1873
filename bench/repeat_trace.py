"""Traces of any length for the benches: the shipped real one again and again, ticks and numbers
going on; and features of any length, the chunks of a file again and again.

``python bench/repeat_trace.py ROWS > trace.out`` writes one.
"""

from __future__ import annotations

import lzma
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tracekit
from tracekit.store.statics import StaticTable
from tracekit.store.writer import Writer

SAMPLE = Path(__file__).parent.parent / "tests" / "golden" / "lua.arm.trace.xz"

# Ticks: at the head of an Exec line, behind a stage's colon (0 = not reached, stays); sequence
# numbers.
_NUMBER = re.compile(
    rb"^ *(?P<exec>\d+)(?=: system)|FetchSeq=(?P<seq>\d+)"
    rb"|^O3PipeView:fetch:(?P<fetch>\d+):0x\w+:\d+:(?P<block>\d+)"
    rb"|^O3PipeView:\w+:(?P<stage>[1-9]\d*)(?::store:(?P<store>[1-9]\d*))?",
    re.M,
)


def _without_blockless(text: bytes) -> bytes:
    """Without the Exec lines whose blocks come behind the sample's end: in the middle of a trace
    they would keep all later rows waiting, which no gem5 does."""
    blocks = set(re.findall(rb"^O3PipeView:fetch:\d+:0x\w+:\d+:(\d+)", text, re.M))
    lines = text.splitlines(keepends=True)
    seqs = (re.search(rb"FetchSeq=(\d+)", line) for line in lines)
    pairs = zip(lines, seqs, strict=True)
    return b"".join(line for line, m in pairs if m is None or m[1] in blocks)


class Repeater:
    """``piece(k)`` is the sample for the k-th time."""

    def __init__(self, path: Path = SAMPLE) -> None:
        with lzma.open(path) as f:
            text = _without_blockless(f.read()).replace(b"%", b"%%")
        parts: list[bytes] = []
        values: list[int] = []
        is_tick: list[bool] = []
        at = 0
        for m in _NUMBER.finditer(text):
            for name in ("exec", "seq", "fetch", "block", "stage", "store"):
                if m[name] is not None:
                    parts += [text[at : m.start(name)], b"%d"]
                    values.append(int(m[name]))
                    is_tick.append(name not in ("seq", "block"))
                    at = m.end(name)
        self._format = b"".join([*parts, text[at:]])
        self._values = np.array(values, np.int64)
        ticks = np.array(is_tick)
        period = int(self._values[ticks].max()) // 500 * 500 + 50_000
        self._step = np.where(ticks, period, int(self._values[~ticks].max()) + 1)
        self.rows = text.count(b"FetchSeq=")

    def piece(self, k: int) -> bytes:
        return self._format % tuple((self._values + k * self._step).tolist())

    def pieces(self, rows: int) -> Iterator[bytes]:
        """Whole pieces, at least ``rows`` rows."""
        for k in range(-(-rows // self.rows)):
            yield self.piece(k)


def feats(folder: Path, rows: int) -> Path:
    """The trace extracted: ``folder``/feats.zst."""
    with (folder / "trace").open("wb") as f:
        for piece in Repeater().pieces(rows):
            f.write(piece)
    tracekit.extract(folder / "trace", folder / "feats.zst")
    (folder / "trace").unlink()
    return folder / "feats.zst"


class _Repeated(Writer):
    """A file whose chunks are those of another one: their frames are copied as they are."""

    def again(self, source: tracekit.TraceFile, number: int) -> None:
        meta = source.index["chunks"][number]
        places: dict[str, Any] = {}
        for name, (at, size, raw) in meta["streams"].items():
            places[name] = [self.append(source.read_bytes(at, size)), size, raw]
        self._chunks.append({**meta, "first": self.rows, "streams": places})
        self.rows += meta["rows"]


def repeated(source: Path, path: Path, rows: int) -> None:
    """Features of at least ``rows`` rows at ``path``."""
    with tracekit.open(source) as f:
        times = -(-rows // len(f))
        out = _Repeated(path, {"tracekit": tracekit.__version__})
        for _ in range(times):
            for number in range(f.chunks):
                out.again(f, number)
        kept = ("arch", "cpu", "level", "options", "input", "source", "anomalies", "bits")
        index = {k: f.index[k] for k in kept}
        counts = f.statics.count * np.uint64(times)
        t = f.statics
        table = StaticTable({**t.arrays, "count": counts}, t.disassembly, t.bytes, t.op_names)
        out.finish(table, {**index, "bits": [n * times for n in f.index["bits"]]})


if __name__ == "__main__":
    for piece in Repeater().pieces(int(sys.argv[1])):
        sys.stdout.buffer.write(piece)
