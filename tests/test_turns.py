"""Who goes first: stores right behind a fill, loads that have a part in a store, divisions."""

from __future__ import annotations

import numpy as np
import pytest
from test_sim import MACHINE, cycles, extract
from test_sim_memory import BASE, LOAD, STORE, text

from tracekit.sim import walk
from tracekit.sim.trace_walk import TIMING

#: Bytes between two lines of different pages.
APART = 1 << 12
DELAY = TIMING.index("issue_delay")


@pytest.mark.parametrize("latency", [2, 5])
def test_a_store_right_behind_a_fill_does_not_wait_for_the_line(tmp_path, latency):
    """gem5's BaseCache::access asks calculateAccessLatency of reads alone.  Under total store order
    the next store goes when the one before is written."""
    lines = 200

    def stores(again: bool):
        rows = [("str   x1, [x2]", "MemWrite", STORE, BASE)]
        for k in range(1, lines + 1):
            line = BASE + APART * k
            rows.append(("str   x1, [x2]", "MemWrite", STORE, line))
            rows.append(("str   x1, [x2]", "MemWrite", STORE, line + 8 if again else BASE))
        return extract(tmp_path, text(*rows))

    behind, there = (cycles(stores(a), l1d_lat=latency, tso=1) for a in (True, False))
    assert behind == pytest.approx(there, abs=lines / 10)


def test_a_load_that_waits_for_a_part_holds_the_younger_ones_that_do(tmp_path):
    """gem5's LSQUnit::storePostSend: all of them issue again once the oldest one's store goes."""
    early, late = BASE + 16, BASE + 80
    first = [("ldr   x9, [x9]", "MemRead", LOAD, at) for at in (early, late)]

    def delays(order: int) -> dict[int, float]:
        """Of the loads, by their address: from dispatch to issue."""
        loads = [("ldp_uop   x10, x30, [x7]", "MemRead", LOAD, at) for at in (late, early)]
        rows = [
            *first,
            *[("sdiv   x9, x9, x9", "IntDiv", "IsInteger", None)] * 4,
            ("strxi_uop   x1, [x2]", "MemWrite", STORE, early),
            ("sdiv   x3, x9, x5", "IntDiv", "IsInteger", None),
            ("strxi_uop   x1, [x6]", "MemWrite", STORE, late),
            ("add   x7, x9, #0", "IntAlu", "IsInteger", None),
            *loads[::order],
        ]
        with extract(tmp_path, text(*rows)) as trace:
            machine = {**MACHINE, "int_div_lat": 30}
            timed = np.concatenate([w.cycles[:, 0] for w in walk(trace, [machine], timed=True)])
        return {at: float(timed[-2 + k, DELAY]) for k, (*_, at) in enumerate(loads[::order])}

    held, free = delays(1), delays(-1)
    assert held[late] == free[late] > free[early] + 20
    assert held[early] == held[late]


def test_two_chains_of_divisions_take_turns_where_they_issue_ahead(tmp_path):
    """Between two divisions of a chain the unit is free for a cycle, and goes to the other chain's
    next one, which is ready (gem5's InstructionQueue::scheduleReadyInsts)."""
    n, latency = 8, 20

    def chain(register: str):
        return [(f"sdiv   {register}, {register}, x9", "IntDiv", "IsInteger", None)] * n

    def first_done(issue_to_exec: int) -> float:
        with extract(tmp_path, text(*chain("x1"), *chain("x2"))) as trace:
            machine = {**MACHINE, "int_div_lat": latency, "issue_to_exec": issue_to_exec}
            (walked,) = walk(trace, [machine])
        return float(walked.cycles[1:n].sum())  # from the first one's end

    assert first_done(1) == pytest.approx((n - 1) * latency, abs=latency)
    assert first_done(2) == pytest.approx(2 * (n - 1) * latency, abs=2 * latency)
