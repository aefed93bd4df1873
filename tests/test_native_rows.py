"""Native batches to rows and macro rows: accesses, outcomes, described instructions, text
streams."""

from __future__ import annotations

import itertools
import random
import struct
from pathlib import Path

import column_pins
import pytest
from drmemtrace_records import rec, thread_of
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.branch_entropy import branch_features
from oracles.native_macro import native_macro

from tracekit import _core
from tracekit._core import DrmemtraceParser, EncodingTable
from tracekit.errors import TracekitError, UsageError
from tracekit.extraction import extract
from tracekit.inputs.drmemtrace import Drmemtrace
from tracekit.inputs.native import NativeConverter
from tracekit.inputs.native_sources import execlog_arch, recognise
from tracekit.isa.types import BRANCH_KINDS
from tracekit.store.reader import TraceFile

GOLDEN = Path(__file__).parent / "golden" / "drmemtrace"

# x86 code and the kinds of its accesses (is it a store?).
NOP, LOAD, STORE, UPDATE = b"\x90", b"\x8b\x03", b"\x89\x03", b"\x01\x03"
WIDE = b"\x0f\x10\x03"  # movups xmm0, [rbx]
REP, JZ, CALL, SYSCALL = b"\xf3\xa4", b"\x74\x10", b"\xff\x13", b"\x0f\x05"
ACCESSES = {
    NOP: [],
    LOAD: [False],
    STORE: [True],
    UPDATE: [False, True],
    WIDE: [False],
    REP: [False, True],
    JZ: [],
    CALL: [False, True],
    SYSCALL: [],
}


def drmem(body: bytes, filetype: int = 0x240) -> bytes:
    """One thread; with machine code unless another ``filetype`` is given."""
    return thread_of(body, filetype)


def instruction(pc: int, code: bytes, accesses: list[int], *, taken: bool = False) -> bytes:
    kind = (48 if taken else 49) if code == JZ else 15 if code == CALL else 10
    head = struct.pack("<HH8s", 47, len(code), code) + rec(kind, len(code), pc)
    stores = ACCESSES[code]
    parts = []
    for i, a in enumerate(accesses):
        if code == REP and i and i % 2 == 0:
            parts.append(rec(29, len(code), pc))
        parts.append(rec(1 if stores[i % 2] else 0, 16 if code == WIDE else 4, a))
    return head + b"".join(parts)


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([0, 2, 0x40, 0x42, 0x80]),
            st.sampled_from(sorted(ACCESSES)),
            st.lists(st.integers(0, 400), min_size=6, max_size=6),
            st.integers(1, 3),
            st.booleans(),
        ),
        min_size=1,
        max_size=60,
    )
)
def test_macro_rows_are_those_of_the_oracle(
    tmp_path_factory: pytest.TempPathFactory, program: list[tuple[int, bytes, list[int], int, bool]]
) -> None:
    body, stream, outcomes, faults = b"", [], [], []
    for offset, code, addresses, times, taken in program:
        pc = 0x1000 + offset
        stores = ACCESSES[code] * (times if code == REP else 1)
        accesses = [0x8000 + a for a in addresses[: len(stores)]]
        body += instruction(pc, code, accesses, taken=taken)
        if code == WIDE:  # 8 bytes at a time
            accesses, stores = [accesses[0], accesses[0] + 8], [False, False]
        stream.append((pc, list(zip(accesses, stores, strict=True))))
        outcomes.append(taken if code == JZ else code == CALL)
        faults.append(code == SYSCALL)
    folder = tmp_path_factory.mktemp("macro")
    (folder / "t.trace").write_bytes(drmem(body))
    extract(folder / "t.trace", folder / "f.zst", level="macro")
    with TraceFile(folder / "f.zst") as f:
        names = ("pc", "addr", "fetch_distance", "load_distance", "store_distance")
        got = list(zip(*(f[n].tolist() for n in names), strict=True))
        assert got == native_macro(stream)
        assert f["taken"].tolist() == outcomes
        assert f["fault"].tolist() == faults


