"""How far designs' cycles may be off, and which designs a ranking does not tell from the best."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.errors import UsageError
from tracekit.mixture.model import Mixture, load_model
from tracekit.prediction.intervals import Intervals, trace_strangeness
from tracekit.sim import SampledCycles
from tracekit.store.reader import TraceFile

__all__ = ["design_intervals", "tied_with_best"]

F64 = npt.NDArray[np.float64]


def design_intervals(
    trace: TraceFile,
    designs: Sequence[Mapping[str, Any]],
    cycles: F64,
    sampled: SampledCycles | None,
) -> tuple[Intervals, float]:
    """Of the ``cycles`` [designs] of simulated cores, and half the model's interval of the
    logarithm of two designs' ratio.

    A design is no machine that its simulated core was ever compared with: the model's part is a
    quantile over the programs and machines that the trace's instruction set has residuals of, NaN
    where it has none, and of designs of a kind (in order, out of order) that it has no machine of.
    """
    n = len(cycles)
    model = _model_of(trace)
    strange = 0.0 if model is None else trace_strangeness(model, trace)
    known = None if model is None or model.residuals is None else model.residuals
    one, two = (known.design_half(strange) if known is not None else None) or (np.nan, np.nan)
    sampling = np.zeros(n) if sampled is None else sampled.half / sampled.cycles * cycles
    count = 0 if sampled is None or sampled.whole else len(sampled.samples)
    warning = None if sampled is None else sampled.warning()
    warnings = () if warning is None else (warning,)
    kinds = {_kind(m) for m in (() if model is None else model.machines)}
    compared = np.array([_kind(d) in kinds for d in designs])
    share = np.where(compared, np.expm1(one), np.nan)
    return Intervals(cycles * share, sampling, count, strange, warnings), two


def _kind(machine: Mapping[str, Any]) -> str:
    """Which of gem5's CPUs it is."""
    return str(machine.get("cpu", "o3"))


def _model_of(trace: TraceFile) -> Mixture | None:
    """The one that ships for rows like the trace's."""
    try:
        return load_model(None, trace.arch, trace.level)
    except UsageError:
        return None


def tied_with_best(
    cycles: F64,
    best: int,
    objective: Callable[[F64], F64],
    intervals: Intervals,
    of_two: float,
) -> npt.NDArray[np.bool_]:
    """Designs whose ``objective`` would be as good as the best one's if their cycles lay elsewhere
    within both intervals of the difference: bool [designs]; the best one alone where the model's
    part is not known."""
    if not np.isfinite(of_two):
        return np.asarray(np.arange(len(cycles)) == best, np.bool_)
    share = intervals.sampling / np.maximum(cycles, 1e-300)
    half = np.hypot(of_two, np.log1p(np.hypot(share, share[best])))
    ends = [objective(cycles * np.exp(sign * half)) for sign in (-1, 1)]
    out = np.minimum(*ends) <= objective(cycles)[best]
    out[best] = True
    return np.asarray(out, np.bool_)
