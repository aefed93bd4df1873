"""What prefetchers leave in caches long before a sample: against a walk of the uses, and of samples
that begin warm."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.prefetched import LOAD, STORE, Prefetched
from test_sim import MACHINE, extract, line
from test_warm_predictors import JUMP, bias

from tracekit import _core, sim

SMALL = {**MACHINE, "l1i_kb": 1, "l1i_assoc": 2, "l1d_kb": 1, "l1d_assoc": 2}
SMALL |= {"l2_kb": 4, "l2_assoc": 4, "l3_kb": 8, "l3_assoc": 8}
#: Sets and ways of them.
SHAPES = (8, 2), (8, 2), (16, 4), (16, 8)
#: Four loops that step through lines, each from the place of another one from time to time.
STEPS = (8, 64, -64, 200)
USES = st.lists(
    st.tuples(
        st.integers(0, len(STEPS) - 1),
        st.integers(0, 3),  # kind
        st.integers(0, 40),  # rows since the last use
        st.one_of(st.none(), st.integers(0, 1 << 14)),  # it goes on there
    ),
    max_size=250,
)


def walked_uses(drawn):
    """Uses: address, pc, kind, rows."""
    at = [4096 * k for k in range(len(STEPS))]
    for loop, kind, rows, place in drawn:
        at[loop] = max(0, at[loop] + STEPS[loop]) if place is None else place
        # Of some loads nobody knows the pc.
        pc = 0 if rows == 40 and kind in (LOAD, STORE) else 0x1000 + 4 * loop
        yield at[loop], pc, kind, rows


@settings(max_examples=150)
@given(
    USES,
    st.booleans(),
    st.sampled_from(["none", "stride", "tagged"]),
    st.sampled_from(["none", "stride", "tagged"]),
    st.booleans(),
)
def test_caches_hold_what_prefetchers_bring(drawn, in_order, l1d, l2, l3):
    uses = list(walked_uses(drawn))
    machine = {**SMALL, "l1d_pf": l1d, "l2_pf": l2, "l3_kb": 8 * l3}
    machine |= {"cpu": "minor"} if in_order else {}
    code, first, second, third = SHAPES
    true = Prefetched(in_order, (l1d, l2), code, first, second, third if l3 else None)
    true.walk(uses)
    columns = zip(*uses, strict=True) if uses else ((), (), (), ())
    types = (np.uint64, np.uint64, np.uint8, np.uint32)
    arrays = [np.array(list(c), t) for c, t in zip(columns, types, strict=True)]
    found = _core.prefetched_contents(sim.core_row(machine)[np.newaxis], *arrays)
    assert found == (true.l1.contents(), true.l2.contents())


def test_bad_uses_are_refused():
    one = np.zeros(1, np.uint64)
    core = sim.core_row(SMALL)[np.newaxis]
    with pytest.raises(ValueError, match="no such kind"):
        _core.prefetched_contents(core, one, one, np.array([4], np.uint8), np.zeros(1, np.uint32))
    with pytest.raises(ValueError, match="different lengths"):
        _core.prefetched_contents(core, one, one, np.zeros(2, np.uint8), np.zeros(1, np.uint32))


def every_third_line(rounds, lines):
    """A loop over every third line, the two behind which a tagged prefetcher brings for nothing."""
    out = []
    for k in range(rounds * lines):
        address = 0x8000000 + 192 * (k % lines)
        row = ("ldr   x6, [x5]", "MemRead", "IsInteger|IsLoad", address)
        out.append(line(len(out), *row, 0x400000))
        out.append(line(len(out), "add   x5, x5, x6", pc=0x400004))
        out.append(line(len(out), "b   0x400000", flags=JUMP, pc=0x400008))
    return "".join(out)


@pytest.mark.parametrize("side", ["l1d_pf", "l2_pf"])
def test_lines_that_nobody_uses_fill_the_second_cache(tmp_path, side):
    """Its 512 lines hold the loop's 400, but not those that are brought for nothing as well."""
    machine = {**MACHINE, "l1d_kb": 4, "l1d_assoc": 4, "l2_kb": 32, "l2_assoc": 8, "l3_kb": 0}
    with extract(tmp_path, every_third_line(12, 400)) as trace:
        first = len(trace) - 600
        rows = {"approach": 300, "warm": 100}
        assert abs(bias(trace, machine, first, len(trace), **rows)) < 0.02
        tagged = {**machine, side: "tagged"}
        assert abs(bias(trace, tagged, first, len(trace), **rows)) < 0.05
        true = sim.totals(trace, [machine, tagged], [0, first, len(trace)])[1]
        assert true[1] > 2 * true[0]
