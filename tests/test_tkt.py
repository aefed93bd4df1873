"""The .tkt reader and the writer that the gem5 plug-in uses."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracekit
from tracekit import _core, schema
from tracekit.errors import FormatError

sys.path.insert(0, str(Path(__file__).parent))
from oracles import tkt as oracle

STAGES = ["fetch", "decode", "rename", "dispatch", "issue", "complete", "retire", "store"]
TAKEN, FAULT, PREDICATED, MISPREDICTED, ADDR, UNTIMED = 1, 2, 4, 8, 16, 32
HEADER = {
    "isa": "arm",
    "tick_frequency": 10**12,
    "op_classes": ["No_OpClass", "IntAlu", "MemRead", "NewerThanTracekit"],
    "flags": ["IsInteger", "IsLoad", "IsControl", "IsNewerThanTracekit"],
    "reg_classes": ["integer", "floating_point", "vector"],
}
Row = tuple[int, int, int, list[int]]


def write(rows: list[Row], statics: int = 3, **header: Any) -> bytes:
    writer = _core.TktWriter(HEADER | header)
    for i in range(statics):
        writer.add_static(0x1000 + 4 * i, op=1, flags=1, disassembly=f"  add   x{i}, x1, x2")
    for sid, flags, addr, ticks in rows:
        writer.add_row(sid, flags, addr, 8 if flags & ADDR else 0, ticks)
    writer.finish()
    return bytes(writer.take())


def read(
    data: bytes, cuts: list[int] | None = None, gem5_operands: bool = False
) -> tuple[Any, dict[str, Any]]:
    """The reader after ``data`` in pieces that end at ``cuts``, and its columns."""
    reader = _core.Tkt()
    if gem5_operands:
        reader.use_gem5_operands()
    parts = []
    edges = [0, *sorted(cuts or []), len(data)]
    for begin, end in itertools.pairwise(edges):
        reader.feed(data[begin:end])
        parts.append(reader.columns())
    reader.finish()
    return reader, {k: np.concatenate([p[k] for p in parts if k in p]) for k in parts[-1]}


def ticks_at(unit: int) -> st.SearchStrategy[list[int]]:
    """Ticks as gem5 gives them, and some that only the wide form can hold."""
    cycles = st.integers(0, 70_000).map(lambda c: c * unit)
    near = st.tuples(st.integers(1, 10**6), st.lists(cycles | st.just(-1), min_size=7, max_size=7))
    usual = near.map(lambda t: [t[0] * unit, *((t[0] * unit + d) * (d >= 0) for d in t[1])])
    return usual | st.lists(st.integers(0, 2**61 - 1), min_size=8, max_size=8)


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[Row], int, int]:
    unit = draw(st.sampled_from([1, 333, 500, 1000]))
    flags = st.integers(0, 31) | st.just(UNTIMED)
    row = st.tuples(st.integers(0, 2), flags, st.integers(0, 2**64 - 1), ticks_at(unit))
    return (
        draw(st.lists(row, max_size=40)),
        unit,
        draw(st.sampled_from([0, 0x41, 0x7F, 0xFF, 0x40])),
    )


@settings(max_examples=150)
@given(streams(), st.data())
def test_what_was_written_comes_back(
    stream: tuple[list[Row], int, int], data: st.DataObject
) -> None:
    rows, unit, stages = stream
    raw = write(rows, tick_unit=unit, stages=stages)
    cuts = data.draw(st.lists(st.integers(0, len(raw)), max_size=8))
    reader, got = read(raw, cuts)
    assert reader.complete() and "cut_off" not in reader.counters()
    assert got["sid"].tolist() == [r[0] for r in rows]
    assert got["addr"].tolist() == [r[2] if r[1] & ADDR else 0 for r in rows]
    if stages >> 6 & 1:
        for s, name in enumerate(STAGES):
            known = stages >> s & 1
            want = [0 if r[1] & UNTIMED or not known else r[3][s] for r in rows]
            assert got[name].tolist() == want, name
    else:
        assert "retire" not in got
    # An independent reading of the same bytes.
    for (sid, flags, addr, ticks), mine in zip(oracle.rows(raw), rows, strict=True):
        assert (sid, flags & 31) == (mine[0], mine[1] & 31)
        assert flags & UNTIMED or not mine[1] & UNTIMED
        assert addr == (mine[2] if mine[1] & ADDR else 0)
        known_ticks = [t if stages >> s & 1 else 0 for s, t in enumerate(mine[3])]
        assert ticks == ([0] * 8 if mine[1] & UNTIMED or not stages else known_ticks)


@pytest.mark.parametrize("stages", [0xFF, 0x41, 0])
def test_more_rows_than_columns_grow_by(stages: int) -> None:
    def row(i: int) -> Row:
        ticks = [500 * (i + s) * (s != 4 or i % 7 > 0) for s in range(8)]
        wide = i % 97 == 0  # no whole number of units
        return i % 3, ADDR * (i % 5 == 0) | UNTIMED * (i % 101 == 0), i, [t + wide for t in ticks]

    rows = [row(i) for i in range(1, 9500)]
    raw = write(rows, tick_unit=500, stages=stages)
    _, got = read(raw, [len(raw) // 2])
    want = oracle.rows(raw)
    assert got["sid"].tolist() == [r[0] for r in want]
    assert got["addr"].tolist() == [r[2] for r in want]
    assert ("retire" in got) == (stages != 0)
    for s, name in enumerate(STAGES if stages else []):
        assert got[name].tolist() == [r[3][s] for r in want], name


@pytest.mark.parametrize(("begin", "change"), [(0, 3000), (0, 1), (2500, 7000), (9000, 9001)])
def test_ticks_of_a_chunk_whose_clock_changes(begin: int, change: int, tmp_path: Path) -> None:
    """The encoder meets the unit of a chunk's ticks only with the rows that bring it."""

    def row(i: int) -> Row:
        period = 1000 if i < change else 700
        ticks = [0] * 8 if i < begin else [10**9 + period * (i + s) for s in range(8)]
        return i % 3, UNTIMED * (i < begin), 0, ticks

    rows = [row(i) for i in range(10_000)]
    (tmp_path / "t.tkt").write_bytes(write(rows, tick_unit=1000, stages=255))
    tracekit.extract(tmp_path / "t.tkt", tmp_path / "f.zst", chunk_rows=8000)
    trace = tracekit.open(tmp_path / "f.zst")
    for s, name in enumerate(STAGES):
        assert np.asarray(trace[name]).tolist() == [r[3][s] for r in rows], name


