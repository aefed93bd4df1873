"""Delays between a core's stages, accesses of two lines, and stores in between later rows' loads
(csrc/sim)."""

from __future__ import annotations

import random

import numpy as np
import pytest
from test_sim import MACHINE, cycles, extract, line, walk_module
from test_sim_memory import BASE, LOAD, STORE, chain, text

from tracekit import sim
from tracekit.sim.machine import completed

ADD = ("add   x7, x7, #1", "IntAlu", "IsInteger", None)


@pytest.mark.parametrize(
    ("arch", "front", "rename", "dispatch"),
    [("arm", 1, 1, 1), ("arm", 3, 2, 2), ("x86", 1, 1, 2), ("x86", 4, 2, 2), ("riscv", 3, 1, 2)],
)
def test_delays_between_stages_follow_from_the_instruction_set(arch, front, rename, dispatch):
    found = completed({**MACHINE, "front_delay": front}, arch)
    assert (found["decode_to_rename"], found["rename_to_iew"]) == (rename, dispatch)
    given = completed({**MACHINE, "decode_to_rename": 5, "rename_to_iew": 6}, arch)
    assert (given["decode_to_rename"], given["rename_to_iew"]) == (5, 6)


@pytest.mark.parametrize("delay", ["decode_to_rename", "rename_to_iew"])
def test_a_misprediction_waits_for_each_stage_in_front(tmp_path, delay):
    draw, n = random.Random(5), 400
    rows, wrong = [], "IsControl|IsDirectControl|IsCondControl"
    for _ in range(n):  # a branch over an instruction that nobody can predict
        rows.append(line(len(rows), "cbz   x1, 0x40000c", "IntAlu", wrong, None, 0x400000))
        for k in range(draw.randrange(2), 2):
            rows.append(line(len(rows), *ADD[:3], None, 0x400004 + 4 * k))
        back = "IsControl|IsDirectControl|IsUncondControl"
        rows.append(line(len(rows), "b   0x400000", "IntAlu", back, None, 0x40000C))
    trace = extract(tmp_path, "".join(rows))
    one, four = (cycles(trace, **{delay: d}) for d in (1, 4))
    ideal = [cycles(trace, ideal_branches=1, **{delay: d}) for d in (1, 4)]
    assert 3 * n / 3 < four - one < 3 * n  # each of the mispredictions, half of them at most
    assert ideal[1] - ideal[0] < 10


def test_an_access_of_two_lines_asks_for_both(tmp_path):
    n = 300

    def loads(offset: int) -> float:
        rows = [
            ("ldp_uop   x4, x5, [x4]", "MemRead", LOAD, BASE + 4096 * k + offset) for k in range(n)
        ]
        return cycles(extract(tmp_path, text(*rows)))

    one, two = loads(32), loads(56)
    assert two > one + 4 * n  # a burst more for each


def test_the_second_line_of_a_load_is_waited_for(tmp_path):
    def loads(offset: int) -> float:
        rows = []
        for k in range(200):  # the first line is there, the second one is in memory
            at = BASE + 128 * k
            rows.append(("ldr   x1, [x1]", "MemRead", LOAD, at))
            rows.append(("ldp_uop   x1, x5, [x1]", "MemRead", LOAD, at + offset))
        return cycles(extract(tmp_path, text(*rows)))

    assert loads(56) > 1.5 * loads(40)


def test_a_store_misses_whose_line_later_rows_have_driven_out_before_it_drains(tmp_path):
    """A load brings a line; behind a load from memory a store to it waits to retire.  Loads that
    follow need the line's set at once."""

    def loop(step: int) -> float:
        rows = []
        for k in range(100):
            own = BASE + 64 * (k % 8)
            rows.append(("ldr   x4, [x6]", "MemRead", LOAD, own))
            rows.append(("ldr   x1, [x1]", "MemRead", LOAD, BASE + (1 << 24) + 8192 * k))
            rows.append(("str   x3, [x6]", "MemWrite", STORE, own))
            rows += [
                ("ldr   x8, [x9]", "MemRead", LOAD, own + (1 << 20) + step * w) for w in range(1, 5)
            ]
            rows.append(("dmb   ish", "No_OpClass", "IsReadBarrier|IsWriteBarrier", None))
        return cycles(extract(tmp_path, text(*rows)), rob=128, lq=100, l1d_kb=8, l1d_assoc=2)

    same_set, others = loop(4096), loop(64)
    assert same_set > others + 8 * 100


def test_strides_before_the_second_cache_are_of_bytes(tmp_path):
    """Every third line is asked for, by eight instructions in turn: each at the same byte, or at
    the one or the other of two."""
    steady = chain(tmp_path, [192] * 600)
    moved = chain(tmp_path, ([192] * 7 + [224] + [192] * 7 + [160]) * 40)
    none = cycles(steady)
    assert cycles(steady, l2_pf="stride") < 0.9 * none
    assert cycles(moved, l2_pf="stride") > 0.97 * none


def test_stores_are_sent_alike_from_blocks_of_any_length(tmp_path, monkeypatch):
    """Stores of one block may be sent in the next."""
    draw = np.random.default_rng(4)
    rows = []
    for _ in range(3000):
        at = BASE + 64 * int(draw.integers(0, 600))
        kind = draw.integers(0, 3)
        rows.append(
            ("str   x3, [x6]", "MemWrite", STORE, at)
            if kind == 0
            else ("ldr   x4, [x6]", "MemRead", LOAD, at)
            if kind == 1
            else ADD
        )
    trace = extract(tmp_path, text(*rows))
    whole = sim.totals(trace, [MACHINE])[0, 0]
    monkeypatch.setattr(walk_module, "BLOCK", 70)
    parts = sim.totals(trace, [MACHINE], [0, 1, 700, 701, 2000, 3000])[:, 0]
    assert parts.sum() == whole
