"""What a core asks its caches for behind a branch that it predicts wrongly, and what it knows of
registers there (csrc/sim/out_of_order_wrong_path.cpp)."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from test_sim import MACHINE, extract, line, walk_module

import tracekit
from tracekit import _core
from tracekit.sim import core_instructions, totals
from tracekit.sim.arm_values import arm_values
from tracekit.sim.register_values import REACH, no_values
from tracekit.sim.trace_walk import RowSource

GOLDEN = Path(__file__).parent / "golden"
ACCESS, SUM, CONSTANT = 1, 2, 3
CODE, FRESH, OTHER = 0x400000, 0x10_000_000, 0x50_000_000
ROUNDS = 400
BITS = _core.CORE_INST_BITS
SERIALIZES = BITS["serialize_before"] | BITS["serialize_after"]


@pytest.mark.parametrize(
    "trace",
    [
        "lua.arm.trace.xz",
        "cores/hashjoin.arm.trace.xz",
        "cores/interpreter-switch.arm.trace.xz",
        "cores/sqlite_join.x86.trace.xz",
        "lua.x86.trace.xz",
        "cores/hash-chained.riscv.trace.xz",
    ],
)
def test_values_agree_with_the_addresses_of_a_real_program(trace, tmp_path):
    """Registers by what instructions say, in the program's order: an access is where its base
    is."""
    tracekit.extract(GOLDEN / trace, tmp_path / "t.zst", level="micro")
    with tracekit.open(tmp_path / "t.zst") as t:
        told, base, number, reach = RowSource(t)._uops[9:13]
        flags, dst = RowSource(t)._uops[1], RowSource(t)._uops[7]
        rows = zip(t.column("static_id").tolist(), t.column("addr").tolist(), strict=True)
        known: dict[int, int] = {}
        checked = 0
        for i, address in rows:
            if flags[i] & SERIALIZES:
                known.clear()  # a call of the system writes registers that no row tells
            writes = [int(r) for r in dst[i] if r != 0xFFFF]
            if told[i] == ACCESS and address:
                is_there = int(address) - int(number[i])
                if int(base[i]) in known:
                    checked += 1
                    assert known[int(base[i])] % 2**64 == is_there % 2**64, t.statics.disassembly[i]
                known[int(base[i])] = is_there
            value = None
            if told[i] == CONSTANT:
                value = int(number[i])
            elif told[i] == SUM and int(base[i]) in known:
                value = known[int(base[i])] + int(number[i])
            for r in writes:
                known.pop(r, None)
                if value is not None:
                    known[r] = value
    assert reach == REACH
    assert checked > 300


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("ldr   x1, [sp]", ACCESS, 0),
        ("ldr   x1, [x0, #16]!", ACCESS, 16),
        ("str   xzr, [x1], #8]", ACCESS, 0),
        ("ldp_uop   x2, x3, [ureg0, #-32]", ACCESS, -32),
        ("strqtfpxi_uop   w0, [x1, #-16]", ACCESS, -8),
        ("str   x2, [x4, x1, LSL #3]", 0, 0),
        ("addxi_uop   x1, x1, #8", SUM, 8),
        ("sub   sp, sp, #416", SUM, -416),
        ("orr   x1, xzr, x4", SUM, 0),
        ("orr   x1, x2, x4", 0, 0),
        ("adrp   x1, #520192", CONSTANT, 0x400000 + 520192),
        ("adrp   x0, #18446744073709543424", CONSTANT, 0x400000 - 8192),
        ("movz   w2, #5120, #0", CONSTANT, 5120),
        # machine code, in capstone's words
        ("ldr x1, [sp, #0x30]", ACCESS, 0x30),
        ("ldur x1, [x2, #-0x18]", ACCESS, -0x18),
        ("str x1, [x2], #0x10", ACCESS, 0),
        ("ldr x1, [x2, x3, lsl #3]", 0, 0),
        ("sub sp, sp, #0x1a0", SUM, -0x1A0),
        ("add x1, x1, #1, lsl #12", SUM, 4096),
        ("mov x1, x4", SUM, 0),
        ("mov x29, sp", SUM, 0),
        ("mov x1, xzr", 0, 0),
        ("mov x1, #0x1234", CONSTANT, 0x1234),
        ("mov x1, #-1", CONSTANT, -1),
        ("mov w1, #-1", CONSTANT, 0xFFFFFFFF),
        ("movz x1, #0x12, lsl #16", CONSTANT, 0x120000),
        ("movk x1, #0x12, lsl #16", 0, 0),
        ("mov x1, v2.d[0]", 0, 0),
        ("adrp x1, #0x7f000", CONSTANT, 0x400000 + 0x7F000),
        ("adrp x0, #0xffffffffffffe000", CONSTANT, 0x400000 - 8192),
        ("adr x0, #0x20", CONSTANT, 0x400020),
        # numbers that no instruction has
        (f"add x1, x1, #1, lsl #{'9' * 30}", 0, 0),
        (f"movz x1, #1, lsl #{'9' * 30}", 0, 0),
        (f"ldr x1, [x{'9' * 30}]", 0, 0),
    ],
)
def test_what_an_instruction_tells(text, kind, value, tmp_path):
    flags = "IsInteger|IsLoad" if "[" in text else "IsInteger"
    trace = extract(tmp_path, line(0, text, "MemRead" if "[" in text else "IntAlu", flags, 0x1000))
    told, _, number, _ = arm_values(trace.statics, RowSource(trace)._uops[6])
    assert (told[0], number[0]) == (kind, value)


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (["ld   rax, SS:[t0 + rsp + 0x8]"], [(ACCESS, 8)]),
        (["ld   t1b, DS:[rdi]"], [(ACCESS, 0)]),
        (["stfp   %xmm0_low, DS:[r9 + 0xfffffffffffffff0]"], [(ACCESS, -16)]),
        (["ld   eax, DS:[4*rcx + rbp + 0x8]"], [(0, 0)]),
        (["ld   rax, FS:[t0 + t0 + 0x28]"], [(0, 0)]),
        (["ld   rax, DS:[" + "r" * 50], [(0, 0)]),
        (["limm"], [(0, 0)]),
        (["limm   t1, 0x10000000000000000"], [(0, 0)]),
        (["limm   t1b, 0x7"], [(0, 0)]),
        (["subi   rsp, rsp, 0x8"], [(SUM, -8)]),
        (["mov   rbx, rbx, rsi"], [(SUM, 0)]),
        (["lea   rax, DS:[rbx + 0x10]"], [(SUM, 16)]),
        (["limm   t1, 0x28", "sub   rsp, rsp, t1"], [(CONSTANT, 0x28), (SUM, -0x28)]),
        (["limm   t2, 0x28", "sub   rsp, rsp, t1"], [(CONSTANT, 0x28), (0, 0)]),
        # Six bytes: the next micro-op of this instruction loads beside the one behind it.
        (
            ["rdip   t7b, t7b", "ld   t1b, DS:[t0 + t7 + 0x20]"],
            [(CONSTANT, CODE + 6), (ACCESS, 32)],
        ),
    ],
)
def test_what_an_x86_micro_op_tells(texts, told, tmp_path):
    def row(k: int, place: int, upc: int, text: str) -> str:
        op, kind = ("MemRead", "IsLoad") if "[" in text and "lea" not in text else ("IntAlu", "")
        address = " A=0x1000" if kind else ""
        flags = "|".join(["IsInteger", "IsMicroop", *kind.split()])
        return (
            f"{500 * k:7d}: system.cpu: {place:#x}. {upc} :   ADD_R_R : {text} : {op} : {address} "
            f" flags=({flags})\n"
        )

    rows = [row(k, CODE, k, text) for k, text in enumerate(texts)]
    trace = extract(tmp_path, "".join([*rows, row(9, CODE + 6, 0, "mov   rax, rax, rbx")]))
    found = RowSource(trace)._uops
    order = np.lexsort((trace.statics.upc, trace.statics.pc))[: len(told)]
    assert [(found[9][i], found[11][i]) for i in order] == told


def loop(seed: int, body: Callable[[Callable[..., None], int, bool], None]) -> str:
    """Rounds that begin with a load that misses; ``body`` adds each one's other rows, with a branch
    that hangs on the load and goes either way at random."""
    out, rng = [], random.Random(seed)

    def row(place, text, op="IntAlu", flags="IsInteger", addr=None):
        out.append(line(len(out), text, op, flags, addr, CODE + 4 * place))

    for k in range(ROUNDS):
        taken = rng.random() < 0.5
        row(0, "ldr   x9, [x8]", "MemRead", "IsInteger|IsLoad", FRESH + 6400 * k)
        body(row, k, taken)
    return "".join(out)


def program(wrong: str, seed: int = 3) -> str:
    """A branch hangs on a load that misses, and goes either way at random.  Both ways load the
    same new line, the one that falls through behind the instruction ``wrong``."""

    def body(row: Callable[..., None], k: int, taken: bool) -> None:
        row(1, "cbnz   x9, <f+24>", flags="IsControl|IsDirectControl|IsCondControl")
        if not taken:
            row(2, wrong)
            row(3, "ldr   x3, [x1, #64]", "MemRead", "IsInteger|IsLoad", OTHER + 6400 * k)
            row(4, "b   <f+28>", flags="IsControl|IsDirectControl|IsUncondControl")
        else:
            row(6, "ldr   x4, [x1, #64]", "MemRead", "IsInteger|IsLoad", OTHER + 6400 * k)
        row(7, "add   x12, x12, #1")
        row(8, "ubfm   x1, x12, #0, #31")
        row(9, "add   x8, x3, #1")
        row(10, "b   <f>", flags="IsControl|IsDirectControl|IsUncondControl")

    return loop(seed, body)


def times(tmp_path, monkeypatch, wrong: str) -> tuple[float, float]:
    """Cycles with what instructions tell of registers, and without."""
    trace = extract(tmp_path, program(wrong))
    told = totals(trace, [MACHINE])[0, 0]
    with monkeypatch.context() as m:
        m.setattr(core_instructions, "arm_values", lambda *_: no_values())
        return told, totals(trace, [MACHINE])[0, 0]


def test_a_load_of_the_wrong_path_brings_its_line(tmp_path, monkeypatch):
    told, untold = times(tmp_path, monkeypatch, "orr   x5, x6, x7")
    assert told < 0.95 * untold


def test_a_load_by_a_register_that_nobody_knows_brings_none(tmp_path, monkeypatch):
    """It is written on the way that falls through, so that only the other way's load, from there,
    asks for the line early."""
    told, untold = times(tmp_path, monkeypatch, "orr   x5, x6, x7")
    written, _ = times(tmp_path, monkeypatch, "orr   x1, x6, x12")
    assert written - told > 0.1 * (untold - told)


def reconverging(ways: tuple[str, str]) -> str:
    """A branch hangs on a load that misses; behind both ways the same load, by an index, asks for a
    new line."""

    def body(row: Callable[..., None], k: int, taken: bool) -> None:
        row(1, "cbnz   x9, <f+16>", flags="IsControl|IsDirectControl|IsCondControl")
        if not taken:
            row(2, ways[0])
            row(3, "b   <f+20>", flags="IsControl|IsDirectControl|IsUncondControl")
        else:
            row(4, ways[1])
        row(5, "ldr   x3, [x1, x2, LSL #3]", "MemRead", "IsInteger|IsLoad", OTHER + 6400 * k)
        row(6, "add   x12, x12, #1")
        row(7, "ubfm   x2, x12, #0, #31")
        row(8, "add   x8, x3, #1")
        row(9, "b   <f>", flags="IsControl|IsDirectControl|IsUncondControl")

    return loop(5, body)


def test_an_address_is_that_of_a_later_row_made_of_the_same_values(tmp_path):
    """Of an index nobody knows, but the row that follows on the right path has the address where
    neither way writes what it is made of."""
    same, one, other = (
        totals(extract(tmp_path, reconverging(ways)), [MACHINE])[0, 0]
        for ways in (
            ("orr   x5, x6, x7", "orr   x6, x6, x7"),
            ("orr   x2, x2, x12", "orr   x6, x6, x7"),
            ("orr   x2, x2, x12", "orr   x2, x6, x12"),
        )
    )
    assert same < 0.95 * one
    assert same < 0.95 * other


def test_lines_of_one_set_on_their_way_do_not_drive_each_other_out(tmp_path):
    """Four lines of a set, each asked for twice before the first one is there: two ways are as good
    as eight."""
    out = []
    for k in range(200):
        for twice in (0, 8):
            for way in range(4):
                address = FRESH + 0x1000 * (4 * k + way) + twice
                text = f"ldr   x{2 + way}, [x{10 + len(out) % 8}]"
                out.append(line(len(out), text, "MemRead", "IsInteger|IsLoad", address))
    machines = [{**MACHINE, "l1d_kb": 4 * ways, "l1d_assoc": ways} for ways in (2, 8)]
    two, eight = totals(extract(tmp_path, "".join(out)), machines)[0]
    assert two < 1.02 * eight


def test_blocks_keep_the_rows_before(tmp_path, monkeypatch):
    """What a register holds is told by rows of the block before, too."""
    trace = extract(tmp_path, program("orr   x5, x6, x7"))
    whole = totals(trace, [MACHINE])[0, 0]
    monkeypatch.setattr(walk_module, "BLOCK", 512)
    parts = totals(trace, [MACHINE])[0, 0]
    assert np.isclose(parts, whole, rtol=0.02)
