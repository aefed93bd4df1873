"""How long operations take on a simulated core (csrc/sim/op_use.cpp)."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_sim import cycles, extract, line
from test_sim_memory import text

import tracekit

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
