"""The loop of a program that costs most, and two iterations of it in the pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tracekit.schema import BRANCH_KINDS
from tracekit.store.reader import TraceFile
from tracekit.view import of_simulation

__all__ = ["hottest_loop", "pipeline"]

#: Rows that are looked at, those of an iteration, and those that are drawn.
_SEARCHED, _MOST_OF_LOOP, _DRAWN = 1_000_000, 64, 48
#: Branches within a function, and how far back they go.
_KINDS: Final = ("conditional", "jump")
_FARTHEST: Final = 4096
_STAGES: Final = ("waits to issue", "executes", "waits to retire")


def hottest_loop(
    trace: TraceFile, cycles: npt.NDArray[np.float64]
) -> tuple[int, int, int, int] | None:
    """(first row, row behind, pc of its begin, pc of its end) of a typical iteration of the
    innermost loop that costs most.

    ``cycles``: of each static instruction.  A loop is a direct branch to an address at most 4 kB
    before it that is followed again within 64 rows; its cost is that of the instructions between.
    None where there is none.
    """
    ids = trace.column("static_id", (0, min(len(trace), _SEARCHED)))
    pc = trace.statics.pc
    at = pc[ids]
    inside = np.isin(trace.statics.branch, [BRANCH_KINDS.index(k) for k in _KINDS])
    near = (at[1:] <= at[:-1]) & (at[:-1] - at[1:] <= _FARTHEST)
    back = np.flatnonzero(inside[ids[:-1]] & near)
    if len(back) < 2:
        return None
    key, number = np.unique(at[back], return_inverse=True)
    order = np.lexsort((back, number))
    sorted_rows, sorted_keys = back[order], number[order]
    gap = np.diff(sorted_rows)
    same = (np.diff(sorted_keys) == 0) & (gap <= _MOST_OF_LOOP)
    starts = at[np.minimum(sorted_rows + 1, len(at) - 1)]
    best: tuple[float, int, npt.NDArray[Any]] | None = None
    for k in np.unique(sorted_keys[:-1][same]).tolist():
        mine = np.flatnonzero(same & (sorted_keys[:-1] == k))
        low, high = int(np.median(starts[mine])), int(key[k])
        cost = float(cycles[(pc >= low) & (pc <= high)].sum())
        # Of two loops around the same instructions the inner one, whose rounds are more.
        if best is None or cost > 1.05 * best[0] or (cost > 0.95 * best[0] and len(mine) > best[1]):
            best = (cost, len(mine), mine)
    if best is None:
        return None
    usual = best[2][gap[best[2]] == np.median(gap[best[2]]).astype(int)]
    mine = usual if len(usual) else best[2]
    chosen = int(mine[len(mine) // 2])
    first, last = int(sorted_rows[chosen]) + 1, int(sorted_rows[chosen + 1]) + 1
    return first, last, int(at[first]), int(at[last - 1])


def pipeline(
    trace: TraceFile,
    machine: Mapping[str, Any],
    cycles: npt.NDArray[np.float64],
    threads: int | None = None,
) -> dict[str, Any] | None:
    """Two iterations of that loop on a simulated core: of each row its text, the cycles from which
    it waits, executes and waits to retire, when it retires, and what it met.  None without loops.
    """
    found = hottest_loop(trace, cycles)
    if found is None:
        return None
    first, last, low, high = found
    end = min(len(trace), first + min(_DRAWN, 2 * (last - first)))
    view = of_simulation(trace, machine, first, end, threads)
    what: dict[int, list[str]] = {}
    for m in view.marks:
        what.setdefault(m.row, []).append(f"{m.track}, {m.what}")
    return {
        "machine": str(machine.get("name", "machine")),
        "begin": first,
        "length": last - first,
        "from": f"{low:#x}",
        "to": f"{high:#x}",
        "stages": _STAGES,
        "rows": [
            {
                "text": view.texts[k],
                "at": [*view.starts[k].tolist(), int(view.retired[k])],
                "reads": view.producers[k],
                "met": what.get(k, []),
            }
            for k in range(end - first)
        ],
    }
