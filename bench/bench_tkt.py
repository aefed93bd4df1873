"""The gem5 plug-in's binary stream: to rows, to features and to a file.

The stream is the rows of a shipped real run again and again (ticks are differences, so they go on).
Floors: the same bytes copied, and decompressed. The peer is the tests' oracle, Python's struct over
each record. `--benchmark-timer=time.process_time` where the machine is shared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import zstandard
from oracles.tkt import rows as peer_rows
from table import done

import tracekit
from tracekit import _core, schema

ROWS = 400_000
PIECE = 1 << 20
GOLDEN = Path(__file__).parents[1] / "tests" / "golden" / "tkt"


@dataclass(frozen=True)
class Stream:
    data: bytes
    rows: int
    arch: str = ""


def repeated(sample: bytes, least: int) -> Stream:
    """The sample's rows as often as needed, each time later, behind all of its static
    instructions."""
    reader = _core.Tkt()
    reader.feed(sample)
    header = reader.header()
    assert header is not None
    known, run = reader.table(0).columns(), peer_rows(sample)
    names = {"op_classes": list(schema.OP_CLASSES), "flags": list(schema.FLAGS)}
    writer = _core.TktWriter(header | names)
    keys = ("pc", "upc", "op", "flags", "disassembly", "bytes")
    for inst in zip(*(known[key] for key in keys), strict=True):
        writer.add_static(*inst)
    times = -(-least // len(run))
    span = max(max(ticks) for *_, ticks in run)
    for n in range(times):
        for sid, facts, addr, ticks in run:
            writer.add_row(sid, facts, addr, 8, [t + n * span if t else 0 for t in ticks])
    writer.finish()
    return Stream(bytes(writer.take()), len(run) * times)


@pytest.fixture(scope="module", params=["arm", "x86"])
def stream(request: pytest.FixtureRequest) -> Stream:
    compressed = (GOLDEN / f"kern.{request.param}.tkt.zst").read_bytes()
    with zstandard.ZstdDecompressor().stream_reader(compressed) as reader:
        return replace(repeated(reader.read(), ROWS), arch=request.param)


def pieces(data: bytes) -> Iterator[memoryview]:
    view = memoryview(data)
    return (view[at : at + PIECE] for at in range(0, len(view), PIECE))


@pytest.fixture(autouse=True)
def _group(benchmark: Any, stream: Stream) -> None:
    benchmark.group = f"tkt, {stream.arch}"


def rate(benchmark: Any, stream: Stream) -> None:
    done(benchmark, stream.rows, "rows", len(stream.data))


def test_floor_copy(benchmark: Any, stream: Stream) -> None:
    assert len(benchmark(bytearray, stream.data)) == len(stream.data)
    rate(benchmark, stream)


def test_decompressor(benchmark: Any, stream: Stream) -> None:
    """Decompression alone, at the level that the plug-in writes."""
    packed = zstandard.ZstdCompressor(level=1).compress(stream.data)
    assert len(benchmark(zstandard.ZstdDecompressor().decompress, packed)) == len(stream.data)
    rate(benchmark, stream)


def test_rows(benchmark: Any, stream: Stream) -> None:
    """What extraction reads: rows in batches, a batch for each piece of the stream."""

    def run() -> tuple[int, bool]:
        reader, n = _core.Tkt(), 0
        for piece in pieces(stream.data):
            reader.feed(piece)
            n += len(reader.take(0))
        reader.finish()
        return n, reader.complete()

    assert benchmark(run) == (stream.rows, True)
    rate(benchmark, stream)


def test_features(benchmark: Any, stream: Stream) -> None:
    """Rows, every feature, and the encoded chunks; nothing is written."""

    def run() -> int:
        reader, stage, n = _core.Tkt(), _core.FeatureStage(8, 6, False), 0
        for piece in pieces(stream.data):
            reader.feed(piece)
            rows = reader.take(0)
            while stage.add(rows):
                n += stage.chunk()["rows"]
        while stage.finish():
            n += stage.chunk()["rows"]
        return n

    assert benchmark.pedantic(run, rounds=3) == stream.rows
    rate(benchmark, stream)


def test_extract(benchmark: Any, stream: Stream, tmp_path: Path) -> None:
    """The whole command, from a file in the page cache to a file."""
    path = tmp_path / "trace.tkt"
    path.write_bytes(stream.data)

    def run() -> int:
        return tracekit.extract(path, tmp_path / "feats.zst", force=True, strict=True).rows

    assert benchmark.pedantic(run, rounds=3) == stream.rows
    rate(benchmark, stream)


def test_peer_struct(benchmark: Any, stream: Stream) -> None:
    assert len(benchmark.pedantic(peer_rows, (stream.data,), rounds=1)) == stream.rows
    rate(benchmark, stream)
