"""drmemtrace: counts, rows, threads, damage."""

from __future__ import annotations

import gzip
import itertools
import lzma
import os
import random
import shutil
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from drmemtrace_records import rec
from hypothesis import example, given, settings
from hypothesis import strategies as st
from oracles.drmemtrace_counts import drmemtrace_counts

import tracekit
from tracekit._core import DrmemtraceParser, EncodingTable, NativeBatch
from tracekit.cli.main import main
from tracekit.errors import FormatError, TracekitError, UsageError
from tracekit.inputs.archives import chunks
from tracekit.inputs.drmemtrace import Drmemtrace, Thread, is_drmemtrace, thread_files

GOLDEN = Path(__file__).parent / "golden" / "drmemtrace"
SHARED = (
    Path(os.environ.get("TRACEKIT_SHARED", Path(__file__).parents[2] / "shared" / "traces"))
    / "drmemtrace"
)
COLUMNS = ("encoding", "bits", "first_access", "address", "access_size", "is_store")
TAKEN, TAKEN_KNOWN, RESTART = 1, 2, 4


def stream(*records: bytes, version: int = 5, filetype: int = 0xE40) -> bytes:
    head = (
        rec(25, 0, version)
        + rec(28, 12, version)
        + rec(28, 9, filetype)
        + rec(22, 4, 7)
        + rec(24, 4, 7)
    )
    return head + b"".join(records) + rec(23, 4, 7) + rec(26)


def code(*bytes_: int) -> bytes:
    return struct.pack("<HH8s", 47, len(bytes_), bytes(bytes_))


def parse(
    data: bytes, cuts: list[int] | None = None
) -> tuple[DrmemtraceParser, dict[str, list[int]], list[int]]:
    """Everything at once, or in pieces that end at ``cuts``; columns joined, with absolute
    positions."""
    table = EncodingTable()
    parser = DrmemtraceParser(table)
    out: dict[str, list[int]] = {c: [] for c in COLUMNS}
    stamps: list[int] = []

    def take() -> None:
        batch, times = parser.take()
        rows, accesses = len(out["encoding"]), len(out["address"])
        for c in COLUMNS:
            shift = accesses if c == "first_access" else 0
            out[c] += [int(v) + shift for v in getattr(batch, c)]
        for row, value in times.tolist():
            stamps.extend((row + rows, value))

    edges = [0, *sorted(cuts or []), len(data)]
    for lo, hi in itertools.pairwise(edges):
        parser.feed(data[lo:hi])
        take()
    parser.finish()
    take()
    return parser, out, stamps


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.zip")), ids=lambda p: p.name)
def test_counts_are_those_of_the_oracle(path: Path) -> None:
    data = b"".join(chunks(path))
    parser, rows, _ = parse(data)
    want = drmemtrace_counts(data)
    assert want.pop("unique") == len(parser.fetched()[0])
    assert {k: parser.counts[k] for k in want} == want
    assert parser.version == 5 and parser.filetype == 0xE40 and not parser.anomalies
    assert len(rows["encoding"]) == want["instructions"]
    assert len(rows["address"]) == want["loads"] + want["stores"]
    assert sum(rows["is_store"]) == want["stores"]


@settings(max_examples=25)
@given(st.data())
def test_pieces_cut_anywhere_change_nothing(data: st.DataObject) -> None:
    path = sorted(GOLDEN.glob("*.zip"))[1]
    content = b"".join(chunks(path))[: 12 * 3000]
    cuts = data.draw(st.lists(st.integers(0, len(content)), max_size=8))
    _, whole, stamps = parse(content)
    _, pieces, stamps_of_pieces = parse(content, cuts)
    assert pieces == whole and stamps_of_pieces == stamps


NO_INSTRUCTION = (0, 1, 28, 47, *range(2, 10), 27, *range(32, 47))
RECORDS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from([0, 1]), st.just(8), st.integers(0, 2**64 - 1)),
        st.tuples(
            st.sampled_from([10, 11, 12, 13, 14, 15, 16, 29, 31, 48, 49]),
            st.integers(1, 15),
            st.integers(0x1000, 0x1010),
        ),
        # Prefetches of every kind, which are no accesses.
        st.tuples(st.sampled_from([*range(2, 10), 27, *range(32, 47)]), st.just(8), st.just(99)),
        st.tuples(st.just(28), st.sampled_from([2, 3, 20, 21, 0, 1, 25]), st.integers(1, 9)),
        st.tuples(st.just(47), st.integers(1, 8), st.integers(0, 3)),
    ),
    max_size=60,
)


