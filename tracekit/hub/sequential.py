"""A/B of two designs that may be looked at as often as one likes.

The interval is a confidence sequence: with probability 1 - alpha it holds the truth at *every*
look at once, so that stopping at the first look whose interval leaves zero out gives a false alarm
in at most alpha of all tests.  Source: Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas,
Time-uniform central limit theory and asymptotic confidence sequences, 2021, theorem 2.2 (Robbins'
normal mixture); its guarantee is of large samples, and so no look counts before `LEAST` units.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from tracekit.errors import UsageError

__all__ = ["LEAST", "Verdict", "compare_sequentially", "half_widths"]

F64 = npt.NDArray[np.float64]

LEAST: Final = 40
"""Units before which there is no verdict: the variance is not known well enough."""
TUNED: Final = 400
"""The number of units for which the interval is the narrowest."""


@dataclass(frozen=True)
class Verdict:
    """``ratio``: the time on the first design over that on the second one; ``half``: half of the
    interval that holds at every look (infinite before `LEAST` units); ``units``: agents' hours;
    ``decided_after``: units at the first look that left 1 out, None where none has."""

    ratio: float
    half: float
    units: int
    decided_after: int | None


def half_widths(values: F64, alpha: float) -> tuple[F64, F64]:
    """Mean of the first 1, 2, ... values, and half the width of its interval: float64 [values]."""
    n = np.arange(1, len(values) + 1, dtype=np.float64)
    mean = np.cumsum(values) / n
    # Welford in one pass of cumulative sums, about the first value: no cancellation to speak of
    moved = values - values[0]
    first, second = np.cumsum(moved) / n, np.cumsum(moved**2) / n
    variance = np.maximum(second - first**2, 0.0) * n / np.maximum(n - 1, 1)
    log = -2 * math.log(alpha)
    rho2 = (log + math.log(log + 1)) / TUNED
    grown = n * rho2 + 1
    half = np.sqrt(variance * 2 * grown / (n**2 * rho2) * np.log(np.sqrt(grown) / alpha))
    half[: LEAST - 1] = np.inf
    return mean, half


def compare_sequentially(
    weights: F64,
    first: F64,
    second: F64,
    *,
    alpha: float = 0.05,
    looks: npt.ArrayLike | None = None,
) -> Verdict:
    """The test of two designs over units in the order in which they came.

    weights: float64 [units], seconds that each stands for; first, second: float64 [units], the
    unit's time on each design, in any unit that both share.  looks: numbers of units at which
    somebody looked, every one unless given.  Raises UsageError for no units.
    """
    weights, first, second = (np.asarray(v, np.float64) for v in (weights, first, second))
    if not len(weights) or not len(weights) == len(first) == len(second):
        raise UsageError("weights and times have one number a unit, and there are units")
    scale = (first + second) / 2
    difference = weights * (first - second) / scale
    level = np.cumsum(weights * second / scale) / np.arange(1, len(weights) + 1)
    mean, half = half_widths(difference, alpha)
    at = np.arange(len(weights)) if looks is None else np.asarray(looks, np.int64) - 1
    out = at[np.abs(mean[at]) > half[at]]
    return Verdict(
        ratio=float(1 + mean[-1] / level[-1]),
        half=float(half[-1] / level[-1]),
        units=len(weights),
        decided_after=int(out[0]) + 1 if len(out) else None,
    )
