"""What gem5's O3 CPU does otherwise with RISC-V: compressed branches, and words in two fetch blocks
(docs/simulator.md; of X86: test_instruction_lengths.py).  Both are pinned against gem5 by
golden/cores/hash-chained.riscv, too."""

from __future__ import annotations

import core_pins as pins
import numpy as np
import pytest

import tracekit
from tracekit.sim import sample_sums, totals

MACHINE = {**pins.MACHINES["ns_8w"], "name": "m"}
PREDICTORS = pins.PREDICTORS


def extracted(tmp_path, instructions):
    """The trace of (pc, text, flags) one after another."""
    lines = [
        f"{500 * i:7}: system.cpu: {pc:#x}    : {text}    : IntAlu :   flags=({flags})"
        for i, (pc, text, flags) in enumerate(instructions)
    ]
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
