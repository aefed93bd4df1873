"""What gem5's O3 CPU does otherwise with RISC-V: compressed branches, and words in two fetch blocks
(docs/simulator.md; of X86: test_instruction_lengths.py), and what instructions tell of registers.
All are pinned against gem5 by golden/cores/hash-chained.riscv, too."""

from __future__ import annotations

import random

import core_pins as pins
import numpy as np
import pytest

import tracekit
from tracekit.sim import sample_sums, totals
from tracekit.sim.riscv_values import riscv_values
from tracekit.sim.trace_walk import RowSource

MACHINE = {**pins.MACHINES["ns_8w"], "name": "m"}
PREDICTORS = pins.PREDICTORS


def extracted(tmp_path, instructions):
    """The trace of (pc, text, flags), of accesses also their address, one after another."""
    lines = []
    for i, (pc, text, flags, *at) in enumerate(instructions):
        access = f" A={at[0]:#x} " if at and at[0] else " "
        op = "IntAlu" if access == " " else "MemWrite" if "IsStore" in flags else "MemRead"
        lines.append(
            f"{500 * i:7}: system.cpu: {pc:#x}    : {text}    : {op} : {access} flags=({flags})"
        )
    path = tmp_path / "t.txt"
    path.write_text("\n".join(lines) + "\n")
    tracekit.extract(path, tmp_path / "t.zst", level="micro", force=True)
    return tracekit.open(tmp_path / "t.zst")


def cycles(tmp_path, instructions, **changes):
    """On ns_8w with ``changes``."""
    with extracted(tmp_path, instructions) as trace:
        assert trace.arch == "riscv"
        return float(totals(trace, [{**MACHINE, **changes}])[0, 0])


INTEGER, BRANCH = "IsInteger", "IsInteger|IsControl|IsDirectControl|IsCondControl"
JUMP = "IsInteger|IsControl|IsDirectControl|IsUncondControl"


def rounds(outcomes, compressed):
    """A loop with one branch, which is taken to 0x1000c or not."""
    behind = 0x10006 if compressed else 0x10008
    for taken in outcomes:
        yield 0x10000, "addi a0, a0, 1", INTEGER
        yield 0x10004, "c_bnez a5, 8" if compressed else "bne a5, zero, 8", BRANCH
        at = 0x1000C if taken else behind
        yield at, "c_addi a1, 1", INTEGER
        yield at + 2, f"c_j {0x10000 - at - 2}", JUMP


@pytest.mark.parametrize("predictor", PREDICTORS)
def test_a_compressed_branch_once_thought_taken_is_never_unlearnt(tmp_path, predictor):
    """Mispredicted each time that it is not taken; one of four bytes is learnt."""
    outcomes = [True] * 60 + [False] * 300
    short = cycles(tmp_path, rounds(outcomes, True), bp=predictor)
    whole = cycles(tmp_path, rounds(outcomes, False), bp=predictor)
    assert short > whole + 300 * 5


@pytest.mark.parametrize("predictor", PREDICTORS)
def test_a_sample_begins_with_what_compressed_branches_have_taught(tmp_path, predictor):
    outcomes = [True] * 60 + [False] * 2400
    machines = [{**MACHINE, "bp": predictor}, {**MACHINE, "bp": predictor, "btb": 512}]
    with extracted(tmp_path, rounds(outcomes, True)) as trace:
        true = totals(trace, machines, [0, 8000, 9000])[1]
        found = sample_sums(trace, machines, [(8000, 9000)])[0]
    assert found == pytest.approx(true, rel=0.03)


@pytest.mark.parametrize("compressed", [True, False])
def test_branches_that_are_never_taken_cost_nothing(tmp_path, compressed):
    few, many = (cycles(tmp_path, rounds([False] * n, compressed)) for n in (200, 400))
    assert many - few < 200 * 4


def loop(times, shift):
    """Six instructions, the last of which, of four bytes, begins at 0x1000c + shift."""
    for _ in range(times):
        yield 0x10000 + shift, "c_addi a1, 1", INTEGER
        for at in (0x10002, 0x10004, 0x10006, 0x10008, 0x1000A):
            yield at + shift, "c_li a2, 1", INTEGER
        yield 0x1000C + shift, "bne a1, a2, -12", BRANCH


def test_a_word_in_two_fetch_blocks_waits_for_both(tmp_path):
    inside, across = (cycles(tmp_path, loop(400, shift), fetch_buffer=16) for shift in (0, 2))
    assert across - inside > 400
    wide = [cycles(tmp_path, loop(400, shift), fetch_buffer=64) for shift in (0, 2)]
    assert abs(np.diff(wide)[0]) < 40