@pytest.mark.parametrize("stage", range(8))
@pytest.mark.parametrize("tick", [2**61, 2**63, 2**63 + 1, 2**64 - 1])
def test_a_tick_that_cannot_be(stage: int, tick: int) -> None:
    """Differences of 2^63 do not fit a column: where such begin, the rows end."""
    late = [1000] * 8
    late[stage] = tick
    raw = write([(0, 0, 0, [1000] * 8), (1, ADDR | 16, 64, late)], stages=0x7F | 0x80)
    reader, got = read(raw, [])
    if stage < 7:
        assert got["sid"].tolist() == [0]
        assert reader.counters()["damaged_record"]["count"] == 1


def test_a_row_of_no_static_instruction_ends_the_rows() -> None:
    raw = write([(0, ADDR, i, []) for i in range(5000)] + [(3, 0, 0, [])] + [(0, 0, 0, [])] * 9, 3)
    reader, got = read(raw)
    assert len(got["sid"]) == 5000 and got["addr"][-1] == 4999
    damage = reader.counters()["undefined_static"]
    assert damage["count"] == 1 and damage["first_offset"] == len(raw) - 28 - 10 * 3


def test_bits_say_what_is_known() -> None:
    rows = [(0, f, 64, [0] * 8) for f in (0, ADDR, TAKEN, FAULT, PREDICATED, MISPREDICTED)]
    _, all_told = read(write(rows, knows=15))
    assert all_told["bits"].tolist() == [48, 49, 50, 52, 112, 176]
    _, untold = read(write(rows, knows=0))
    assert untold["bits"].tolist() == [0, 1, 2, 4, 64, 128]


