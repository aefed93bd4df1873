"""What an extraction's processor time goes to, and what cutting one trace over workers could give.

``python bench/extraction_shares.py TRACE.xz [--rows N] [--rounds N]``: TRACE.xz is gem5's text of
an O3 CPU, which is repeated to N rows and extracted as .xz, as plain text and as the same rows in
.tkt, everything in one thread.  It prints a line each, as JSON:

- ``ns a row``: processor time of reading (decompression and hash included), of parsing and commit
  order, of features and encoding, of compressing and writing the chunks, and of what is left
  (static instructions and index at the end, Python); the best of N rounds each.
- ``hand over``: of the rows as the parser has them, written to a file and read from it again.
- ``in order``: the share of what goes from the first row to the last whoever does the rest:
  reading, parsing, commit order, and the file's end.
- ``most of four``: how many times as fast four workers could be, of which one reads, parses and
  orders all rows and hands them over before the others begin, and one puts the file together.
  ``most``: any number of workers to whom rows come for nothing.  Both count nothing for the state
  that a piece begins with.
"""

from __future__ import annotations

import argparse
import json
import lzma
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import zstandard
from repeat_trace import Repeater

import tracekit
from tracekit import _core, schema
from tracekit.extraction import steps
from tracekit.extraction.output_stream import OutputStream
from tracekit.inputs.blocks import Input
from tracekit.io.output import scratch
from tracekit.store.writer import Writer

GOLDEN = Path(__file__).parents[1] / "tests" / "golden" / "tkt" / "kern.arm.tkt.zst"
#: A row of the parser: static instruction, address, bits and the ticks of eight stages.
ROW_BYTES = 4 + 8 + 1 + 8 * 8
READ, PARSE, FEATURES, WRITE = "read", "parse, order", "features, encode", "compress, write"


class Clock:
    """Processor time of this thread by what it is spent on; what is inside of another counts for
    itself alone."""

    def __init__(self) -> None:
        self.spent: Counter[str] = Counter()
        self._inside = 0.0

    def timed(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            before, self._inside = self._inside, 0.0
            begin = time.thread_time()
            try:
                return call(*args)
            finally:
                whole = time.thread_time() - begin
                self.spent[name] += whole - self._inside
                self._inside = before + whole

        return run


class TimedSource:
    """A source whose parsing is timed."""

    def __init__(self, source: Any, clock: Clock) -> None:
        self._source = source
        for name in ("feed", "take", "finish"):
            setattr(self, name, clock.timed(PARSE, getattr(source, name)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)


def extracted(path: Path, output: Path) -> tuple[int, Counter[str]]:
    """Rows, and the seconds of each part."""
    clock = Clock()
    iterate, recognise = Input.__iter__, steps.recognise
    patches = {
        (Writer, "chunk"): clock.timed(WRITE, Writer.chunk),
        (OutputStream, "add"): clock.timed(FEATURES, OutputStream.add),
        (OutputStream, "finish"): clock.timed(FEATURES, OutputStream.finish),
    }

    def blocks(self: Input) -> Iterator[Any]:
        step, end = clock.timed(READ, next), object()
        inner = iterate(self)
        while (block := step(inner, end)) is not end:
            yield block

    patches[Input, "__iter__"] = blocks
    patches[steps, "recognise"] = lambda *a: TimedSource(recognise(*a), clock)
    before = {(o, n): getattr(o, n) for o, n in patches}
    for (o, n), call in patches.items():
        setattr(o, n, call)
    begin = time.thread_time()
    try:
        rows = tracekit.extract(path, output, force=True, overlap=False).rows
    finally:
        for (o, n), call in before.items():
            setattr(o, n, call)
    clock.spent["rest"] = time.thread_time() - begin - clock.spent.total()
    return rows, clock.spent


def as_tkt(text: Path, output: Path) -> None:
    """The rows of a text trace as the gem5 plug-in writes them."""
    feats = output.with_suffix(".feats")
    tracekit.extract(text, feats)
    parser = _core.Gem5Text()
    with text.open("rb") as f:
        while data := f.read(1 << 22):
            parser.feed(data)
            parser.take(0)
    known = parser.table(0).columns()
    reader = _core.Tkt()
    reader.feed(zstandard.ZstdDecompressor().stream_reader(GOLDEN.read_bytes()).read())
    header = reader.header()
    assert header is not None
    names = {"op_classes": list(schema.OP_CLASSES), "flags": list(schema.FLAGS)}
    writer = _core.TktWriter(header | names)
    for inst in zip(
        *(known[k] for k in ("pc", "upc", "op", "flags", "disassembly", "bytes")), strict=True
    ):
        writer.add_static(*inst)
    with tracekit.open(feats) as f, output.open("wb") as out:
        for a in range(0, len(f), 1 << 16):
            part = (a, min(a + (1 << 16), len(f)))
            facts = f.column("taken", part) + 2 * f.column("fault", part)
            facts += 16 * f.column("is_mem", part) + 32 * (f.column("fetch", part) == 0)
            ticks = zip(*(f.column(s, part).tolist() for s in schema.STAGES), strict=True)
            ids, addr = f.column("static_id", part).tolist(), f.column("addr", part).tolist()
            for row in zip(ids, facts.tolist(), addr, ticks, strict=True):
                writer.add_row(*row[:3], 8, row[3])
            out.write(writer.take())
        writer.finish()
        out.write(writer.take())


def handed_over(place: Path, rows: int) -> dict[str, float]:
    """Seconds to write and to read rows as they leave the parser, a few thousand at a time."""
    step = 1 << 13
    block = np.zeros((step, ROW_BYTES), np.uint8)
    begin = time.thread_time()
    with place.open("wb") as f:
        for _ in range(0, rows, step):
            f.write(block)
    written = time.thread_time()
    with place.open("rb") as f:
        while f.readinto(block):
            pass
    return {"write": written - begin, "read": time.thread_time() - written}


def shares(rows: int, spent: Counter[str], handed: Counter[str]) -> dict[str, Any]:
    total = spent.total()
    ordered = spent[READ] + spent[PARSE] + spent["rest"]
    others = total - ordered
    four = ordered + handed["write"] + (others + handed["read"]) / 4

    def by_row(parts: Counter[str]) -> dict[str, float]:
        return {k: round(1e9 * v / rows, 1) for k, v in parts.items()}

    return {
        "rows": rows,
        "ns a row": by_row(spent),
        "hand over": by_row(handed),
        "in order": ordered / total,
        "most of four": total / four,
        "most": total / ordered,
    }


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("trace", type=Path)
    p.add_argument("--rows", type=int, default=1_000_000)
    p.add_argument("--rounds", type=int, default=3)
    a = p.parse_args()
    with scratch() as folder:
        files = {k: folder / f"trace.{k}" for k in ("xz", "out", "tkt")}
        with files["out"].open("wb") as plain, lzma.open(files["xz"], "wb", preset=1) as packed:
            for piece in Repeater(a.trace).pieces(a.rows):
                plain.write(piece)
                packed.write(piece)
        as_tkt(files["out"], files["tkt"])
        for kind, path in files.items():
            best: Counter[str] = Counter()
            handed: Counter[str] = Counter()
            for _ in range(a.rounds):
                rows, spent = extracted(path, folder / "feats.zst")
                best = Counter({k: min(v, best.get(k, v)) for k, v in spent.items()})
                over = handed_over(folder / "rows", rows)
                handed = Counter({k: min(v, handed.get(k, v)) for k, v in over.items()})
            print(json.dumps({kind: shares(rows, best, handed)}), flush=True)


if __name__ == "__main__":
    main()
