"""How long operations take on a simulated core (csrc/sim/op_use.cpp)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_sim import MACHINE, cycles, extract, line
from test_sim_memory import text

import tracekit
from tracekit import sim

N = 300


def test_moves_of_floating_point_registers_have_a_latency_of_their_own(tmp_path):
    rows = [("fmov   f1, f1", "FloatMisc", "IsVector", None)] * N
    trace = extract(tmp_path, text(*rows))
    quick = cycles(trace, fp_add_lat=2)
    assert quick == cycles(trace, fp_add_lat=8) == cycles(trace, fp_misc_lat=3)
    assert cycles(trace, fp_misc_lat=8) > quick + 4.9 * N


def square_roots(folder: Path, adds: int, roots: int) -> tracekit.TraceFile:
    """A chain of additions, and behind it roots that nobody waits for."""
    add = ("fadd   f1, f1, f1", "FloatAdd", "IsVector", None)
    root = ("fsqrt   f2, f3", "FloatSqrt", "IsVector", None)
    return extract(folder, text(*([add] * adds + [root] * roots) * 20))


def test_a_unit_goes_to_what_is_ready_and_not_to_older_rows_that_are_not(tmp_path):
    machine = {"fp": 1, "fp_add_lat": 8, "fp_div_lat": 12, "rob": 400, "iq": 200, "phys_vec": 600}
    adds = cycles(square_roots(tmp_path, 20, 0), **machine)
    both = cycles(square_roots(tmp_path, 20, 1), **machine)
    # The additions take 160 cycles, and begin as the ones before end; a root of 24 cycles fits
    # between none of them, and yet is there long before they are.
    assert both < adds + 20 * 12
    # But a unit does one thing at a time: two roots in that time, not twenty.
    many = cycles(square_roots(tmp_path, 2, 20), **machine)
    assert many > 20 * 20 * 24


def test_results_of_one_cycle_are_written_back_before_those_of_longer_operations(tmp_path):
    n = 400

    def chain(adds: int) -> tracekit.TraceFile:
        rows = []
        for _ in range(n):
            rows.append(line(0, "fadd   v1, v1, v2", "SimdFloatAdd", "IsVector", pc=0x400000))
            for k in range(adds):
                pc = 0x400004 + 4 * k
                rows.append(line(0, f"add   x{k + 3}, x{k + 13}, #1", pc=pc))
        return extract(tmp_path, "".join(rows))

    few, many = chain(2), chain(6)
    narrow = {"width": 2, "issue_width": 2, "fp_add_lat": 4}
    link = cycles(few, **narrow) / n
    # There is room for all seven in four cycles, but two of the six come with the chain's result.
    assert link + 0.3 < cycles(many, **narrow) / n < link + 1
    assert cycles(many, fp_add_lat=4) / n == pytest.approx(link, abs=0.1)


def test_a_multiplication_waits_for_the_first_unit_that_divisions_leave(tmp_path):
    """Two divisions, the second one five cycles later; then a product of the first one's result,
    and younger divisions, whose operands are there before that result is.  The first unit goes to
    one of them, the second one, five cycles later, to the product (gem5's `life` on u022)."""
    add, divide = ("IntAlu", "IsInteger", None), ("IntDiv", "IsInteger", None)
    rows = [("add   x9, x9, x9", *add)] * 80
    rows += [("udiv   x1, x9, x5", *divide), ("add   x10, x9, x5", *add)]
    rows += [("add   x10, x10, x5", *add)] * 4 + [("udiv   x2, x10, x5", *divide)]
    rows += [("mul   x4, x1, x1", "IntMult", "IsInteger", None), ("add   x11, x10, x5", *add)]
    rows += [("add   x11, x11, x5", *add)] * 4
    rows += [("udiv   x6, x11, x5", *divide), ("udiv   x7, x11, x5", *divide)]
    rows += [("b   0x400000", "IntAlu", "IsControl|IsDirectControl|IsUncondControl", None)]
    turns = 6
    lines = enumerate(rows * turns)
    trace = extract(
        tmp_path, "".join(line(k, *row, 0x400000 + 4 * (k % len(rows))) for k, row in lines)
    )
    machine = {
        **MACHINE,
        "int_mul": 2,
        "int_div_lat": 20,
        "issue_to_exec": 2,
        "rob": 400,
        "iq": 200,
    }
    timed = np.concatenate([w.cycles[:, 0] for w in sim.walk(trace, [machine], timed=True)])
    names = list(sim.TIMING)
    issued = timed[:, names.index("dispatch_gap")].cumsum() + timed[:, names.index("issue_delay")]
    last = len(rows) * (turns - 1)
    first, second, product = (issued[last + k] for k in (80, 86, 87))
    assert 4 <= second - first <= 11
    assert product == second + 20