def test_usual_rows_are_small() -> None:
    def size(*rows: Row) -> int:
        header = {"tick_unit": 500, "stages": 255}
        first = (0, 0, 0, [500 * (i + 10) for i in range(7)])
        return len(write([first, *rows], **header)) - len(write([first], **header))

    near = [500 * (i + 12) for i in range(7)]
    assert size((1, 0, 0, near)) == 2 + 7  # the next static instruction
    assert size((0, 0, 0, near)) == 2 + 7 + 1
    assert size((1, 0, 0, [*near, 9999])) == 2 + 7 + 4
    assert size((1, ADDR, 0x7FFF_FFFF, near)) == 2 + 7 + 4 + 2  # and its access size
    again = size((1, ADDR, 0x4000, near), (0, 0, 0, near), (1, ADDR, 0x4000, near))
    assert again - size((1, ADDR, 0x4000, near), (0, 0, 0, near)) == 2 + 7
    assert size((1, 0, 0, [*near[:4], 500 * 300, 500 * 301, 500 * 302])) == 2 + 16
    assert size((1, 0, 0, [t + 1 for t in near])) == 2 + 56
    assert len(write([(0, 0, 0, [])], stages=0)) - len(write([], stages=0)) == 2


def operands(statics: dict[str, Any]) -> tuple[list[tuple[int, int]], list[tuple[int, int]], int]:
    """Sources, destinations and access size of the first static instruction."""

    def regs(kind: str) -> list[tuple[int, int]]:
        pairs = zip(statics[kind + "_class"][0], statics[kind + "_index"][0], strict=True)
        return [(int(c), int(i)) for c, i in pairs if c != 255]

    return regs("src"), regs("dst"), int(statics["access_size"][0])


def test_operands_from_the_text_or_from_gem5() -> None:
    writer = _core.TktWriter(HEADER)
    writer.add_static(
        0x10, op=2, flags=2, disassembly="  ldr   x1, [x2]", bytes=b"\x41\0\x40\xf9",
        src=[(0, 2), (1, 7)], dst=[(0, 40)],
    )  # fmt: skip
    writer.add_row(0, ADDR, 0x99, 4)
    writer.finish()
    raw = bytes(writer.take())
    text, _ = read(raw)
    want = _core.decode_text("arm", "ldr   x1, [x2]", "MemRead", ["IsLoad"])
    got = text.table(0).columns()
    assert operands(got) == (want["src"], want["dst"], want["access_size"])
    assert got["bytes"] == [b"\x41\0\x40\xf9"]
    exact = read(raw, gem5_operands=True)[0].table(0).columns()
    assert operands(exact) == ([(0, 2), (1, 7)], [(0, 40)], 4)


def test_names_of_a_newer_gem5_are_counted_and_kept() -> None:
    writer = _core.TktWriter(HEADER)
    writer.add_static(0x10, op=3, flags=0b1001, disassembly="  new   x1")
    writer.finish()
    reader, _ = read(bytes(writer.take()))
    assert reader.table(0).columns()["op_name"] == ["NewerThanTracekit"]
    assert set(reader.counters()) == {"unknown_flag", "unknown_op_class"}


def test_records_of_an_unknown_kind_are_skipped() -> None:
    raw = write([(0, 0, 0, [])])
    rows = oracle.rows(raw)
    for k in (4, 14):
        odd = raw[:-28] + bytes([k, 0, 3, 0]) + b"abc" + raw[-28:]
        reader, got = read(odd)
        assert reader.complete() and reader.counters()["unknown_record"]["count"] == 1
        assert len(got["sid"]) == len(rows)


