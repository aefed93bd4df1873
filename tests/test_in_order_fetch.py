"""Fetch of the in-order core, and when its clock stands still (gem5's Minor CPU: fetch1.cc,
fetch2.cc, pipeline.cc in src/cpu/minor; src/arch/x86/isa/macroop.isa).  Cycles of loops are gem5's
own."""

from __future__ import annotations

import random

import core_pins as pins
import pytest
from test_instruction_lengths import jump, plain, written
from test_riscv_rules import extracted

from tracekit.sim import totals

INTEGER, LOAD = "IsInteger", "IsInteger|IsLoad"
BRANCH = "IsInteger|IsControl|IsDirectControl|IsCondControl"


def cycles(trace, machine="io_2w", **changes):
    with trace:
        return float(totals(trace, [{**pins.MACHINES[machine], "name": "m", **changes}])[0, 0])


def each_round(tmp_path, code, machine="io_2w", rounds=200):
    """Of a loop's code, once all is known."""
    few, many = (cycles(extracted(tmp_path, code(n)), machine) for n in (rounds, 2 * rounds))
    return (many - few) / rounds


def compare(pc):
    """A load, a branch that leads over two instructions, and one back: of a median filter."""

    def rounds(n):
        for _ in range(n):
            yield pc, "lbu a3, 0(a4)", LOAD, 0x20000
            yield pc + 4, "bgeu a3, a2, 8", BRANCH
            yield pc + 12, "c_addiw a5, 1", INTEGER
            yield pc + 14, "c_addi a4, 1", INTEGER
            yield pc + 16, "bne a5, a1, -16", BRANCH

    return rounds


def test_an_instruction_in_two_lines_waits_for_both(tmp_path):
    """10 cycles a round in gem5, where the first branch has two bytes in the second line."""
    assert each_round(tmp_path, compare(0x10B7A)) == 10
    assert each_round(tmp_path, compare(0x10B42)) < 10


def test_answers_wake_a_clock_that_stands_still(tmp_path):
    """A chase through lines of the second cache: 16 cycles a round in gem5, of which one is the
    clock's.  The line's second word comes while it runs again."""
    nodes = [0x100000 + 64 * k for k in range(1024)]
    random.Random(7).shuffle(nodes)

    def rounds(n):
        for k in range(n):
            node = nodes[k % len(nodes)]
            yield 0x10940, "c_ld a4, 24(s0)", LOAD, node + 24
            yield 0x10942, "c_addi a5, 1", INTEGER
            yield 0x10944, "c_ld s0, 0(s0)", LOAD, node
            yield 0x10946, "c_add a0, a4", INTEGER
            yield 0x10948, "blt a5, a3, -8", BRANCH

    assert each_round(tmp_path, rounds, "io_1w", 2048) == pytest.approx(16, abs=0.1)


def test_on_x86_a_branch_that_is_taken_is_never_foreseen(tmp_path):
    """And one that is not costs no more than another instruction, whatever the predictor."""

    def loop(outcomes):
        for taken in outcomes:
            yield jump(0x400000, 0x400010, 2)
            yield from () if taken else (plain(0x400002), plain(0x400006))
            yield plain(0x400010)
            yield jump(0x400014, 0x400000, 5, "JMP_I")

    any_way = random.Random(5).choices([True, False], k=300)
    found = {cycles(written(tmp_path, loop(any_way)), bp=p) for p in pins.PREDICTORS}
    assert len(found) == 1
    never, always = (cycles(written(tmp_path, loop([t] * 300))) for t in (False, True))
    assert always > never + 300 * 4  # two instructions fewer
    assert never < found.pop() < always