def test_one_row_an_instruction_with_its_semantics(tmp_path: Path) -> None:
    body = instruction(0x10, UPDATE, [64, 64]) + instruction(0x12, CALL, [128, 256])
    body += instruction(0x20, REP, [1, 2, 3, 4, 5, 6])
    (tmp_path / "t.trace").write_bytes(drmem(body))
    extract(tmp_path / "t.trace", tmp_path / "f.zst", level="macro")
    with TraceFile(tmp_path / "f.zst") as f:
        update, call, rep = f.statics
        assert (update.op, update.branch, update.access_size) == ("MemRead", "none", 4)
        assert {"IsLoad", "IsStore"} <= set(
            update.flags
        ) and update.disassembly == "add dword ptr [rbx], eax"
        assert update.src == ((0, 3), (0, 0)) and update.dst == ((5, 0),)
        assert call.op == "MemRead" and call.branch == "indirect_call"
        assert {"IsCall", "IsIndirectControl", "IsUncondControl"} <= set(call.flags)
        assert rep.disassembly.startswith("rep movsb") and rep.count == 1


def test_vectors_are_accessed_by_halves(tmp_path: Path) -> None:
    body = instruction(0x10, WIDE, [64 - 8]) + instruction(0x20, LOAD, [64])
    body += instruction(0x30, WIDE, [64])
    (tmp_path / "t.trace").write_bytes(drmem(body))
    extract(tmp_path / "t.trace", tmp_path / "f.zst", level="macro")
    with TraceFile(tmp_path / "f.zst") as f:
        assert f["load_distance"].tolist() == [100_000_000, 1, 1]
        assert f["data_reuse"].tolist() == [1000, 1, 1]
        assert f["access_size"].tolist() == [8, 4, 8]
        wide = f.statics[0]
        assert wide.op == "FloatMemRead" and wide.disassembly == "movups xmm0, xmmword ptr [rbx]"


def test_capstone_and_dynamorio_agree() -> None:
    """On the kind of every branch and the length of every instruction that the fixture executes."""
    from tracekit.isa import decode_many

    for thread in Drmemtrace(GOLDEN, shared_table=False).threads:
        for _ in thread.batches():
            pass
        pcs, kinds = thread.parser.fetched()
        told = dict(zip(pcs.tolist(), kinds.tolist(), strict=True))
        encodings = [thread.table[i] for i in range(len(thread.table))]
        decoded = decode_many("x86", [raw[:n] for _, n, _, raw in encodings])
        for (pc, length, known, _), d in zip(encodings, decoded, strict=True):
            assert known and d.valid and d.length == length
            assert d.branch == BRANCH_KINDS[told[pc]], d.text


def regdeps(category: int, dst: list[int], src: list[int], *, flags: int = 0) -> bytes:
    head = struct.pack("<I", len(dst) | len(src) << 4 | flags << 8 | category << 10)
    operands = bytes([4, *dst, *src]) if dst or src else b""
    return head + operands + b"\xaa" * (-len(operands) % 4)


def test_regdeps(tmp_path: Path) -> None:
    """DynamoRIO's synthetic instructions: categories and registers, in place of machine code."""
    body = b""
    for i, (code, accesses) in enumerate(
        [
            (regdeps(0x2, [1], [2]), rec(0, 8, 64)),
            (regdeps(0x110, [3, 4], [5, 6, 7]), b""),
            (regdeps(0x4, [], [9], flags=2), rec(1, 8, 64)),
        ]
    ):
        for at in range(0, len(code), 8):
            piece = code[at : at + 8]
            body += struct.pack("<HH8s", 47, len(piece), piece)
        body += rec(10, 3, 16 + 3 * i) + accesses
    (tmp_path / "t.trace").write_bytes(drmem(body, 0x20200))
    extract(tmp_path / "t.trace", tmp_path / "f.zst", level="macro")
    with TraceFile(tmp_path / "f.zst") as f:
        load, vector, store = f.statics
        assert (load.op, load.src, load.dst) == ("MemRead", ((0, 2),), ((0, 1),))
        assert (vector.op, vector.src) == ("SimdAdd", ((2, 5), (2, 6), (2, 7)))
        assert (store.op, store.src) == ("MemWrite", ((0, 9), (5, 0)))
        flags = [set(each.flags) for each in (load, vector, store)]
        assert flags == [{"IsInteger", "IsLoad"}, {"IsFloating"}, {"IsInteger", "IsStore"}]
        assert f["addr"].tolist() == [64, 0, 64]


