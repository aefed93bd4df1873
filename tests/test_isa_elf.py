"""ELF files: code by pc, symbols, only TracekitError from a bad one; --binary's comparison."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tracekit
from tracekit._core import FLAGS, OP_CLASSES
from tracekit.errors import FormatError, TracekitError, UsageError
from tracekit.isa.binary import Static, apply_binary
from tracekit.isa.elf import ElfImage, Symbol
from tracekit.isa.overlay import overlay
from tracekit.isa.types import BRANCH_KINDS

MACHINES = {"arm": 183, "x86": 62, "riscv": 243}
BASE = 0x400000


def build(arch: str, code: bytes, functions: dict[str, tuple[int, int]] | None = None) -> bytes:
    """A static program: one segment with ``code`` at BASE, functions as name -> (offset, size)."""
    functions = functions or {}
    names = b"\0" + b"".join(n.encode() + b"\0" for n in functions)
    symbols = bytes(24)
    for name, (offset, size) in functions.items():
        at = names.index(name.encode() + b"\0")
        symbols += struct.pack("<IBBHQQ", at, 0x12, 0, 1, BASE + offset, size)
    sections = b"\0.symtab\0.strtab\0.shstrtab\0"
    head = 64 + 56
    at_symbols = head + len(code)
    at_names = at_symbols + len(symbols)
    at_sections = at_names + len(names)
    table = at_sections + len(sections)
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    out = ident + struct.pack(
        "<HHIQQQIHHHHHH", 2, MACHINES[arch], 1, BASE, 64, table, 0, 64, 56, 1, 64, 4, 3
    )
    out += struct.pack("<IIQQQQQQ", 1, 5, head, BASE, BASE, len(code), len(code) + 64, 4096)
    out += code + symbols + names + sections

    def section(name: int, kind: int, offset: int, size: int, link: int, entry: int) -> bytes:
        return struct.pack("<IIQQQQIIQQ", name, kind, 0, 0, offset, size, link, 0, 1, entry)

    out += section(0, 0, 0, 0, 0, 0)
    out += section(1, 2, at_symbols, len(symbols), 2, 24)
    out += section(9, 3, at_names, len(names), 0, 0)
    out += section(17, 3, at_sections, len(sections), 0, 0)
    return out


X86 = bytes.fromhex("554889e548034508f3a4c9c3")
GOOD = build("x86", X86, {"main": (0, 8), "_ZN3fooEv": (8, 0)})


@pytest.fixture
def elf(tmp_path: Path) -> ElfImage:
    (tmp_path / "a.out").write_bytes(GOOD)
    return ElfImage(tmp_path / "a.out")


def test_code_and_symbols(elf: ElfImage) -> None:
    assert elf.arch == "x86" and elf.entry == BASE
    assert elf.code(BASE) == X86[:16]
    assert elf.code(BASE + 4, 4) == X86[4:8]
    assert elf.code(BASE + len(X86) - 1) == X86[-1:]  # ends with the segment
    assert (
        elf.code(BASE - 1) == b"" and elf.code(BASE + len(X86)) == b""
    )  # zero-filled, not in the file
    assert elf.code(2**64 - 1) == b""
    assert elf.symbol(BASE + 7) == Symbol("main", BASE, 8)
    assert elf.symbol(BASE + 9) == Symbol("_ZN3fooEv", BASE + 8, 0)
    assert elf.symbol(BASE - 1) is None
    assert [s.name for s in elf.symbols()] == ["main", "_ZN3fooEv"]


def test_position_independent_code_is_moved(tmp_path: Path) -> None:
    (tmp_path / "a.out").write_bytes(GOOD)
    with ElfImage(tmp_path / "a.out", bias=0x1000) as elf:
        assert elf.code(BASE) == b"" and elf.code(BASE + 0x1000, 1) == X86[:1]
        assert elf.symbol(BASE + 0x1000) == Symbol("main", BASE + 0x1000, 8)
    with pytest.raises(TracekitError, match="closed"):
        elf.code(BASE + 0x1000)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "empty"),
        (b"#!/bin/sh\n", "not an ELF"),
        (GOOD[:40], "corrupt"),
        (GOOD[:100], "segment|corrupt"),
        (GOOD[:130], "segment 0 ends"),
        (GOOD[:4] + b"\x01" + GOOD[5:], "32-bit|corrupt"),
        (GOOD[:18] + b"\x08\0" + GOOD[20:], "EM_MIPS"),
        (GOOD[:54] + struct.pack("<HH", 56, 0) + GOOD[58:], "no loadable"),
        (GOOD[:54] + struct.pack("<HH", 56, 60000) + GOOD[58:], "60000 segments"),
        (GOOD[:60] + b"\0\0" + GOOD[62:], None),  # "the number of sections is in section 0": none
    ],
)
def test_what_is_no_usable_file_is_told(tmp_path: Path, data: bytes, message: str | None) -> None:
    path = tmp_path / "bad"
    path.write_bytes(data)
    if message is None:
        with ElfImage(path) as elf:
            assert elf.code(BASE, 1) == X86[:1]
        return
    with pytest.raises(FormatError, match=message) as e:
        ElfImage(path)
    assert str(path) in str(e.value) and "\n" not in str(e.value)


def test_a_section_count_of_2_to_63_is_told(tmp_path: Path) -> None:
    at = struct.unpack_from("<Q", GOOD, 40)[0] + 32  # sh_size of section 0 stands for e_shnum = 0
    path = tmp_path / "bad"
    path.write_bytes(GOOD[:60] + b"\0\0" + GOOD[62:at] + struct.pack("<Q", 2**63) + GOOD[at + 8 :])
    with ElfImage(path) as elf, pytest.raises(FormatError, match="9223372036854775808 sections"):
        elf.symbols()


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path / "missing", tmp_path):
        with pytest.raises(TracekitError, match=str(path)):
            ElfImage(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), max_size=6), st.data()
)
def test_any_damage_is_an_error_or_harmless(
    tmp_path: Path, damage: list[tuple[int, int]], data: st.DataObject
) -> None:
    bad = bytearray(GOOD)
    for at, value in damage:
        bad[at] = value
    path = tmp_path / "bad"
    path.write_bytes(bad[: data.draw(st.integers(0, len(bad)))])
    try:
        with ElfImage(path) as elf:
            elf.code(BASE)
            elf.symbols()
    except TracekitError as e:
        assert str(path) in str(e)


# --- --binary ------------------------------------------------------------------------------------

NONE: frozenset[str] = frozenset()
MICRO = frozenset(("IsInteger", "IsMicroop", "IsFirstMicroop", "IsLastMicroop"))
PART = frozenset(("IsInteger", "IsMicroop", "IsFirstMicroop", "IsDelayedCommit"))
STATICS = [
    Static(BASE, 0, "MemWrite", PART | {"IsStore"}, ((0, 5), (0, 4)), (), "none", 8),
    Static(BASE, 1, "IntAlu", MICRO - {"IsFirstMicroop"}, ((0, 4),), ((0, 4),), "none", 0),
    Static(BASE + 1, 0, "IntAlu", MICRO, ((0, 4),), ((0, 5),), "none", 0),
    Static(BASE + 4, 0, "MemRead", MICRO | {"IsLoad"}, ((0, 5),), ((0, 0),), "none", 0),
    Static(BASE + 10, 0, "IntAlu", MICRO, (), (), "none", 0, True),  # leave, guessed
    Static(0x1000, 0, "IntAlu", NONE, (), (), "none", 0),  # not in the file
    Static(BASE + 12, 0, "IntAlu", NONE, (), (), "none", 0),  # behind its end
]


def test_machine_code_wins_where_it_may(elf: ElfImage) -> None:
    merged, counts = apply_binary(STATICS, elf)
    assert counts._asdict() == {
        "statics": 7,
        "compared": 3,
        "micro": 2,
        "no_code": 2,
        "undecodable": 0,
        "op": 1,
        "flags": 1,
        "branch": 0,
        "src": 2,
        "dst": 1,
        "condition_codes": 1,
        "access_size": 0,
        "sizes_filled": 2,
    }
    assert merged[0] == STATICS[0]._replace(code=b"\x55")  # a part of push: as the text has it
    assert merged[2] == STATICS[2]._replace(code=X86[1:4])
    assert merged[3] == STATICS[3]._replace(
        code=X86[4:8], src=((0, 5), (0, 0)), dst=((0, 0), (5, 0)), access_size=8
    )
    assert (
        merged[4].op == "MemRead" and "IsLoad" in merged[4].flags and "IsMicroop" in merged[4].flags
    )
    assert merged[5:] == STATICS[5:]


def test_at_the_macro_level_every_row_is_whole(elf: ElfImage) -> None:
    push = Static(BASE, 0, "MemWrite", frozenset(("IsInteger", "IsStore")), (), (), "none", 8)
    merged, counts = apply_binary([push], elf, macro=True)
    assert counts.compared == 1 and merged[0].src == ((0, 5), (0, 4)) and merged[0].dst == ((0, 4),)


def test_another_program_is_refused(elf: ElfImage, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="only 0 of 7"):
        apply_binary([s._replace(pc=s.pc + 0x1000000) for s in STATICS], elf)
    with pytest.raises(UsageError, match="program for x86, the trace is of arm"):
        overlay({}, elf.path, "arm", macro=False)


def test_columns_are_changed_in_place(elf: ElfImage) -> None:
    n = len(STATICS)
    columns = {
        "pc": np.array([s.pc for s in STATICS], np.uint64),
        "upc": np.array([s.upc for s in STATICS], np.uint16),
        "op": np.array([OP_CLASSES.index(s.op) for s in STATICS], np.uint8),
        "flags": np.array([sum(1 << FLAGS.index(f) for f in s.flags) for s in STATICS], np.uint64),
        "branch": np.array([BRANCH_KINDS.index(s.branch) for s in STATICS], np.uint8),
        "access_size": np.array([s.access_size for s in STATICS], np.uint16),
        "inferred": np.array([s.inferred for s in STATICS], np.uint8),
        "operands_lost": np.zeros(n, np.uint8),
        "bytes": [b""] * n,
    }
    for kind, width in (("src", 8), ("dst", 6)):
        columns[f"{kind}_class"] = np.full((n, width), 255, np.uint8)
        columns[f"{kind}_index"] = np.zeros((n, width), np.uint16)
        for i, s in enumerate(STATICS):
            for k, (cls, number) in enumerate(getattr(s, kind)):
                columns[f"{kind}_class"][i, k], columns[f"{kind}_index"][i, k] = cls, number
    counts = overlay(columns, elf.path, "x86", macro=False)
    merged, expected = apply_binary(STATICS, elf)
    assert counts == expected._asdict()
    for i, s in enumerate(merged):
        assert columns["bytes"][i] == s.code
        assert columns["access_size"][i] == s.access_size
        assert OP_CLASSES[columns["op"][i]] == s.op
        assert columns["flags"][i] == sum(1 << FLAGS.index(f) for f in s.flags)
        for kind, regs in (("src", s.src), ("dst", s.dst)):
            classes, numbers = columns[f"{kind}_class"][i], columns[f"{kind}_index"][i]
            assert [(c, k) for c, k in zip(classes, numbers, strict=True) if c != 255] == list(regs)


# --- the whole way: extract --binary -------------------------------------------------------------

TRACE = "".join(
    f"{1000 * i}: system.cpu: {pc:#x}. {upc} :   {text:<26} : {op} : {address} flags=({flags})\n"
    for i, (pc, upc, text, op, address, flags) in enumerate(
        [
            (BASE, 0, "PUSH_R : st   rbp, SS:[rsp + 0x8]", "MemWrite", " A=0x7f00 ",
             "IsInteger|IsStore|IsMicroop|IsDelayedCommit|IsFirstMicroop"),
            (BASE, 1, "PUSH_R : subi   rsp, rsp, 0x8", "IntAlu", " ",
             "IsInteger|IsMicroop|IsLastMicroop"),
            (BASE + 1, 0, "MOV_R_R : mov   rbp, rbp, rsp", "IntAlu", " ",
             "IsInteger|IsMicroop|IsLastMicroop|IsFirstMicroop"),
            (BASE + 4, 0, "ADD_R_M : ld   t1, SS:[rbp + 0x8]", "MemRead", " A=0x7f08 ",
             "IsInteger|IsLoad|IsMicroop|IsDelayedCommit|IsFirstMicroop"),
            (BASE + 4, 1, "ADD_R_M : add   rax, rax, t1", "IntAlu", " ",
             "IsInteger|IsMicroop|IsLastMicroop"),
        ]
    )
)  # fmt: skip


@pytest.mark.parametrize("level", ["micro", "macro"])
def test_extract_with_the_program(elf: ElfImage, tmp_path: Path, level: str) -> None:
    trace, out = tmp_path / "trace.out", tmp_path / "f.zst"
    trace.write_text(TRACE)
    tracekit.extract(trace, out, level=level, binary=elf.path)
    with tracekit.open(out) as f:
        counts = f.index["binary"]
        rows = list(f.statics)
    by_pc = {s.pc: s for s in rows}
    assert by_pc[BASE].bytes == X86[:1] and by_pc[BASE + 4].bytes == X86[4:8]
    assert counts["statics"] == len(rows) == (5 if level == "micro" else 3)
    assert counts["compared"] == (1 if level == "micro" else 3)
    assert (counts["src"], counts["dst"], counts["op"]) == (0, 0, 0)
    mov = by_pc[BASE + 1]
    assert (mov.src, mov.dst) == (((0, 4),), ((0, 5),))


def test_a_wrong_program_is_told_before_the_trace_is_read(tmp_path: Path) -> None:
    out = tmp_path / "f.zst"
    with pytest.raises(FormatError, match="not an ELF"):
        tracekit.extract(tmp_path / "missing", out, binary=__file__)
    assert not out.exists()
