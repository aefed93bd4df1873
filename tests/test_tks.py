"""The file of a recording: what is written is read, and damage is told, whatever it is."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.tks_blocks import code_block, epoch_block, varint

import tracekit
from tracekit import _core
from tracekit.errors import FormatError, TracekitError
from tracekit.inputs.tks import CODE, END, EPOCH, META, TksReader, TksWriter, is_tks, summary

N_FIELDS = len(_core.EPOCH_FIELDS)


u64 = st.integers(0, 2**64 - 1)
codes_strategy = st.lists(
    st.tuples(u64, st.binary(min_size=1, max_size=15)), min_size=1, max_size=8, unique=True
)


@st.composite
def recordings(draw: Any) -> tuple[list[tuple[int, bytes]], list[Any]]:
    codes = draw(codes_strategy)
    access = st.tuples(u64, st.integers(0, 2**32 - 1), st.integers(0, 1))
    row = st.tuples(
        st.integers(0, len(codes) - 1), st.integers(0, 15), st.lists(access, max_size=4)
    )
    fields = st.lists(u64, min_size=N_FIELDS, max_size=N_FIELDS + 2)
    epochs = draw(st.lists(st.tuples(fields, st.lists(row, max_size=20)), max_size=3))
    for f, _ in epochs:
        f[_core.EPOCH_FIELDS.index("reason")] %= len(_core.END_REASONS)
    return codes, epochs


@settings(max_examples=60)
@given(recordings())
def test_reads_what_the_document_says(content: tuple[list[tuple[int, bytes]], list[Any]]) -> None:
    codes, epochs = content
    table = _core.EncodingTable()
    decoder = _core.TksDecoder(table)
    half = len(codes) // 2
    assert decoder.block(code_block(0, codes[:half])) == CODE
    assert decoder.block(code_block(half, codes[half:])) == CODE
    assert [(table[i][0], table[i][3][: table[i][1]]) for i in range(len(table))] == codes
    for fields, rows in epochs:
        assert decoder.block(epoch_block(fields, rows)) == EPOCH
        assert list(decoder.info.values()) == fields[:N_FIELDS]
        r = decoder.take()
        assert r.encoding.tolist() == [x[0] for x in rows]
        assert r.bits.tolist() == [x[1] for x in rows]
        flat = [a for x in rows for a in x[2]]
        assert r.address.tolist() == [a[0] for a in flat]
        assert r.access_size.tolist() == [a[1] for a in flat]
        assert r.is_store.tolist() == [a[2] for a in flat]


def write(path: Path, blocks: list[bytes], end: bool = True) -> None:
    writer = TksWriter(path, arch="x86", meta={"command": ["x"]}, force=True)
    for b in blocks:
        writer.block(b)
    if end:
        writer.close({"epochs": len(blocks)})
    else:
        writer.flush()
        (part,) = path.parent.glob(f"{path.name}.*.part")
        path.write_bytes(part.read_bytes())
        writer.discard()


SMALL = [
    code_block(0, [(0x1000, b"\x90"), (0x1001, b"\xc3")]),
    epoch_block([0] * N_FIELDS, [(0, 4, []), (1, 3, [(0x7FFF0000, 8, 0)])]),
]


@settings(max_examples=40)
@given(recordings())
def test_what_the_recorder_encodes_is_what_the_document_says(content: Any) -> None:
    codes, epochs = content
    table = _core.EncodingTable()
    decoder = _core.TksDecoder(table)
    assert decoder.block(code_block(0, codes)) == CODE
    # None of the codes is there twice, or the table would be shorter.
    assert _core.tks_code_block(table, 0) == code_block(0, codes)
    for fields, rows in epochs:
        block = epoch_block(fields[:N_FIELDS], rows)
        assert decoder.block(block) == EPOCH
        info = decoder.info
        assert _core.tks_epoch_block(info, decoder.take()) == block


def test_file(tmp_path: Path) -> None:
    path = tmp_path / "a.tks"
    write(path, SMALL)
    data = path.read_bytes()
    assert is_tks(data[:16]) and not is_tks(b"PK\x03\x04" * 4)
    whole = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read()
    assert whole[:1] == bytes([META]) and b"".join(SMALL) in whole
    assert [p.name for p in tmp_path.iterdir()] == ["a.tks"]
    s = summary(path)
    assert (s["epochs"], s["instructions"], s["accesses"], s["complete"]) == (1, 2, 1, True)
    assert s["reasons"] == {"length": 1}
    write(path, SMALL, end=False)
    assert not summary(path)["complete"]


def test_the_end_is_read_without_the_epochs(tmp_path: Path) -> None:
    for end in (True, False):
        write(tmp_path / "a.tks", SMALL, end=end)
        with TksReader(tmp_path / "a.tks") as whole, TksReader(tmp_path / "a.tks") as alone:
            assert len(list(whole.epochs())) == 1
            alone.read_end()
            assert alone.totals == whole.totals and (alone.totals is not None) == end


def test_a_file_that_ends_inside_a_block_has_the_blocks_before(tmp_path: Path) -> None:
    path = tmp_path / "a.tks"
    write(path, SMALL[:1] + [SMALL[1]] * 3, end=False)
    raw = path.read_bytes()
    write(path, SMALL[:1] + [SMALL[1]] * 2, end=False)
    for size in range(path.stat().st_size + 1, len(raw)):
        path.write_bytes(raw[:size])
        s = summary(path)
        assert (s["epochs"], s["instructions"], s["complete"]) == (2, 4, False)
    result = tracekit.extract(path, tmp_path / "f.zst")
    assert result.anomalies == {"the recording was cut short": {"count": 1}}
    with pytest.raises(FormatError, match="cut short"):  # nothing is there yet
        path.write_bytes(raw[:50])
        summary(path)


def test_nothing_is_left_of_an_abandoned_file(tmp_path: Path) -> None:
    with TksWriter(tmp_path / "a.tks", arch="x86", meta={}):
        pass
    assert not list(tmp_path.iterdir())
    with pytest.raises(TracekitError):
        TksWriter(tmp_path / "none" / "a.tks", arch="x86", meta={})


def everything(path: Path) -> None:
    with TksReader(path) as reader:
        list(reader.epochs())


@settings(max_examples=150)
@given(st.data())
def test_damage_is_told(data: Any) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.tks"
        write(path, SMALL)
        raw = bytearray(path.read_bytes())
        at = data.draw(st.integers(0, len(raw) - 1))
        if data.draw(st.booleans()):
            path.write_bytes(raw[:at])
        else:
            raw[at] ^= data.draw(st.integers(1, 255))
            path.write_bytes(raw)
        try:
            everything(path)
        except FormatError as e:
            assert e.path == str(path)


@settings(max_examples=300)
@given(st.binary(max_size=80), st.sampled_from(SMALL), st.integers(0, 60))
def test_any_payload(noise: bytes, block: bytes, at: int) -> None:
    decoder = _core.TksDecoder(_core.EncodingTable())
    decoder.block(SMALL[0])
    for payload in (noise, block[:at] + noise, block[:at] + noise + block[at + len(noise) :]):
        try:
            decoder.block(payload)
        except FormatError as e:
            assert e.offset is not None and e.offset <= len(payload)


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (b"\x07", "unknown kind"),
        (code_block(5, [(1, b"\x90")]), "missing before it"),
        (code_block(2, [(0x1000, b"\x90")]), "twice"),
        (epoch_block([0] * N_FIELDS, [(9, 0, [])]), "without machine code"),
        (epoch_block([0] * 12 + [99, 0], []), "unknown reason"),
        (
            bytes([EPOCH]) + varint(N_FIELDS) + b"\0" * N_FIELDS + varint(2**60) + b"\0" * 6,
            "differ in number",
        ),
        (bytes([CODE]) + varint(2) + varint(2**40) + b"\0" * 3, "larger than it can be"),
    ],
)
def test_claims_are_checked(tmp_path: Path, block: bytes, message: str) -> None:
    path = tmp_path / "a.tks"
    write(path, [*SMALL, block])
    with pytest.raises(FormatError, match=message):
        everything(path)


def test_sizes_are_checked_before_memory_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "a.tks"
    write(path, SMALL)
    raw = bytearray(path.read_bytes())
    at = 24 + 8  # the first block's kind
    for offset, value in ((at + 4, 2**32 - 1), (at + 8, 2**32 - 1), (at + 8, 7)):
        bad = bytearray(raw)
        struct.pack_into("<I", bad, offset, value)
        path.write_bytes(bad)
        with pytest.raises(FormatError):
            everything(path)
    assert END == 4


def test_an_instruction_of_many_accesses(tmp_path: Path) -> None:
    """A `rep` string touches thousands of addresses; data_reuse counts instructions all the
    same."""
    import tracekit

    path = tmp_path / "x.tks"
    rep, load = (0x1000, b"\xf3\x48\xab"), (0x1003, b"\x48\x8b\x00")  # rep stosq; mov rax, [rax]
    stores = [(0x10000 + 8 * i, 8, 1) for i in range(20_000)]
    later = [(0x10000 + 8 * i, 8, 0) for i in (19_999, 0, 4096, 19_999)]
    rows = [(0, 0, stores), *((1, 0, [a]) for a in later), (0, 0, stores[:5])]
    with TksWriter(path, arch="x86", meta={}) as w:
        w.block(code_block(0, [rep, load]))
        w.block(epoch_block([0] * N_FIELDS, rows))
        w.close({})
    tracekit.extract(path, tmp_path / "f", level="macro")
    with tracekit.open(tmp_path / "f") as f:
        assert f["addr"].tolist() == [0x10000, *(a for a, _, _ in later), 0x10000]
        assert f["data_reuse"].tolist() == [1000, 1, 2, 3, 3, 3]
