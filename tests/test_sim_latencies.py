"""How long operations take on a simulated core (csrc/sim/op_use.cpp)."""

from __future__ import annotations

from test_sim import cycles, extract
from test_sim_memory import text

N = 300


def test_moves_of_floating_point_registers_have_a_latency_of_their_own(tmp_path):
    rows = [("fmov   f1, f1", "FloatMisc", "IsVector", None)] * N
    trace = extract(tmp_path, text(*rows))
    quick = cycles(trace, fp_add_lat=2)
    assert quick == cycles(trace, fp_add_lat=8) == cycles(trace, fp_misc_lat=3)
    assert cycles(trace, fp_misc_lat=8) > quick + 4.9 * N