def test_aarch64(tmp_path: Path) -> None:
    """A pair's two accesses are one row; the outcome stands in the record."""
    body = b""
    for pc, code, kind, accesses in (
        (0x1000, 0xA9400420, 10, rec(0, 8, 64) + rec(0, 8, 72)),  # ldp x0, x1, [x1]
        (0x1004, 0x54000040, 48, b""),  # b.eq +8, taken
        (0x100C, 0xD65F03C0, 16, b""),  # ret
        (0x2000, 0xF9800020, 10, rec(9, 1, 128)),  # prfm pldl1keep, [x1]
    ):
        body += struct.pack("<HHIxxxx", 47, 4, code) + rec(kind, 4, pc) + accesses
    (tmp_path / "t.trace").write_bytes(drmem(body, 0x208))
    result = extract(tmp_path / "t.trace", tmp_path / "f.zst", level="macro")
    with TraceFile(tmp_path / "f.zst") as f:
        assert f.index["arch"] == "arm" and not result.anomalies
        assert f["addr"].tolist() == [64, 0, 0, 128]
        assert f["taken"].tolist() == [False, True, True, False]
        assert [s.branch for s in f.statics] == ["none", "conditional", "return", "none"]
        assert f.statics[0].op == "MemRead" and f.statics[0].dst == ((0, 0), (0, 1))
    assert result.stats["counts"]["prefetches"] == 1


def test_an_encoding_must_be_decoded_first() -> None:
    table = EncodingTable()
    parser = DrmemtraceParser(table)
    parser.feed(drmem(instruction(16, NOP, [])))
    parser.finish()
    converter = NativeConverter(table, arch="x86")
    with pytest.raises(IndexError, match="was not decoded"):
        converter.source.convert(parser.take()[0])


def test_micro_level_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no micro-ops"):
        extract(GOLDEN, tmp_path / "f.zst", level="micro")
    assert not list(tmp_path.iterdir())
    assert extract(GOLDEN, tmp_path / "f.zst", quiet=True).rows > 0  # the level that it has


EXECLOG = """\
0, 0x1000, 0xf9400021, "ldr x1, [x1]", load, 0x8000
0, 0x1004, 0xf9000022, "str x2, [x1]", store, 0x8040, RAM
0, 0x1008, 0x54000040, "b.eq #0x1010"
0, 0x1010, 0xa9400420, "ldp x0, x1, [x1]", load, 0x8000, load, 0x8008
0, 0x1014, 0x54ffffe0, "b.eq #0x1010"
0, 0x1018, 0xd503201f, "nop"
"""
LACKEY = """\
==12== Lackey, an example Valgrind tool
I  04016b80,3
 S 1ffefffe78,8
I  04016b83,5
 M 1ffefffe80,4
I  04016b88,2
 L 1ffefffe78,8
I  04016b8a,1
==12== Counted 0 calls to main()
"""


def extracted(tmp_path: Path, text: str, **options: str) -> TraceFile:
    (tmp_path / "t.log").write_text(text)
    extract(tmp_path / "t.log", tmp_path / "t.zst", level="macro", **options)
    return TraceFile(tmp_path / "t.zst")


def test_execlog(tmp_path: Path) -> None:
    assert execlog_arch(EXECLOG.encode()) == "arm"
    with extracted(tmp_path, EXECLOG) as f:
        assert f.index["arch"] == "arm"
        assert f["pc"].tolist() == [0x1000, 0x1004, 0x1008, 0x1010, 0x1014, 0x1018]
        assert f["addr"].tolist() == [0x8000, 0x8040, 0, 0x8000, 0, 0]
        assert f["taken"].tolist() == [False, False, True, False, False, False]
        assert [s.op for s in f.statics][:3] == ["MemRead", "MemWrite", "IntAlu"]
    riscv = (
        '0, 0x80000000, 0x4501, "li a0,0"\n0, 0x80000002, 0x00053583, "ld a1,0(a0)", load, 0x40\n'
    )
    assert execlog_arch(riscv.encode()) == "riscv"
    # What lies behind two bytes of a compressed instruction is none of it.
    text = "".join(f'0, 0x80000000, 0x{behind}4501, "li a0,0"\n' for behind in ("", "3583", "2"))
    (tmp_path / "compressed").mkdir()
    with extracted(tmp_path / "compressed", text, isa="riscv") as f:
        assert len(f.statics) == 1 and f["static_id"].tolist() == [0, 0, 0]
    x86 = '0, 0x401000, 0x48, "movq %rsp, %rdi"\n'
    assert execlog_arch(x86.encode()) == "x86"


def test_more_branches_than_a_table_begins_with(tmp_path: Path) -> None:
    r, lines = random.Random(6), []
    for _ in range(2):  # b.eq to the instruction behind the next one, all the way
        pc = 0x1000
        while pc < 0x1000 + 4 * 4000:
            lines.append(f'0, {pc:#x}, 0x54000040, "b.eq"')
            pc += r.choice((4, 8))
    with extracted(tmp_path, "\n".join([*lines, ""])) as f:
        taken = f["taken"].tolist()
        assert 0.4 < sum(taken) / len(taken) < 0.6
        want = branch_features(list(zip(f["pc"].tolist(), taken, strict=True)), 8)
        assert f["p_local"].tolist() == pytest.approx([w[2] for w in want])
        assert f["p_global"].tolist() == pytest.approx([w[3] for w in want])


