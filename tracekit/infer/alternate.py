"""Several roundings of the same weights, one after another along the steps.

A weight's rounding error is the same at every step, an LSTM adds it up, and a total adds that up
again.  So there are SETS sets of rounded weights, each made to take back what those before it have
left: over the steps the error is that of one rounding divided by SETS, for the arithmetic of one
(first-order noise shaping, of the weights).  The sets follow a golden-ratio sequence of the
position in the chunk, which visits them evenly, within loops of any length too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.infer.compiled import compiled

__all__ = ["SETS", "round_in_turns", "set_at", "shuffled"]

Array = NDArray[Any]
BITS = 2
SETS = 1 << BITS
GOLDEN = 2654435769  # 2^32 over the golden ratio
SHIFT, MASK = 32 - BITS, 0xFFFFFFFF
ROW, COLUMN = np.uint64(0x85EBCA6B), np.uint64(0xC2B2AE35)  # odd, and mix well


@compiled("set_at")
def set_at(position):  # type: ignore[no-untyped-def]
    """The set of weights that a step has, by its position from the chunk's start on."""
    return ((position * GOLDEN) & MASK) >> SHIFT


def round_in_turns(weight: Array, rounding: Callable[[Array], Array]) -> Array:
    """[SETS, *shape]: each set is ``rounding`` of the weights and of what the sets before left."""
    left = np.zeros(weight.shape)
    out = []
    for _ in range(SETS):
        wanted = weight + left
        out.append(rounding(wanted))
        left = wanted - out[-1]
    return np.stack(out)


def shuffled(sets: Array) -> Array:
    """Sets of [outputs, inputs], for each weight from another one on: all weights rounded to the
    same side at once would be an error of its own."""
    rows, columns = (np.arange(n, dtype=np.uint64) for n in sets.shape[1:])
    mixed = (rows[:, None] * ROW ^ columns * COLUMN) & np.uint64(MASK)
    turn = (mixed * np.uint64(GOLDEN) & np.uint64(MASK)) >> np.uint64(SHIFT)
    which = (np.arange(SETS)[:, None, None] + turn.astype(np.int64)) % SETS
    out: Array = np.take_along_axis(sets, which, axis=0)
    return out