@example([(28, 21, 1), (28, 20, 1), (28, 2, 1)], [])  # a footer before any chunk
@given(RECORDS, st.lists(st.integers(0, 700), max_size=5))
def test_any_records_count_as_the_oracle_says(
    records: list[tuple[int, int, int]], cuts: list[int]
) -> None:
    # Machine code counts where its length is that of its instruction: make it so, or drop it.
    fixed: list[tuple[int, int, int]] = []
    for kind, size, value in records:
        if fixed and fixed[-1][0] == 47 and (kind in NO_INSTRUCTION or fixed[-1][1] != size):
            fixed.pop()
        fixed.append((kind, size, value))
    if fixed and fixed[-1][0] == 47:
        fixed.pop()
    data = stream(*(rec(*r) for r in fixed))
    parser, rows, _ = parse(data, [c for c in cuts if c < len(data)])
    want = drmemtrace_counts(data)
    assert want.pop("unique") == len(parser.fetched()[0])
    assert {k: parser.counts[k] for k in want} == want
    assert rows["first_access"] == sorted(rows["first_access"])


def test_a_trace_of_many_instructions() -> None:
    pcs = [0x1000 + 3 * k for k in range(5000)]
    data = stream(*(code(0x90) + rec(10, 1, pc) for pc in [*pcs, *pcs[::-1]]))
    parser, rows, _ = parse(data)
    assert sorted(parser.fetched()[0]) == pcs
    assert rows["encoding"][5000:] == rows["encoding"][4999::-1]


def test_rep_iterations_join_their_instruction() -> None:
    data = stream(
        code(0xF3, 0xA4) + rec(10, 2, 0x1000) + rec(0, 1, 1) + rec(1, 1, 2),
        *(rec(29, 2, 0x1000) + rec(0, 1, 3) + rec(1, 1, 4) for _ in range(3)),
        code(0x90) + rec(10, 1, 0x1002),
    )
    parser, rows, _ = parse(data)
    assert rows["first_access"] == [0, 8] and rows["is_store"] == [0, 1] * 4
    assert parser.counts["no_fetch"] == 3


def test_outcomes() -> None:
    jz = code(0x74, 0x10) + rec(49, 2, 0x1000)
    jz_taken = rec(48, 2, 0x1000)
    old = rec(13, 2, 0x1012)  # below version 5 the next pc tells
    _, rows, _ = parse(
        stream(jz, jz_taken, rec(10, 1, 0x1012), old, rec(10, 1, 0x1014), old, rec(10, 1, 0x2000))
    )
    known = [b & (TAKEN | TAKEN_KNOWN) for b in rows["bits"]]
    assert known == [TAKEN_KNOWN, TAKEN_KNOWN | TAKEN, 0, TAKEN_KNOWN, 0, TAKEN_KNOWN | TAKEN, 0]


def test_a_signal_breaks_the_sequence_and_decides_the_branch_before_it() -> None:
    old = rec(13, 2, 0x1000)
    handler = rec(10, 1, 0x9000)
    for interrupted, taken in ((0x1002, 0), (0x1010, TAKEN)):
        _, rows, _ = parse(stream(old, rec(28, 0, interrupted), handler))
        assert rows["bits"] == [RESTART | TAKEN_KNOWN | taken, RESTART]


def test_code_may_change_under_one_pc() -> None:
    table = EncodingTable()
    parser = DrmemtraceParser(table)
    parser.feed(stream(code(0x90) + rec(10, 1, 16), rec(10, 1, 16), code(0xCC) + rec(10, 1, 16)))
    parser.finish()
    batch, _ = parser.take()
    assert batch.encoding.tolist() == [0, 0, 1]
    assert [table[i][3][:1] for i in range(2)] == [b"\x90", b"\xcc"]


def test_no_machine_code() -> None:
    """Version 1 has no file type and no code: length and kind of branch are all there is."""
    table = EncodingTable()
    parser = DrmemtraceParser(table)
    parser.feed(
        rec(25, 0, 1) + rec(22, 4, 7) + rec(24, 4, 7) + rec(10, 4, 16) + rec(16, 1, 20) + rec(26)
    )
    parser.finish()
    batch, _ = parser.take()
    assert parser.filetype is None and len(batch) == 2
    assert table[0][:3] == (16, 4, False) and table[1][3][14] == 6  # BranchKind::ret


