"""Intervals of predicted cycles beside the known ones: how often they hold, how wide they are, and
which machines they tell apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.io.json_types import finite_or_null
from tracekit.prediction.intervals import Intervals

__all__ = ["judged_intervals"]

F64 = npt.NDArray[np.float64]


def judged_intervals(
    programs: Sequence[str],
    machines: Sequence[str],
    periods: F64,
    found: F64,
    true: F64,
    intervals: Sequence[Intervals | None],
) -> dict[str, Any] | None:
    """Of ``found`` and ``true`` cycles, float64 [programs, machines], with each program's
    ``intervals``; ``periods``: of the machines' clocks, any where one is not known.

    ``held``: share of programs x machines whose interval holds the truth.  ``told``: share of the
    pairs of machines whose difference on a program is beyond the intervals; ``told_right``: those
    of them whose order is the true one, null where there are none.  Half widths are shares of the
    predicted cycles.  None where a program has no intervals.
    """
    known = [i for i in intervals if i is not None]
    if not known or len(known) < len(intervals):
        return None
    parts = ("half", "model", "sampling")
    half, model, sampling = (np.stack([getattr(i, p) for i in known]) / found for p in parts)
    if not np.isfinite(half).any():
        return None
    held = np.where(np.isfinite(half), np.abs(true / found - 1) <= half, np.nan)
    orders = [
        _told(found[k] * periods, true[k] * periods, sampling[k], i) for k, i in enumerate(known)
    ]
    told, right, pairs = (int(sum(x)) for x in zip(*orders, strict=True))
    return {
        "held": float(np.nanmean(held)),
        "median_half_width": float(np.nanmedian(half)),
        "model_median_half_width": float(np.nanmedian(model)),
        "sampling_median_half_width": float(np.nanmedian(sampling)),
        "told": told / max(pairs, 1),
        "told_right": right / told if told else None,
        "programs": {
            name: {
                "held": finite_or_null(np.nanmean(held[k])),
                "half_interval": dict(zip(machines, map(finite_or_null, half[k]), strict=True)),
                "model_half_interval": dict(
                    zip(machines, map(finite_or_null, model[k]), strict=True)
                ),
                "sampling_half_interval": dict(
                    zip(machines, map(finite_or_null, sampling[k]), strict=True)
                ),
                "samples": i.samples,
                "strange": i.strange,
                "warnings": list(i.warnings),
            }
            for k, (name, i) in enumerate(zip(programs, known, strict=True))
        },
        "machines": {m: finite_or_null(np.nanmean(held[:, j])) for j, m in enumerate(machines)},
    }


def _told(found: F64, true: F64, sampling: F64, i: Intervals) -> tuple[int, int, int]:
    """Pairs of machines that a program's intervals tell apart, those of them in the true order, and
    all."""
    told = right = 0
    n = len(found)
    for j in range(n):
        of_model = np.full(n, np.nan) if i.pairs is None else i.pairs[j]
        half = np.hypot(of_model, np.log1p(np.hypot(sampling, sampling[j])))[j + 1 :]
        difference = np.log(found[j + 1 :] / found[j])
        apart = np.abs(difference) > half
        told += int(apart.sum())
        right += int((apart & (difference * np.log(true[j + 1 :] / true[j]) > 0)).sum())
    return told, right, n * (n - 1) // 2
