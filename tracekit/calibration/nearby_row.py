"""The row of a machine whose parameters are not known, over the cores that a search found for it.

Found cores explain the traces, each by itself.  What they leave of the times of classes of rows
(row_classes.py) says how much each takes part: all are scaled to the machine's own pace, so that
they differ by what their rows cost relative to each other, and parts that bring the classes nearer
are taken (ridge regression, never negative, held towards equal ones).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.calibration.row_classes import (
    DIVISIONS,
    INFORMATIVE_ROWS,
    first_rows,
    informative_classes,
    log_shares,
)
from tracekit.calibration.spread_classes import spread_classes
from tracekit.mixture.least_squares import nnls
from tracekit.sim import totals
from tracekit.sim.spread import Spread, spread_totals
from tracekit.store.reader import TraceFile

__all__ = ["ClassTimes", "class_times", "core_paces", "regularized_row"]

F64 = npt.NDArray[np.float64]

#: How far a whole trace's time is off in a good core.
_TOTAL = 0.05
#: What a unit of departure from equal parts costs, in squared deviations.
_HELD = 300.0
#: How firmly the scaled cores' parts add up to one.
_WHOLE = 1e3


@dataclass(frozen=True)
class ClassTimes:
    """One trace: the time of each class of its first rows in each core, ``x`` [classes, cores], and
    on the machine, ``y`` [classes]; ``counts`` [classes], rows; the whole trace's time in each
    core, ``total_x`` [cores], and on the machine."""

    x: F64
    y: F64
    counts: npt.NDArray[np.int64]
    total_x: F64
    total_y: float


def class_times(
    trace: TraceFile,
    cycles: F64,
    cores: Sequence[Mapping[str, Any]],
    threads: int | None = None,
    spread: Spread | None = None,
) -> ClassTimes:
    """``cycles``: the machine's between retirements; ``spread``: who walks."""
    kept, counts = first_rows(trace)
    y = kept.sums(cycles)[1]
    if spread is None:
        x = kept.totals(cores, threads)[1]
    else:
        rows = INFORMATIVE_ROWS
        options = {"level": trace.level, "labelled": rows, "rows": rows, "window": rows}
        x = spread_classes(spread, [(trace.address, options)], cores)[0][1]
    if len(trace) <= INFORMATIVE_ROWS:
        total_x = x.sum(axis=0) / DIVISIONS
    elif spread is None:
        total_x = totals(trace, cores, None, threads)[0]
    else:
        total_x = spread_totals(spread, [trace], cores)[0][0]
    return ClassTimes(x, y, counts, total_x, float(cycles.sum()))


def core_paces(traces: Sequence[ClassTimes]) -> F64:
    """What each core's cycles are multiplied by to take as long as the machine, on the traces'
    geometric mean: float64 [cores]."""
    logs = [np.log(t.total_y / t.total_x) for t in traces if t.y.sum() > 0]
    return np.asarray(np.exp(np.mean(logs, axis=0)))


def regularized_row(traces: Sequence[ClassTimes]) -> F64:
    """The machine's row over the traces' cores, >= 0: float64 [cores]."""
    traces = [t for t in traces if t.y.sum() > 0]
    pace = core_paces(traces)
    informative = [_informative_times(t, pace) for t in traces]
    a = np.vstack([x for x, _ in informative])
    b = np.concatenate([y for _, y in informative])
    middle = a.mean(axis=1)
    n = a.shape[1]
    parts = nnls(
        np.vstack([a - middle[:, None], np.sqrt(_HELD) * np.eye(n), np.full((1, n), _WHOLE)]),
        np.concatenate([b - middle, np.full(n, np.sqrt(_HELD) / n), [_WHOLE]]),
    )
    return np.asarray(parts * pace)


def _informative_times(t: ClassTimes, pace: F64) -> tuple[F64, F64]:
    """What a trace tells of the scaled cores [numbers, cores] and of the machine [numbers], each in
    units of how far it is off in a good core."""
    informative, bias, spread = informative_classes(t.counts)
    shares, own = (log_shares(c, c.sum(axis=0) / DIVISIONS)[informative] for c in (t.x, t.y))
    x = np.vstack([shares / spread[:, None], np.log(t.total_x * pace) / _TOTAL])
    return x, np.append((own + bias) / spread, np.log(t.total_y) / _TOTAL)
