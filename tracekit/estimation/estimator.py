"""The stratified ratio estimator, and its intervals.

An epoch stands for a time; its designs' times are known.  The answer is each design's total over
that of another one, or of a reference, so what counts is how an epoch's *difference* from the ratio
varies, not its length: designs that are slow on the same epochs are compared far more precisely
than either is known.  Source: Cochran, Sampling Techniques, 1977, sections 5.6 (strata), 5A.12
(strata of one unit are collapsed) and 6.11 (the combined ratio estimator, whose variance is that of
the residuals).

Strata are what is homogeneous and of known size: a program of an agent, or a stretch of its time.
Epochs that share a signature are one unit: the later ones were not predicted, and add their weight.

Times that a model predicted are off by what the model is, alike in all epochs of a program: more
epochs do not help, more programs do.  With e the logarithm of a design's predicted over true time,
drawn once for each program, and s the program's share of a total, the logarithm of a ratio of
totals is off by sum s_a e_a - s_b e_b, whose variance is added (the delta method, Cochran 1977,
section 6.4).  Designs whose errors go together are compared more precisely than either is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tracekit.errors import UsageError

__all__ = ["Comparison", "Fleet", "Level", "fleet"]

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

#: Normal quantiles (two-sided) of the confidences that are offered.
QUANTILE = {0.90: 1.6449, 0.95: 1.9600, 0.99: 2.5758}


@dataclass(frozen=True)
class Level:
    """A design's time over the reference's, and half the width of its interval."""

    design: str
    value: float
    half: float


@dataclass(frozen=True)
class Comparison:
    """Time of ``design`` over that of ``other``, and half the width of its interval; ``certain``:
    the interval does not hold 1."""

    design: str
    other: str
    ratio: float
    half: float

    @property
    def certain(self) -> bool:
        """Whether one of the two is faster beyond the interval."""
        return abs(self.ratio - 1) > self.half


@dataclass(frozen=True)
class Fleet:
    """Totals and what their intervals need.

    ``designs``: their names; ``totals`` float64 [designs]; ``reference``: the reference's total;
    ``times`` float64 [epochs, designs + 1], weighted, the reference last; ``strata`` int64
    [epochs], collapsed so that each has two or more; ``uncounted`` float64 [epochs], the share of
    its stratum that was not sampled.  ``by_program`` float64 [programs, designs + 1]: sums of times
    that share the model's error, each as far off as the program is strange; ``errors`` float64
    [designs + 1, designs + 1]: second moments of those errors, None where times are measured.
    """

    designs: tuple[str, ...]
    totals: F64
    reference: float
    times: F64
    strata: I64
    uncounted: F64
    by_program: F64
    errors: F64 | None = None
    confidence: float = 0.95

    def level(self, design: str) -> Level:
        """A design against the reference."""
        k = self.designs.index(design)
        ratio, half = self._ratio(k, len(self.designs))
        return Level(design, ratio, half)

    def compare(self, design: str, other: str) -> Comparison:
        """Two designs."""
        ratio, half = self._ratio(self.designs.index(design), self.designs.index(other))
        return Comparison(design, other, ratio, half)

    def best(self) -> str:
        """The design with the least time."""
        return self.designs[int(np.argmin(self.totals))]

    @property
    def epochs(self) -> int:
        """How many units the answer stands on."""
        return len(self.times)

    def _ratio(self, a: int, b: int) -> tuple[float, float]:
        totals = np.append(self.totals, self.reference)
        ratio = float(totals[a] / totals[b])
        residual = (self.times[:, a] - ratio * self.times[:, b]) / totals[b]
        variance = _variance(residual, self.strata, self.uncounted)
        if self.errors is not None:
            variance += ratio**2 * self._model_variance(a, b)
        return ratio, QUANTILE[self.confidence] * float(np.sqrt(variance))

    def _model_variance(self, a: int, b: int) -> float:
        """Of the logarithm of a ratio, by the model's errors."""
        assert self.errors is not None
        totals = np.append(self.totals, self.reference)
        shares = self.by_program[:, [a, b]] / totals[[a, b]]
        shares[:, 1] *= -1
        return float(np.sum((shares @ self.errors[np.ix_([a, b], [a, b])]) * shares))


