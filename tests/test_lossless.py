"""Rows that went into the encoder are the rows that come out of the written file."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
import synthetic
from drmemtrace_records import rec, thread_of
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.tks_blocks import code_block, epoch_block
from test_tks import recordings
from test_tks import write as write_tks
from test_tkt import streams
from test_tkt import write as write_tkt

from tracekit import schema
from tracekit.cli.main import main
from tracekit.errors import TracekitError
from tracekit.extraction import extract
from tracekit.store.reader import TraceFile
from tracekit.store.verification import verify
from tracekit.store.writer import Writer

MANY = settings(max_examples=25)

#: One pc with an access and then without, as every `rep stos` ends.
TWICE = "".join(f"I  {pc:08x},4\n" for pc in (*range(0x401000, 0x401018, 4), 0x402000))
TWICE += " L 01ffe000,8\nI  00402000,4\n"


def test_an_instruction_with_and_without_an_access(tmp_path: Path) -> None:
    """The table's upc is that by which the rows were encoded."""
    (tmp_path / "t").write_text(TWICE)
    out = tmp_path / "feats.zst"
    extract(tmp_path / "t", out, level="macro")
    assert main(["verify", str(out)]) == 0
    with TraceFile(out) as f:
        assert f["is_mem"].tolist() == [False] * 6 + [True, False]
        assert not f["fault"].any()
        assert f.statics.upc.tolist() == [0] * 8


@pytest.mark.parametrize("column", ["static_id", "bits", "addr", "fetch_distance", "retire"])
def test_a_column_that_is_read_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column: str
) -> None:
    """--verify names column and chunk, and no file stays."""
    (tmp_path / "t").write_text(synthetic.text(5, 700))
    out = tmp_path / "feats.zst"
    whole = Writer.chunk

    def other(self: Writer, encoded: Any) -> None:
        if self._chunks:  # the second chunk: its last value is another one
            data = bytearray(encoded["streams"][column])
            data[-2 if column == "static_id" else -1] ^= 2
            encoded = {**encoded, "streams": {**encoded["streams"], column: bytes(data)}}
        whole(self, encoded)

    monkeypatch.setattr(Writer, "chunk", other)
    with pytest.raises(TracekitError, match=rf"column {column}.* chunk"):
        extract(tmp_path / "t", out, chunk_rows=256, verify=True)
    assert [p.name for p in tmp_path.iterdir()] == ["t"]


def test_each_value_counts(tmp_path: Path) -> None:
    """The hash of a column changes with any of its values, and only its own."""
    (tmp_path / "t").write_text(synthetic.text(6, 300))
    extract(tmp_path / "t", tmp_path / "f.zst")
    with TraceFile(tmp_path / "f.zst") as f:
        chunk = f.chunk(0)
        before = chunk.hashes()
        assert list(before) == list(schema.COLUMNS)
        window = bytearray(chunk._read("window_now"))
        seen = {before["window_now"]}
        for k in range(len(window)):
            changed = bytearray(window)
            changed[k] = (changed[k] + 1) % 17
            chunk._read = lambda n, c=bytes(changed): (
                c if n == "window_now" else f.stream(f.index["chunks"][0]["streams"][n])
            )
            after = chunk.hashes()
            assert {n for n in before if before[n] != after[n]} == {"window_now"}
            seen.add(after["window_now"])
        assert len(seen) == len(window) + 1


def read_back(tmp: Path, data: bytes, name: str = "t", **options: Any) -> None:
    (tmp / name).write_bytes(data)
    try:
        extract(tmp / name, tmp / "f.zst", force=True, chunk_rows=256, verify=True, **options)
    except TracekitError as e:
        assert "no committed instruction" in str(e), e
        return
    assert [p for p in verify(tmp / "f.zst") if not p.endswith("on a row that retired")] == []


@pytest.fixture(scope="module")
def tmp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lossless")


LEVELS = st.sampled_from(["micro", "macro"])


@MANY
@given(st.integers(0, 2**31), st.integers(1, 600), st.sampled_from(["both", "o3", "exec"]), LEVELS)
def test_gem5_text(tmp: Path, seed: int, rows: int, kind: str, level: str) -> None:
    text = synthetic.text(seed, rows, exec_lines=kind != "o3", blocks=kind != "exec")
    read_back(tmp, text.encode(), level=level)


