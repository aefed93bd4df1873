"""Native streams: drmemtrace to batches, to rows, to features; ChampSim read and written.

The floor reads every record once (NumPy, the type column alone); the peers are what one writes in
an afternoon: `struct.iter_unpack` and a loop to the same instructions and accesses, and for
ChampSim's records also NumPy's structured arrays.  The trace is that of the shared
folder where there is one, else the fixture over and over.  `--benchmark-timer=time.process_time`
where the machine is shared.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracles.drmemtrace_counts import drmemtrace_counts
from table import done

from tracekit._core import (
    ChampsimEncoder,
    ChampsimParser,
    DrmemtraceParser,
    EncodingTable,
    FeatureStage,
    Rows,
)
from tracekit.exporting.champsim import RECORD
from tracekit.inputs.archives import chunks
from tracekit.inputs.native import NativeConverter

ROOT = Path(__file__).parents[1]
_TRACES = Path(os.environ.get("TRACEKIT_SHARED", ROOT.parent / "shared" / "traces"))
_SHARED = _TRACES / "drmemtrace"
NAME = "drmemtrace.threadsig.2765543.2117.trace.zip"
PIECE = 1 << 20


@pytest.fixture(scope="module")
def data() -> bytes:
    """One thread's records, decompressed: 37 MB where the shared trace is there, else 18 MB."""
    if (_SHARED / NAME).exists():
        return b"".join(chunks(_SHARED / NAME))
    whole = b"".join(chunks(ROOT / "tests" / "golden" / "drmemtrace" / NAME))
    head, body, foot = whole[: 12 * 10], whole[12 * 10 : -24], whole[-24:]
    return head + body * 50 + foot


@pytest.fixture(scope="module")
def counts(data: bytes) -> dict[str, int]:
    records = np.frombuffer(data, "<u2").reshape(-1, 6)[:, 0]
    by_type = np.bincount(records, minlength=50)
    part = drmemtrace_counts(
        data[: 12 * 50_000]
    )  # the oracle is slow: the counts by type must do for the rest
    parser = DrmemtraceParser(EncodingTable())
    parser.feed(data[: 12 * 50_000])
    part.pop("unique")
    assert {k: parser.counts[k] for k in part} == part
    fetched = int(by_type[[10, 11, 12, 13, 14, 15, 16, 31, 48, 49]].sum())
    return {
        "instructions": fetched,
        "no_fetch": int(by_type[29]),
        "loads": int(by_type[0]),
        "stores": int(by_type[1]),
    }


def pieces(data: bytes) -> Iterator[memoryview]:
    view = memoryview(data)
    return (view[at : at + PIECE] for at in range(0, len(view), PIECE))


def converted(data: bytes, *, halves: bool = True) -> Iterator[tuple[NativeConverter, Rows]]:
    """Rows, a piece after the other as in the pipeline."""
    table = EncodingTable()
    parser = DrmemtraceParser(table)
    converter = NativeConverter(table, arch="x86", halves=halves)
    for piece in pieces(data):
        parser.feed(piece)
        yield converter, converter.convert(parser.take()[0])
    parser.finish()
    yield converter, converter.convert(parser.take()[0])
    yield converter, converter.source.finish()


@pytest.fixture(autouse=True)
def _group(benchmark: Any, request: pytest.FixtureRequest) -> None:
    benchmark.group = "ChampSim" if "champsim" in request.node.name else "drmemtrace"


def rate(benchmark: Any, data: bytes, counts: dict[str, int]) -> None:
    done(benchmark, counts["instructions"], "instructions", len(data))


def test_floor(benchmark: Any, data: bytes, counts: dict[str, int]) -> None:
    def run() -> Any:
        return np.bincount(np.frombuffer(data, "<u2").reshape(-1, 6)[:, 0], minlength=50)

    assert int(benchmark(run)[0]) == counts["loads"]
    rate(benchmark, data, counts)


def test_parse(benchmark: Any, data: bytes, counts: dict[str, int]) -> None:
    def run() -> tuple[DrmemtraceParser, int]:
        parser, rows = DrmemtraceParser(EncodingTable()), 0
        for piece in pieces(data):
            parser.feed(piece)
            rows += len(parser.take()[0])
        parser.finish()
        return parser, rows + len(parser.take()[0])

    parser, rows = benchmark(run)
    assert {k: parser.counts[k] for k in counts} == counts
    assert rows == counts["instructions"]
    rate(benchmark, data, counts)