def test_execlog_of_x86_has_four_bytes(tmp_path: Path) -> None:
    text = (
        '0, 0x401000, 0xaabb840f, "je 0x40cbc1"\n'  # six bytes, of which four are told
        '0, 0x401006, 0x90, "nop"\n0, 0x401007, 0xe589, "movl %esp, %ebp"\n'
    )
    with extracted(tmp_path, text, isa="x86") as f:
        assert f["taken"].tolist() == [False, False, False]
        assert [s.branch for s in f.statics] == ["conditional", "none", "none"]
        (cut,) = (n for kind, n in f.index["anomalies"].items() if "over four bytes" in kind)
        assert cut["count"] == 1
    (tmp_path / "short").mkdir()
    with extracted(tmp_path / "short", text.replace("0xaabb840f", "0x90"), isa="x86") as f:
        assert not any("over four bytes" in kind for kind in f.index["anomalies"])


def test_lackey(tmp_path: Path) -> None:
    with extracted(tmp_path, LACKEY) as f:
        assert f["pc"].tolist() == [0x4016B80, 0x4016B83, 0x4016B88, 0x4016B8A]
        assert f["addr"].tolist() == [0x1FFEFFFE78, 0x1FFEFFFE80, 0x1FFEFFFE78, 0]
        assert [s.op for s in f.statics][:3] == ["MemWrite", "MemRead", "MemRead"]
        assert f.index["source"]["absent"] == ["operation", "machine code", "registers", "branches"]


@settings(max_examples=30)
@given(st.lists(st.integers(0, len(EXECLOG)), max_size=6), st.sampled_from([EXECLOG, LACKEY]))
def test_text_cut_anywhere(cuts: list[int], text: str) -> None:
    def rows(pieces: list[str]) -> tuple[int, int, dict[str, dict[str, int]]]:
        source = recognise(text.encode(), "x")
        assert source is not None
        n = 0
        for p in pieces:
            source.feed(p.encode())
            n += len(source.take(0))
        source.finish()
        n += len(source.take(0)) + len(source.take(0))
        return n, source.stats()["instructions"], source.counters()

    edges = [0, *sorted(min(c, len(text)) for c in cuts), len(text)]
    assert rows([text[a:b] for a, b in itertools.pairwise(edges)]) == rows([text])


@given(st.binary(max_size=300))
def test_any_text_is_survived(noise: bytes) -> None:
    for head in (EXECLOG.encode(), LACKEY.encode()):
        source = recognise(head, "x")
        assert source is not None
        try:
            source.feed(head + noise)
            source.finish()
            source.take(0)
        except TracekitError:
            pass


@pytest.mark.parametrize("name", ["lackey", "execlog", "champsim", "wide", "drmemtrace"])
@settings(max_examples=8)
@given(st.integers(0, 2**32))
def test_rows_of_pieces(name: str, seed: int) -> None:
    """A branch at the end of a piece gets its outcome from the next one."""
    data = {
        "lackey": column_pins._lackey, "execlog": lambda: column_pins._execlog(X86_CODES),
        "champsim": lambda: column_pins._champsim(False),
        "wide": lambda: column_pins._champsim(True), "drmemtrace": column_pins._drmemtrace,
    }[name]()[: 96 * 200]  # fmt: skip

    def read(edges: list[int]) -> tuple[object, ...]:
        source, stage = recognise(data, "x", "x86"), _core.FeatureStage(8, 6, False)
        assert source is not None
        for a, b in itertools.pairwise(edges):
            source.feed(data[a:b])
            if b > 2000:  # the architecture of a drmemtrace stands at its start
                stage.add(source.take(0))
        source.finish()
        stage.add(source.take(0))
        stage.add(source.take(0))
        stage.finish()
        streams = stage.chunk()["streams"]
        del streams["static_id"]  # numbers in the order in which they were met
        return streams, source.counters(), source.stats()

    r = random.Random(seed)
    cuts = sorted(r.randrange(len(data)) for _ in range(r.choice((1, 20, 300))))
    assert read([0, *cuts, len(data)]) == read([0, len(data)])


X86_CODES = (0x90, 0x38B, 0x389, 0x1074, 0xA4F3, 0x0F75, 0x50F)