#: (place, accesses): few places, so that each is run with and without.
STEPS = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.lists(st.tuples(st.integers(0, 2**48), st.booleans()), max_size=3),
        st.booleans(),
    ),
    min_size=6,
    max_size=80,
)


@MANY
@given(STEPS)
def test_lackey(tmp: Path, steps: list[Any]) -> None:
    head = "".join(f"I  {pc:08x},4\n" for pc in range(0x401000, 0x401018, 4))
    body = "".join(
        f"I  {0x402000 + 4 * k:08x},4\n"
        + "".join(f" {'S' if store else 'L'} {at:08x},8\n" for at, store in accesses)
        for k, accesses, _ in steps
    )
    read_back(tmp, (head + body).encode(), level="macro")


@MANY
@given(STEPS)
def test_execlog(tmp: Path, steps: list[Any]) -> None:
    codes = (0x90, 0x038B, 0x0389, 0x1074, 0xA4F3, 0x050F)
    body = "".join(
        f'0, 0x{0x402000 + 4 * k:x}, 0x{codes[k]:x}, "x"'
        + "".join(f", {'store' if store else 'load'}, 0x{at:x}" for at, store in accesses)
        + "\n"
        for k, accesses, _ in steps
    )
    read_back(tmp, body.encode(), level="macro", isa="x86")


@MANY
@given(STEPS)
def test_champsim(tmp: Path, steps: list[Any]) -> None:
    body = b""
    for k, accesses, taken in steps:
        loads = [at for at, store in accesses if not store][:4]
        stores = [at for at, store in accesses if store][:2]
        memory = [*stores, *[0] * (2 - len(stores)), *loads, *[0] * (4 - len(loads))]
        regs = (26, 0, 26, 25, 0, 0) if k == 0 else (1, 0, 2, 3, 0, 0)
        branch = k == 0
        body += struct.pack("<QBB6B6Q", 0x402000 + 4 * k, branch, branch and taken, *regs, *memory)
    read_back(tmp, body, "t.champsimtrace", level="macro")


@MANY
@given(STEPS)
def test_drmemtrace(tmp: Path, steps: list[Any]) -> None:
    body = b""
    for k, accesses, taken in steps:
        kind = (10, 10, 48 if taken else 49, 15, 10, 10)[k]
        body += rec(kind, 4, 0x402000 + 4 * k)
        body += b"".join(rec(int(store), 8, at) for at, store in accesses)
    read_back(tmp, thread_of(body), level="macro")


@MANY
@given(recordings())
def test_tks(tmp: Path, content: Any) -> None:
    codes, epochs = content
    blocks = [code_block(0, codes), *(epoch_block(f, rows) for f, rows in epochs)]
    write_tks(tmp / "r.tks", blocks)
    read_back(tmp, (tmp / "r.tks").read_bytes(), "r.tks", level="macro")


@MANY
@given(streams(), LEVELS)
def test_tkt(tmp: Path, stream: Any, level: str) -> None:
    rows, unit, stages = stream
    read_back(tmp, write_tkt(rows, tick_unit=unit, stages=stages), level=level)


@MANY
@given(STEPS)
def test_authors_format(tmp: Path, steps: list[Any]) -> None:
    """Stores are in a file of their own; op classes 47 and 48 are MemRead and MemWrite."""
    main_lines, store_lines = [], []
    for n, (k, accesses, taken) in enumerate(steps):
        at, store = accesses[0] if accesses else (0, False)
        op = (48 if store else 47) if accesses else 1
        head = [int(k == 5), n if store else -1, 1000 * n, 500, 9000, 500, 1000, 1500, 2000]
        branch = [int(k == 0), 0, 1]
        body = [op, 0, *branch, *[0] * 9, int(bool(accesses)), at, 8, *[0] * 10]
        body += [0x402000 + 4 * k, int(taken), 0, *[0] * 9, 2, 1, 0, 1, 0, 2, 0, 3]
        main_lines.append(head if store else head + body)
        if store:
            store_lines.append([*head, 9600, 9700, *body])
    text, stores = (
        "".join(" ".join(map(str, line)) + "\n" for line in lines)
        for lines in (main_lines, store_lines)
    )
    (tmp / "trace.sq.txt").write_text(stores)
    read_back(tmp, text.encode(), "trace.txt", level="micro")