FETCHED = {10, 11, 12, 13, 14, 15, 16, 31, 48, 49}


def plain_reader(data: bytes) -> tuple[int, int, int]:
    """Instructions with their pc, machine code and accesses: numbers of them, of loads, of
    stores."""
    code: dict[int, bytes] = {}
    pending = b""
    rows: list[tuple[int, bytes, list[tuple[int, int, bool]]]] = []
    loads = stores = 0
    for kind, size, value in struct.iter_unpack("<HHQ", data):
        if kind == 47:  # machine code, up to eight bytes of it, of the next instruction
            pending += value.to_bytes(8, "little")[:size]
        elif kind in FETCHED:
            if pending:
                code[value], pending = pending, b""
            rows.append((value, code.get(value, b""), []))
        elif kind in (0, 1):
            if rows:
                rows[-1][2].append((value, size, kind == 1))
            loads += kind == 0
            stores += kind == 1
    return len(rows), loads, stores


def test_peer_plain_python(benchmark: Any, data: bytes, counts: dict[str, int]) -> None:
    found = benchmark.pedantic(plain_reader, args=(data,), rounds=1)
    assert found == tuple(counts[k] for k in ("instructions", "loads", "stores"))
    rate(benchmark, data, counts)


def test_rows(benchmark: Any, data: bytes, counts: dict[str, int]) -> None:
    def run() -> int:
        for converter, _ in converted(data):  # noqa: B007 (the last one is asked below)
            pass
        return converter.source.instructions

    assert benchmark(run) == counts["instructions"]
    rate(benchmark, data, counts)


def test_features(benchmark: Any, data: bytes, counts: dict[str, int]) -> None:
    """Everything after decompression: batches, rows, features, macro rows, encoded chunks."""

    def run() -> int:
        stage, rows = FeatureStage(8, 6, True), 0
        for _, r in converted(data):
            while stage.add(r):
                rows += stage.chunk()["rows"]
        while stage.finish():
            rows += stage.chunk()["rows"]
        return rows

    assert benchmark(run) == counts["instructions"]
    rate(benchmark, data, counts)


def encode(data: bytes) -> tuple[bytes, int]:
    encoder = ChampsimEncoder("x86")
    rows = converted(data, halves=False)
    out = b"".join(encoder.encode_rows(c.source.table(), r) for c, r in rows)
    return out, encoder.records


@pytest.fixture(scope="module")
def champsim(data: bytes) -> bytes:
    return encode(data)[0]


def records(benchmark: Any, champsim: bytes) -> None:
    done(benchmark, len(champsim) // 64, "records", len(champsim))


def test_champsim_read(benchmark: Any, champsim: bytes) -> None:
    def run() -> int:
        parser, n = ChampsimParser(EncodingTable()), 0
        for piece in pieces(champsim):
            parser.feed(piece)
            n += len(parser.take())
        return n

    assert benchmark(run) == len(champsim) // 64
    records(benchmark, champsim)


def test_peer_champsim_plain_python(benchmark: Any, champsim: bytes) -> None:
    def run() -> int:
        rows = [
            (ip, branch, taken, registers, [a for a in memory if a])
            for ip, branch, taken, *rest in struct.iter_unpack("<QBB6B6Q", champsim)
            for registers, memory in [(rest[:6], rest[6:])]
        ]
        return len(rows)

    assert benchmark.pedantic(run, rounds=1) == len(champsim) // 64
    records(benchmark, champsim)


def test_peer_champsim_numpy(benchmark: Any, champsim: bytes) -> None:
    """Columns of their own, without the table of static instructions."""

    def run() -> int:
        records = np.frombuffer(champsim, RECORD)
        columns = [np.ascontiguousarray(records[name]) for name in RECORD.names or ()]
        return len(columns[0])

    assert benchmark(run) == len(champsim) // 64
    records(benchmark, champsim)


def test_champsim_written(benchmark: Any, data: bytes, champsim: bytes) -> None:
    out, count = benchmark(encode, data)
    assert out == champsim and count == len(out) // 64
    records(benchmark, champsim)
