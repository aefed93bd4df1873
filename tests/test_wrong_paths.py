"""What a core takes to be on its way behind a mispredicted branch (csrc/sim/wrong_path.hpp,
csrc/sim/wrong_path_units.hpp)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import core_pins as pins
from test_sim import cycles, extract, line

import tracekit
from tracekit.sim import totals

LOAD, ADD = ("ldr   x4, [x6]", "MemRead", "IsInteger|IsLoad"), ("add   x7, x6, x6", "IntAlu", "")
DIVIDE = ("udiv   x1, x1, x5", "IntDiv", "IsInteger")
AFTER = ("add   x7, x1, x1", "IntAlu", "")  # the division
BRANCH = "IsControl|IsDirectControl|IsCondControl"
JUMP = "IsControl|IsDirectControl|IsUncondControl"
ITERATIONS, BASE = 300, 0x100000
#: A division makes each branch wait so long that wrong paths fill what there is.
WIDE = {"int_div_lat": 40, "rob": 400, "iq": 200, "lq": 200, "sq": 100, "phys_int": 600}


def loop(
    folder: Path, body: Sequence[tuple[str, str, str]], far_loads: bool = False
) -> tracekit.TraceFile:
    """Iterations of ``body`` and of a branch that nobody can predict: to the first row, or to a
    jump there.  ``far_loads``: each reads a line of its own."""
    draw, rows = random.Random(7), []
    branch = ("cbz   x1, 0x400000", "IntAlu", BRANCH)
    jump = ("b   0x400000", "IntAlu", JUMP)
    for _ in range(ITERATIONS):
        for i, (text, op, flags) in enumerate([*body, branch, *draw.choice(([], [jump]))]):
            far = BASE + 4096 * len(rows) if far_loads else BASE
            place = far if op == "MemRead" else None
            rows.append(line(len(rows), text, op, flags, place, 0x400000 + 4 * i))
    return extract(folder, "".join(rows))


def test_rows_of_a_wrong_path_leave_the_reorder_buffer_before_others_retire(tmp_path):
    trace = loop(tmp_path, [DIVIDE, *[ADD] * 8])
    # Some 110 rows come while a branch waits for 40 cycles; 32 entries have no room for them.
    assert cycles(trace, **WIDE) > cycles(trace, **{**WIDE, "rob": 32}) + 20 * ITERATIONS


def test_rows_that_wait_for_operands_leave_no_room_for_others(tmp_path):
    free, waiting = loop(tmp_path, [DIVIDE, *[ADD] * 8]), loop(tmp_path, [DIVIDE, *[AFTER] * 8])
    few = {**WIDE, "iq": 20}
    assert cycles(free, **few) > cycles(waiting, **few) + 7 * ITERATIONS
    assert cycles(waiting, **WIDE) > cycles(waiting, **few) + 15 * ITERATIONS


def test_loads_of_a_wrong_path_fill_the_load_queue_and_its_rows_the_registers(tmp_path):
    trace = loop(tmp_path, [DIVIDE, *[ADD, LOAD] * 4])
    much = cycles(trace, **WIDE)
    for few in ({"lq": 8}, {"phys_int": 60}):
        assert cycles(trace, **{**WIDE, **few}) < much - 20 * ITERATIONS


def test_squashed_rows_keep_their_entries_until_older_ones_retire(tmp_path):
    multiply = ("mul   x1, x6, x6", "IntMult", "IsInteger")
    trace = loop(tmp_path, [LOAD, multiply, *[ADD] * 6], far_loads=True)
    # A load waits for memory: behind it branches are resolved at once, and what was squashed is
    # in the way of the next iterations' loads.
    few = {"rob": 64, "l1d_mshrs": 32, "l2_mshrs": 32}
    assert cycles(trace, **few) > 1.1 * cycles(trace, ideal_branches=1, **few)
    many = {**few, "rob": 400, "iq": 200, "lq": 200}
    assert cycles(trace, **many) < 0.8 * cycles(trace, **few)


def test_a_wrong_path_takes_entries_that_are_freed_just_before_its_end(tmp_path):
    multiply = ("mul   x1, x6, x6", "IntMult", "IsInteger")
    trace = loop(tmp_path, [LOAD, multiply, *[ADD] * 6], far_loads=True)
    # What a load from memory held retires while the branch behind it is resolved; some 330 cycles
    # more were taken where rename heard of that two cycles later.
    assert cycles(trace, **{**WIDE, "rob": 16}) < 34_450


def test_divisions_of_a_wrong_path_take_their_turn_between_older_ones(tmp_path):
    """gem5 gives its one divider to whatever is ready.  Where a division's reader may issue when
    the divider is free, which is where nothing is between issue and execution, an older one is."""
    first = ("udiv   x1, x6, x5", "IntDiv", "IsInteger")  # whatever the iteration before
    apart, chained = loop(tmp_path, [first, *[DIVIDE] * 3]), loop(tmp_path, [DIVIDE] * 4)
    late, soon = ({**WIDE, "int_mul": 1, "issue_to_exec": k} for k in (2, 1))
    assert cycles(apart, **soon) < cycles(chained, **soon) + ITERATIONS
    # Half of the branches are foreseen wrongly, each behind three gaps between divisions.
    assert cycles(apart, **late) > cycles(chained, **late) + 30 * ITERATIONS
    assert cycles(apart, **{**late, "int_mul": 2}) < cycles(chained, **late)


def test_multiplications_wait_for_divisions_of_a_wrong_path(tmp_path):
    """A division of the next iteration takes the unit when it is free, which is before the older
    multiplication may issue where something is between issue and execution.  Half of the branches
    in between are foreseen wrongly."""
    divide = ("udiv   x2, x6, x5", "IntDiv", "IsInteger")
    trace = loop(tmp_path, [divide, ("mul   x1, x2, x2", "IntMult", "IsInteger")])
    late, soon = ({**WIDE, "int_mul": 1, "issue_to_exec": k} for k in (2, 1))
    assert cycles(trace, **late) > cycles(trace, **soon) + 15 * ITERATIONS


def test_loads_of_a_wrong_path_hold_up_an_in_order_core(tmp_path):
    """A load that a branch passes by is sent where that was not foreseen, and its answer waited
    for, which takes as long as it took the last time."""

    def passing(far: bool) -> tracekit.TraceFile:
        draw, rows = random.Random(3), []
        for k in range(ITERATIONS):
            place = BASE + 4096 * k if far else BASE
            body = [
                (0, "udiv   x1, x1, x5", "IntDiv", "IsInteger", None),
                (4, "cbz   x1, 0x40000c", "IntAlu", BRANCH, None),
                (8, "ldr   x4, [x6, x8]", "MemRead", "IsInteger|IsLoad", place),
                *((12 + 4 * i, "mul   x8, x8, x8", "IntMult", "", None) for i in range(16)),
                (76, "b   0x400000", "IntAlu", JUMP, None),
            ]
            if draw.random() < 0.5:
                del body[2]
            for pc, text, op, flags, at in body:
                rows.append(line(len(rows), text, op, flags, at, 0x400000 + pc))
        return extract(tmp_path, "".join(rows))

    own = {**pins.MACHINES["io_2w"], "l1d_mshrs": 32, "l2_mshrs": 32}

    def more(**changes: int) -> float:
        far, near = passing(True), passing(False)
        with far, near:
            of = [float(totals(t, [{**own, **changes}])[0, 0]) for t in (far, near)]
        return (of[0] - of[1]) / ITERATIONS

    assert more() > more(ideal_branches=1) + 30  # of 146 for half of the iterations