def test_damage_is_told() -> None:
    with pytest.raises(FormatError, match="no drmemtrace header"):
        DrmemtraceParser(EncodingTable()).feed(bytes(24))
    with pytest.raises(FormatError, match="type 77 is unknown") as e:
        DrmemtraceParser(EncodingTable()).feed(rec(25, 0, 5) + rec(77))
    assert e.value.offset == 12 and e.value.hint
    parser, _, _ = parse(stream()[:-12])
    assert list(parser.anomalies) == ["the stream has no footer: it was cut short"]
    parser, _, _ = parse(stream() + b"x")
    assert list(parser.anomalies) == ["the stream ends inside a record"]
    with pytest.raises(FormatError):
        DrmemtraceParser(EncodingTable()).finish()


def test_every_compression(tmp_path: Path) -> None:
    data = stream(rec(10, 1, 16), rec(0, 8, 5))
    lz4 = pytest.importorskip("lz4.frame")
    zstandard = pytest.importorskip("zstandard")
    import zlib

    packed = {
        "t.gz": gzip.compress(data[:20]) + gzip.compress(data[20:]),
        "t.xz": lzma.compress(data),
        "t.zst": zstandard.compress(data),
        "t.lz4": lz4.compress(data),
        "t.zlib": zlib.compress(data),
        "t": data,
    }
    for name, content in packed.items():
        (tmp_path / name).write_bytes(content)
        assert b"".join(chunks(tmp_path / name, 7)) == data, name
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as z:
        z.writestr("chunk.0000", data[:30], zipfile.ZIP_DEFLATED)
        z.writestr("chunk.0001", data[30:], zipfile.ZIP_STORED)
    assert b"".join(chunks(tmp_path / "t.zip", 7)) == data


@pytest.mark.parametrize("suffix", ["zip", "gz", "xz", "zst", "lz4"])
def test_damaged_files_raise_and_never_crash(tmp_path: Path, suffix: str) -> None:
    data = b"".join(chunks(sorted(GOLDEN.glob("*.zip"))[1]))[:60000]
    good = tmp_path / f"good.{suffix}"
    if suffix == "zip":
        with zipfile.ZipFile(good, "w", zipfile.ZIP_DEFLATED) as z:
            z.writestr("chunk.0000", data)
    elif suffix == "gz":
        good.write_bytes(gzip.compress(data))
    elif suffix == "xz":
        good.write_bytes(lzma.compress(data))
    else:
        module = pytest.importorskip("zstandard" if suffix == "zst" else "lz4.frame")
        good.write_bytes(module.compress(data))
    content, rng = good.read_bytes(), random.Random(1)
    for _ in range(60):
        bad = bytearray(content)
        for _ in range(rng.randint(1, 3)):
            bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
        if rng.random() < 0.3:
            bad = bad[: rng.randrange(len(bad))]
        (tmp_path / "bad").write_bytes(bad)
        thread = Thread(tmp_path / "bad", EncodingTable())
        try:
            for _ in thread.batches():
                pass
        except TracekitError as e:
            assert e.path == str(tmp_path / "bad")


def test_folder_and_interleaving() -> None:
    trace = Drmemtrace(GOLDEN)
    assert [t.path.name.split(".")[2] for t in trace.threads] == ["2765542", "2765543", "2765552"]
    assert trace.arch == "x86" and trace.version == 5 and trace.described == "branch_kind"
    joined = list(trace.interleaved(rows=5000))
    apart = Drmemtrace(GOLDEN)
    batches = [b for t in apart.threads for b, _ in t.batches()]
    assert trace.counts() == apart.counts()
    assert trace.counts()["threads"] == 3
    assert sum(map(len, joined)) == sum(map(len, batches)) == trace.counts()["instructions"]
    assert sorted(np.concatenate([b.address for b in joined])) == sorted(
        np.concatenate([b.address for b in batches])
    )


