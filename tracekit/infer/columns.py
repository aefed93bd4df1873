"""How int8 reads raw features: for each column a step and a center, found on calibration rows.

What matters (measured on PerfVec's paper model after a pass over 38 programs): the value that a
column mostly has must be exact, as must small whole numbers; and all steps must be about the same,
for a row of weights times steps has one scale.  A flag that is set once in ten thousand rows is a
hundred deviations high: it would take the scale for itself, and stays in bfloat16.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.infer.blocks import Columns

__all__ = ["choose_columns"]

Array = NDArray[Any]
LEVELS = 254  # steps from the lowest to the highest value
WILD = 4.0  # times the median of the columns' ranges: what is above stays in bfloat16


def choose_columns(values: Array, weight: Array, raw: Columns) -> Columns:
    """Steps and centers for standardised inputs [rows, inputs] that are multiplied with ``weight``
    [outputs, inputs]; those that stay in bfloat16 are read as ``raw`` says.

    A column that never varies takes values of a few deviations around the one it has.
    """
    low, high = values.min(axis=0).astype(np.float64), values.max(axis=0).astype(np.float64)
    weight = weight.astype(np.float64)
    reach = (high - low) * np.sqrt(np.square(weight).mean(axis=0))
    varied = high > low
    wild = reach > WILD * np.median(reach[varied]) if varied.any() else np.zeros(len(low), np.bool_)
    tame = np.flatnonzero(varied & ~wild)
    common = float((high - low)[tame].max()) / (LEVELS - 1) if len(tame) else 1.0
    center, step = raw.center.astype(np.float64), raw.step.astype(np.float64)
    for j in np.flatnonzero(~wild):
        center[j], step[j] = _lattice(values[:, j], common)
    return Columns(
        center.astype(np.float32), step.astype(np.float32), np.flatnonzero(wild).astype(np.int64)
    )


def _lattice(column: Array, common: float) -> tuple[float, float]:
    """Center and step: the most common value and, where they are few, all values are exact."""
    found, counts = np.unique(column, return_counts=True)
    found = found.astype(np.float64)
    mode, step = found[counts.argmax()], common
    if len(found) > 1:
        unit = np.diff(found).min()
        places = (found - found[0]) / unit
        if places[-1] <= LEVELS and np.abs(places - np.rint(places)).max() < 1e-2:
            parts = min(round(unit / common), int(LEVELS / places[-1] + 1e-6))
            step = unit / max(1, parts)
    before, behind = np.ceil((np.array([mode, found[-1]]) - [found[0], mode]) / step - 1e-6)
    room = (LEVELS - before - behind) // 2  # for values that are beyond those of the calibration
    return float(mode + (LEVELS // 2 - before - room) * step), float(step)