def fleet(
    designs: Sequence[str],
    weights: F64,
    times: F64,
    *,
    reference: F64 | None = None,
    strata: Sequence[int] | I64 | None = None,
    uncounted: F64 | None = None,
    errors: F64 | None = None,
    programs: Sequence[int] | I64 | None = None,
    wider: F64 | None = None,
    confidence: float = 0.95,
) -> Fleet:
    """The totals of ``designs`` over everything that the epochs stand for.

    designs: their names.
    weights: float64 [epochs], seconds of the computer that it ran on that each stands for.
    times: float64 [epochs, designs], the epoch's time on each (ns an instruction, cycles, ...).
    reference: float64 [epochs], the epoch's time on the computer that the weights are seconds of;
        the mean of the designs where nobody knows it.
    strata: int [epochs]; one for all unless given.  One of a single epoch is joined with the next.
    uncounted: float64 [epochs], 1 minus the share of its stratum that was sampled; 1 unless given.
    errors: float64 [designs, designs], of a program that the model has not seen the expected
        products of the logarithms of predicted over true time on two designs; without it times are
        taken for exact, and intervals are of sampling alone.
    programs: int [epochs], those whose times are off together; one for all unless given.
    wider: float64 [epochs], how many times larger errors are there; 1 unless given.
    confidence: 0.90, 0.95 or 0.99.

    Raises `UsageError` for shapes that do not fit, numbers that are not positive, or no epochs.
    """
    weights, times = np.asarray(weights, np.float64), np.asarray(times, np.float64)
    n = len(weights)
    if not n or not len(designs) or times.shape != (n, len(designs)):
        raise UsageError(f"times are {times.shape} for {n} epochs and {len(designs)} designs")
    if confidence not in QUANTILE:
        raise UsageError(f"confidence is one of {', '.join(map(str, QUANTILE))}")
    base = times.mean(axis=1) if reference is None else np.asarray(reference, np.float64)
    groups = np.zeros(n, np.int64) if strata is None else np.asarray(strata, np.int64)
    free = np.ones(n) if uncounted is None else np.asarray(uncounted, np.float64)
    if base.shape != (n,) or groups.shape != (n,) or free.shape != (n,):
        raise UsageError("reference, strata and uncounted have one number an epoch")
    for what, values in (("weights", weights), ("times", times), ("the reference", base)):
        if not np.isfinite(values).all() or (values <= 0).any():
            raise UsageError(f"{what}: a number that is not positive")
    # seconds there over time an instruction there are instructions: a design's time for these
    every = np.column_stack([times, base]) * (weights / base)[:, None]
    totals = every.sum(axis=0)
    own = np.zeros(n, np.int64) if programs is None else np.asarray(programs, np.int64)
    factor = np.ones(n) if wider is None else np.asarray(wider, np.float64)
    if own.shape != (n,) or factor.shape != (n,):
        raise UsageError("programs and wider have one number an epoch")
    _, number = np.unique(own, return_inverse=True)
    by_program = np.zeros((int(number.max()) + 1, len(totals)))
    np.add.at(by_program, number.reshape(-1), every * factor[:, None])
    if errors is not None:
        errors = _of_every_column(np.asarray(errors, np.float64), totals[:-1], reference is None)
    return Fleet(
        tuple(designs),
        totals[:-1],
        float(totals[-1]),
        every,
        collapsed(groups),
        np.clip(free, 0.0, 1.0),
        by_program,
        errors,
        confidence,
    )


def _of_every_column(errors: F64, totals: F64, relative: bool) -> F64:
    """The moments of the designs' errors and of the reference's, which has none.  ``relative``:
    times are over the designs' mean, and so the part of an error that all share is gone."""
    n = len(totals)
    if errors.shape != (n, n) or not np.isfinite(errors).all():
        raise UsageError(f"errors are {errors.shape} for {n} designs, or not finite")
    to = np.zeros((n + 1, n))
    to[:n] = np.eye(n) - (totals / totals.sum() if relative else 0.0)
    return np.asarray(to @ errors @ to.T, np.float64)


def collapsed(strata: I64) -> I64:
    """``strata`` numbered 0, 1, ... in their order, each of one epoch joined with the next one (the
    last with the one before)."""
    _, number, counts = np.unique(strata, return_inverse=True, return_counts=True)
    to = np.arange(len(counts))
    at, size = 0, 0
    for k, count in enumerate(counts.tolist()):
        to[k] = at
        size += count
        if size >= 2:
            at, size = at + 1, 0
    if size and at:
        to[to == at] = at - 1
    return np.asarray(to[number.reshape(-1)], np.int64)


def _variance(residual: F64, strata: I64, uncounted: F64) -> float:
    """Of the sum of ``residual``: in each stratum n/(n-1) times the sum of squares about its mean;
    infinite where one epoch is all there is."""
    counts = np.bincount(strata)
    if counts.min() < 2:
        return float("inf")
    mean = np.bincount(strata, residual) / counts
    squares = (residual - mean[strata]) ** 2 * uncounted
    return float((np.bincount(strata, squares) * counts / (counts - 1)).sum())
