"""Intervals of a trace's predicted cycles: what sampling leaves open, and what the model does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tracekit.mixture.distribution import measure, of_card
from tracekit.mixture.model import Mixture
from tracekit.mixture.residuals import strangeness
from tracekit.mixture.survivors import survivor_halves
from tracekit.store.reader import TraceFile

__all__ = [
    "Intervals",
    "added_intervals",
    "model_halves",
    "model_intervals",
    "tied_with_fastest",
    "trace_strangeness",
]

F64 = npt.NDArray[np.float64]
#: Rows that tell how strange a trace is, in so many places.
_ROWS, _PLACES = 10_000, 20


@dataclass(frozen=True, eq=False)
class Intervals:
    """Halves of 95 % intervals in cycles, by machine: ``model`` (how far the model was off on
    families that it never saw, or what a tuning left open; NaN of machines of which neither is
    known), ``sampling`` (0 where every row was walked).  ``samples``: how many, 0 for all rows.
    ``strange``: the share of the trace outside of what the model was fitted on, which widens
    ``model``.  ``warnings``: what belongs in front of the figures.  ``pairs``: the model's of the
    logarithms of the machines' ratios, float64 [machines, machines], or None."""

    model: F64
    sampling: F64
    samples: int
    strange: float
    warnings: tuple[str, ...] = ()
    pairs: F64 | None = None

    @property
    def half(self) -> F64:
        """Both parts together: float64 [machines]."""
        out: F64 = np.hypot(self.model, self.sampling)
        return out


def trace_strangeness(model: Mixture, trace: TraceFile) -> float:
    """`strangeness` of a trace, from rows in a few places; 0 where the model does not tell what it
    was fitted on."""
    seen = of_card(model.training)
    if seen is None:
        return 0.0
    n = len(trace)
    if n <= _ROWS * _PLACES:
        return strangeness(measure(trace), seen)
    begins = [k * n // _PLACES for k in range(_PLACES)]
    return strangeness(measure(trace, [(b, b + _ROWS) for b in begins]), seen)


def model_halves(model: Mixture, representation: F64 | None, strange: float) -> F64:
    """Half the model's 95 % interval of the logarithm of cycles: float64 [machines]; NaN where it
    is not known.  From the model's residuals; of tuned machines from what their survivors, of which
    ``representation`` [cores] has the cycles, make of the program."""
    names = model.names
    halves = np.full(len(names), np.nan)
    if model.residuals is not None:
        halves = model.residuals.half(names, strange)
    if model.survivors and representation is not None:
        columns = [str(c["name"]) for c in model.cores]
        cycles = model.cycles(representation)
        own = survivor_halves(names, model.survivors, columns, representation, cycles, strange)
        halves = np.where(np.isfinite(own), own, halves)
    return halves


def model_intervals(
    model: Mixture, trace: TraceFile, cycles: F64, representation: F64 | None = None
) -> Intervals | None:
    """Of ``cycles`` [machines] that the model predicts of all of a trace's rows, from the cores'
    ``representation``; None where its folder has no residuals and no machine was tuned.

    The residuals are logarithms of predicted over true cycles, so that the interval reaches farther
    up than down: the farther side counts.
    """
    if model.residuals is None and not model.survivors:
        return None
    strange = trace_strangeness(model, trace)
    half: F64 = cycles * np.expm1(model_halves(model, representation, strange))
    pairs = None
    if model.residuals is not None:
        pairs = model.residuals.pair_halves(model.names, strange)
    return Intervals(half, np.zeros(len(half)), 0, strange, pairs=pairs)


def added_intervals(each: Sequence[Intervals | None], scale: Sequence[float]) -> Intervals | None:
    """Of the sum of results, each times its scale: a model errs alike on all of them, their samples
    do not.  None where one has none."""
    known = [i for i in each if i is not None]
    if not known or len(known) < len(each):
        return None
    model: F64 = np.sum([k * i.model for k, i in zip(scale, known, strict=True)], axis=0)
    squares = [(k * i.sampling) ** 2 for k, i in zip(scale, known, strict=True)]
    sampling: F64 = np.sqrt(np.sum(squares, axis=0))
    warnings = tuple(dict.fromkeys(w for i in known for w in i.warnings))
    samples = sum(i.samples for i in known)
    widest = max(known, key=lambda i: i.strange)
    return Intervals(model, sampling, samples, widest.strange, warnings, widest.pairs)


def tied_with_fastest(
    seconds: F64, model: F64, sampling: F64, pairs: F64 | None = None
) -> npt.NDArray[np.bool_]:
    """Machines whose difference from the fastest one is within both intervals.

    ``seconds``: [machines], NaN where it is not known, which ties with nothing; ``model`` and
    ``sampling``: the intervals' halves in seconds.  ``pairs``: those of the model of the logarithms
    of the machines' ratios, [machines, machines]; those of both machines by themselves count unless
    it is given, and where it is NaN.
    """
    if not len(seconds) or not np.isfinite(seconds).any():
        return np.zeros(len(seconds), np.bool_)
    best = int(np.nanargmin(seconds))
    of_model = np.hypot(model, model[best])
    if pairs is not None:
        of_pair = seconds * -np.expm1(-pairs[best])
        of_model = np.where(np.isfinite(of_pair), of_pair, of_model)
    with np.errstate(invalid="ignore"):
        half = np.hypot(of_model, np.hypot(sampling, sampling[best]))
        near = seconds - seconds[best] <= half
    near[best] = not math.isnan(seconds[best])
    return np.asarray(near, np.bool_)
