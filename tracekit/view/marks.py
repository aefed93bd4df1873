"""What rows met: branches that were predicted wrongly, and accesses that caches did not have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from tracekit.sim import row_events

__all__ = ["TRACKS", "Mark", "Track", "of_core", "of_ticks"]

Track = Literal["mispredictions", "load misses", "store misses", "fetch misses"]
TRACKS: Final[tuple[Track, ...]] = (
    "mispredictions",
    "load misses",
    "store misses",
    "fetch misses",
)
I64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Mark:
    """``row`` (of the window) from cycle ``begin`` to ``end``; ``what`` happened."""

    track: Track
    row: int
    begin: int
    end: int
    what: str


def of_core(events: npt.NDArray[np.uint8], loads: Bool, starts: I64, retired: I64) -> list[Mark]:
    """Of a simulated core.  ``events``: as `event_walk` gives them; ``starts``: dispatched, issued,
    complete.  Loads and branches from issue to completion; stores are written after they retire,
    and lines are fetched before rows are dispatched: points of time both."""
    out = []
    data = events & row_events.LEVEL_MASK
    fetch = events >> row_events.FETCH_SHIFT & row_events.LEVEL_MASK
    wrong = events & (row_events.MISPREDICTED | row_events.RESTEERED)
    for row in np.flatnonzero((data > 1) | (fetch > 1) | (wrong > 0)).tolist():
        dispatched, issued, done = starts[row].tolist()
        if wrong[row]:
            late = wrong[row] & row_events.MISPREDICTED
            what = "mispredicted" if late else "unknown to the BTB"
            out.append(Mark("mispredictions", row, issued, done, what))
        if data[row] > 1:
            what = f"from {_level(data[row])}"
            if loads[row]:
                out.append(Mark("load misses", row, issued, done, what))
            else:
                end = int(retired[row])
                out.append(Mark("store misses", row, end, end, what))
        if fetch[row] > 1:
            what = f"from {_level(fetch[row])}"
            out.append(Mark("fetch misses", row, dispatched, dispatched, what))
    return out


def _level(number: Any) -> str:
    return str(row_events.LEVELS[int(number) - 1])


def of_ticks(branches: Bool, loads: Bool, starts: I64) -> list[Mark]:
    """By gem5's ticks, which tell neither: a branch counts as predicted wrongly where the row
    behind it was fetched only after it was complete, a load as a miss where it took at least
    three times as long as the fastest of the window.  ``starts``: fetched first, issued and
    complete last."""
    fetched, issued, done = starts[:, 0], starts[:, -2], starts[:, -1]
    out = []
    waits = np.zeros(len(starts), np.bool_)
    waits[:-1] = branches[:-1] & (done[:-1] >= 0) & (fetched[1:] >= done[:-1])
    for row in np.flatnonzero(waits).tolist():
        begin = max(int(issued[row]), int(fetched[row]))
        out.append(Mark("mispredictions", row, begin, int(done[row]), "the next row waited for it"))
    known = loads & (issued >= 0) & (done >= issued)
    took = np.where(known, done - issued, 0)
    fastest = int(took[took > 0].min(initial=np.iinfo(np.int64).max))
    for row in np.flatnonzero(took >= 3 * fastest).tolist() if known.any() else ():
        out.append(
            Mark("load misses", row, int(issued[row]), int(done[row]), f"{took[row]} cycles")
        )
    return out