def test_a_cut_stream_gives_what_came_before() -> None:
    rows: list[Row] = [(i % 3, ADDR * (i % 2), i, [500 * (i + 1)] * 8) for i in range(20)]
    raw = write(rows, tick_unit=500, stages=255)
    header = 16 + int.from_bytes(raw[12:16], "little")
    for n in range(len(raw)):
        if n < header:
            with pytest.raises(FormatError, match="ends inside"):
                read(raw[:n])
            continue
        reader, got = read(raw[:n])
        assert not reader.complete() and reader.counters()["cut_off"]["count"] == 1
        assert got["sid"].tolist() == [r[0] for r in rows][: len(got["sid"])]
    reader, _ = read(raw + b"more")
    assert reader.complete() and reader.counters()["bytes_after_end"]["count"] == 4


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (0, 0x88, "magic"),
        (8, 3, "version 3"),
        (8, 1, "trace again"),
        (14, 0xFF, "1 MiB"),
        (24, None, "tick unit"),
    ],
)
def test_a_header_that_cannot_be_used(place: int, value: int | None, message: str) -> None:
    raw = bytearray(write([]))
    new = bytes(8) if value is None else bytes([value])
    raw[place : place + len(new)] = new
    with pytest.raises(FormatError, match=message):
        read(bytes(raw))


def test_a_file_of_another_version_tells_where_it_says_so() -> None:
    raw = bytearray(write([]))
    raw[8] = 3
    with pytest.raises(FormatError) as told:
        read(bytes(raw))
    assert told.value.offset == 8


def test_a_header_shorter_than_its_tables() -> None:
    raw = bytearray(write([]))
    raw[12:16] = (int.from_bytes(raw[12:16], "little") - 1).to_bytes(4, "little")
    with pytest.raises(FormatError, match="shorter"):
        read(bytes(raw))


@settings(max_examples=200)
@given(streams(), st.data())
def test_damage_is_survived(stream: tuple[list[Row], int, int], data: st.DataObject) -> None:
    rows, unit, stages = stream
    raw = bytearray(write(rows, tick_unit=unit, stages=stages))
    for at in data.draw(st.lists(st.integers(0, len(raw) - 1), min_size=1, max_size=3)):
        raw[at] = data.draw(st.integers(0, 255))
    cuts = data.draw(st.lists(st.integers(0, len(raw)), max_size=4))
    try:
        reader, got = read(bytes(raw), cuts)
    except FormatError:
        return
    assert len({len(column) for column in got.values()}) == 1
    assert (got["sid"] < len(reader.table(0).columns()["pc"])).all()


def test_the_writer_refuses_what_the_format_cannot_hold() -> None:
    _core.TktWriter(HEADER | {"flags": ["f" * 0xFFFF]})
    for bad in (
        {"tick_unit": 0},
        {"flags": ["f"] * 65},
        {"flags": ["f" * 0x10000]},
        {"op_classes": ["x"] * 1025},
    ):
        with pytest.raises(ValueError, match="tkt"):
            _core.TktWriter(HEADER | bad)


@pytest.mark.parametrize("isa", ["arm", "x86"])
def test_the_same_features_as_from_the_text_of_the_same_run(isa: str, tmp_path: Path) -> None:
    """Real runs (golden/tkt): every column that both traces tell, on every row."""
    golden = Path(__file__).parent / "golden" / "tkt"
    result = tracekit.extract(golden / f"kern.{isa}.tkt.zst", tmp_path / "tkt.zst", strict=True)
    assert result.stats["complete"] and result.stats["isa"] == isa
    tracekit.extract(golden / f"kern.{isa}.out.xz", tmp_path / "text.zst")
    tkt, text = (tracekit.open(tmp_path / name) for name in ("tkt.zst", "text.zst"))
    assert len(tkt) == len(text) == result.rows
    timed = ~np.asarray(text["untimed"])  # the text of the last rows in flight is never printed
    assert not np.asarray(tkt["untimed"]).any() and timed.mean() > 0.99
    assert np.asarray(tkt["mispredicted"]).any()  # text does not tell
    bits = ("is_mem", "taken", "fault", "predicated_off")
    columns = {*schema.COLUMNS, *bits, *schema.STATIC_COLUMNS} - {"bits"}
    for name in sorted(columns):
        rows = timed if name in schema.STAGES else slice(None)
        np.testing.assert_array_equal(
            np.asarray(tkt[name])[rows], np.asarray(text[name])[rows], err_msg=name
        )
    assert np.asarray(tkt["store"]).any()
    if isa == "arm":  # the X86 run has not reached its first system call
        assert np.asarray(tkt["fault"]).sum() > 3