@pytest.mark.parametrize("damaged", [0, 1])
def test_a_damaged_thread_leaves_the_others(tmp_path: Path, damaged: int) -> None:
    """All of them end in an error that names the file; one that is whole is read by --cpu."""
    folder = tmp_path / "trace"
    shutil.copytree(GOLDEN, folder)
    files = [t.path for t in Drmemtrace(folder).threads]
    whole = tracekit.extract(folder, tmp_path / "a.zst", cpu="2765552").outputs[0]
    files[damaged].write_bytes(files[damaged].read_bytes()[:1000])
    with pytest.raises(TracekitError, match="--cpu reads one thread's file") as told:
        tracekit.extract(folder, tmp_path / "b.zst")
    assert told.value.path == str(files[damaged])
    (one,) = tracekit.extract(folder, tmp_path / "b.zst", cpu="2765552").outputs
    assert one.rows == whole.rows > 1000
    with pytest.raises(UsageError, match="no CPU '7'"):
        tracekit.extract(folder, tmp_path / "c.zst", cpu="7")


def test_interleaving_follows_the_timestamps(tmp_path: Path) -> None:
    def thread(tid: int, *stretches: tuple[int, int]) -> None:
        body = b"".join(rec(28, 2, t) + rec(28, 3, 0) + rec(10, 1, pc) for t, pc in stretches)
        (tmp_path / f"drmemtrace.x.{tid}.trace").write_bytes(
            rec(25, 0, 5) + rec(28, 9, 0x40) + rec(22, 4, tid) + rec(24, 4, 1) + body + rec(26)
        )

    thread(1, (10, 0xA0), (30, 0xA1), (30, 0xA2))
    thread(2, (10, 0xB0), (20, 0xB1), (40, 0xB2))
    trace = Drmemtrace(tmp_path)
    batch = NativeBatch.joined([(b, 0, len(b), False) for b in trace.interleaved(rows=1)])
    pcs = trace.table.pcs()[batch.encoding]
    assert pcs.tolist() == [0xA0, 0xB0, 0xB1, 0xA1, 0xA2, 0xB2]


def test_what_is_no_trace(tmp_path: Path) -> None:
    assert not is_drmemtrace(b"") and not is_drmemtrace(bytes(12)) and is_drmemtrace(rec(25, 0, 7))
    with pytest.raises(TracekitError, match="no drmemtrace files"):
        thread_files(tmp_path)
    (tmp_path / "raw").mkdir()
    with pytest.raises(TracekitError, match="raw2trace"):
        thread_files(tmp_path)
    (tmp_path / "x").write_bytes(b"hello, world, this is text")
    with pytest.raises(FormatError, match="not a drmemtrace"):
        Drmemtrace(tmp_path / "x")
    with pytest.raises(TracekitError):
        Drmemtrace(tmp_path / "absent")


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the shared trace")
def test_counts_are_those_of_dynamorio() -> None:
    """As its own basic_counts tool reports them for this trace, over all and for one thread."""
    trace = Drmemtrace(SHARED)
    for t in trace.threads:
        for _ in t.batches():
            pass
    got = trace.counts()
    want = {
        "instructions": 15_885_247,
        "unique": 8_965,
        "no_fetch": 12_600_066,
        "loads": 15_219_806,
        "stores": 17_411_738,
        "threads": 21,
        "schedule_markers": 22_144,
        "transfer_markers": 144,
        "encodings": 15_613,
    }
    assert {k: got[k] for k in want} == want
    others = ("other_markers", "syscall_markers", "blocking_syscall_markers")
    assert sum(got[k] for k in others) == 333
    one = next(t for t in trace.threads if t.parser.threads == [2765543])
    assert one.parser.counts["instructions"] == 790_361
    assert len(one.parser.fetched()[0]) == 346
    assert not trace.anomalies()


def test_interleaved_threads_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of one file, in which the threads of a drmemtrace take turns; not of one thread's own."""
    feats = str(tmp_path / "f.zst")
    tracekit.extract(str(GOLDEN), feats, threads="interleaved")
    said = f"tracekit: {feats}: the rows of 3 threads are walked as one thread's on one core"
    for command in ("predict F -q", "simulate F -q -m u007", "what-if F --machine u007 rob=16"):
        assert main([feats if a == "F" else a for a in command.split()]) == 0
        assert capsys.readouterr().err.startswith(said), command
    assert main(["report", feats, "-o", str(tmp_path / "r.html"), "--machine", "u007"]) == 0
    assert "3 threads are walked as one" in (tmp_path / "r.html").read_text()
    capsys.readouterr()
    alone = tracekit.extract(str(GOLDEN), str(tmp_path / "each.zst")).outputs[0].path
    assert main(["simulate", alone, "-q", "-m", "u007"]) == 0
    assert capsys.readouterr().err == ""