ACCESS, SUM, CONSTANT = 1, 2, 3


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("c_ld a4, 80(a4)", (ACCESS, 80)),
        ("ld a5, -950(a5)", (ACCESS, -950)),
        ("c.ldsp a5, 8(sp)", (ACCESS, 8)),
        ("lw a0, 0x10(s0)", (ACCESS, 16)),
        ("amoadd_w a5, a4, (a3)", (ACCESS, 0)),
        ("fld fa5, 8(a0)", (ACCESS, 8)),
        ("addi a4, a5, 512", (SUM, 512)),
        ("c_addi a5, -31", (SUM, -31)),
        ("c_addi16sp sp, -64", (SUM, -64)),
        ("c_addi4spn a0, sp, 16", (SUM, 16)),
        ("c_mv a5, a0", (SUM, 0)),
        ("addi a5, zero, 7", (CONSTANT, 7)),
        ("c_li a0, -3", (CONSTANT, -3)),
        ("c_lui a3, 1", (CONSTANT, 4096)),
        ("lui a5, 1048575", (CONSTANT, -4096)),
        ("auipc a5, 76", (CONSTANT, 0x10000 + (76 << 12))),
        ("auipc a5, 1048575", (CONSTANT, 0x10000 - 4096)),
        ("addw a5, a4, a3", (0, 0)),
        ("addiw a5, a4, 1", (0, 0)),
        ("c_add a5, a4", (0, 0)),
        ("ld a5, x(nobody)", (0, 0)),
        ("c_nop", (0, 0)),
    ],
)
def test_what_an_instruction_tells(tmp_path, text, told):
    memory = "|IsLoad" if "(" in text else ""
    with extracted(tmp_path, [(0x10000, text, INTEGER + memory)]) as trace:
        kind, _, number, reach = riscv_values(trace.statics, RowSource(trace)._uops[6])
    assert ((kind[0], number[0]), reach) == (told, 36)


FRESH, OTHER = 0x10_000_000, 0x50_000_000


def lists(seed, known):
    """A branch hangs on a load that misses, and goes either way at random; the one that is not
    taken loads a new line, which the next round's first load is behind.  ``known``: its base is
    written by what tells of it."""
    rng = random.Random(seed)
    for k in range(400):
        at = OTHER + 6400 * k
        yield 0x10000, "ld s1, 0(s0)", "IsInteger|IsLoad", FRESH + 6400 * k
        yield 0x10004, "bne s1, zero, 16", BRANCH, None
        if rng.random() < 0.5:
            yield 0x10008, "addi a5, a5, 0" if known else "xor a5, a5, a2", INTEGER, None
            yield 0x1000C, "ld a3, 64(a5)", "IsInteger|IsLoad", at
            yield 0x10010, "jal zero, 8", JUMP, None
        else:
            yield 0x10014, "ld a4, 64(a5)", "IsInteger|IsLoad", at
        yield 0x10018, "addi t1, t1, 1", INTEGER, None
        yield 0x1001C, "slli a5, t1, 31", INTEGER, None
        yield 0x10020, "addi s0, a3, 1", INTEGER, None
        yield 0x10024, "jal zero, -36", JUMP, None


def test_a_load_of_the_wrong_path_brings_its_line(tmp_path):
    """As far as instructions tell of its base."""
    told, untold = (cycles(tmp_path, lists(3, known)) for known in (True, False))
    assert told < 0.95 * untold


def jump_and_branch(rounds, apart):
    """A loop with a jump and, ``apart`` bytes behind it, a branch that is always taken."""
    at = 0x10008 + apart
    for _ in range(rounds):
        yield 0x10000, "addi a0, a0, 1", INTEGER
        yield 0x10008, "c_j 24", JUMP
        yield 0x10020, f"jal zero, {at - 0x10020}", JUMP
        yield at, f"bne a5, zero, {0x10028 - at}", BRANCH
        yield 0x10028, "jal zero, -40", JUMP


def test_branches_of_one_word_lead_to_each_others_targets(tmp_path):
    """gem5's target buffer tells no branches of one word of four bytes apart: the branch is
    predicted as taken, and decode sends fetch on, each time that the jump was the last."""
    one, two = (cycles(tmp_path, jump_and_branch(400, apart)) for apart in (2, 4))
    assert 400 * 2 < one - two < 400 * 9


def exits(begin, rounds=300):
    """A loop that a branch leaves at random, and its beginning again."""
    rng = random.Random(5)
    for _ in range(rounds):
        for _ in range(rng.choice((2, 5, 9))):
            yield begin, "addi a0, a0, 1", INTEGER
            yield begin + 4, "addi a5, a5, 1", INTEGER
            yield begin + 8, "bne a5, a0, -8", BRANCH
        yield begin + 12, "jal zero, -12", JUMP


def test_the_fetch_buffer_keeps_its_block_when_fetch_is_squashed(tmp_path):
    """What follows a mispredicted exit of a loop is in the loop's block, or in the next one, which
    fetch waits for there and back."""
    machine = {"bp": "Local", "l1i_lat": 3, "fetch_buffer": 64}
    inside, across = (cycles(tmp_path, exits(begin), **machine) for begin in (0x10000, 0x10034))
    assert across - inside > 300 * 4


#: What gem5 takes for a line that CBO.ZERO zeroes, in a loop of four instructions over 2 MB whose
#: lines no cache has; it ran with these latencies of answers on all machines.
GEM5_ZEROED = {
    "o3_small": 6.17, "u001": 9.38, "u003": 5.00, "u007": 7.14, "u008": 6.20, "u011": 12.75,
    "u012": 25.00, "u017": 24.75, "u034": 14.50,
}  # fmt: skip


@pytest.mark.parametrize("name", GEM5_ZEROED)
def test_lines_are_zeroed_as_fast_as_in_gem5(tmp_path, name):
    def lines(count):
        for k in range(count):
            yield 0x10600, "cbo_zero 0(a4)", "IsInteger|IsStore", 0x80000000 + 64 * k
            yield 0x10604, "addi a4, a4, 64", INTEGER
            yield 0x10608, "addi a3, a3, -64", INTEGER
            yield 0x1060C, "bge zero, a3, -12", BRANCH

    machine = {**pins.MACHINES[name], "l2_response": 10, "l3_response": 17}
    some, more = (cycles(tmp_path, lines(n), **machine) for n in (3000, 6000))
    assert (more - some) / 3000 == pytest.approx(GEM5_ZEROED[name], rel=0.06)
