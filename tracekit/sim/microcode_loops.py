"""Loops of X86's microcode: divisions.  How often one turns follows from values, which a trace does
not have."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tracekit import _core

__all__ = ["DIVISION_TURNS", "Loops", "executed_parts", "likely_turns", "mean_turns"]

#: How often the loops of divisions turned in 53 programs (64-bit numbers mostly for div, 32-bit
#: ones for idiv): how many executions had 0, 1, ... turns.
DIVISION_TURNS: Final = {
    "div": (145, 7, 19, 310, 3163, 9807, 10427, 3638, 488, 14),
    "idiv": (10002, 251),
}


class Loops(NamedTuple):
    """Of static instructions whose microcode is a loop: ids, the loop's first part, its branch, and
    how often it turns: some equally likely numbers of each (csrc/sim/microcode_loop.hpp)."""

    ids: npt.NDArray[np.uint32]
    first: npt.NDArray[np.uint32]
    branch: npt.NDArray[np.uint32]
    turns: npt.NDArray[np.uint8]

    @classmethod
    def of(cls, found: list[tuple[int, int, int, tuple[int, ...]]]) -> Loops:
        """Rows of what the columns have."""
        ids, first, branch = (np.array([f[k] for f in found], np.uint32) for k in range(3))
        turns = np.array([f[3] for f in found], np.uint8).reshape(-1, _core.MICROCODE_LOOP_CASES)
        return cls(ids, first, branch, turns)


@cache
def likely_turns(name: str) -> tuple[int, ...]:
    """Numbers of turns of a division, each as likely as any other."""
    counts = np.cumsum(DIVISION_TURNS[name])
    cases = _core.MICROCODE_LOOP_CASES
    places = (np.arange(cases) + 0.5) / cases * counts[-1]
    return tuple(np.searchsorted(counts, places, "right").tolist())


def mean_turns(name: str) -> float:
    """Of a division."""
    return float(np.mean(likely_turns(name)))


def executed_parts(
    op: npt.NDArray[np.uint8],
    begin: npt.NDArray[np.uint32],
    loops: Loops,
    classes: Sequence[int],
) -> npt.NDArray[np.float64]:
    """How many parts of these operation classes an execution of each static instruction has, in the
    mean: float64 [statics].  ``op``: each part's class; ``begin``: where each instruction's parts
    begin, [statics + 1].  Those in a loop count as often as it turns."""
    before = np.concatenate([[0.0], np.cumsum(np.isin(op, classes))])
    out: npt.NDArray[np.float64] = np.diff(before[begin])
    inside = before[loops.branch.astype(np.intp) + 1] - before[loops.first]
    out[loops.ids] += inside * loops.turns.mean(axis=1)
    return out
