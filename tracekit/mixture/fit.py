"""Rows of the table from sums over segments of programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tracekit.errors import UsageError
from tracekit.mixture.least_squares import nnls

__all__ = [
    "Sums",
    "fit_errors",
    "fit_row",
    "fit_table",
    "merged",
    "mixture_row",
    "segment_breaks",
    "with_columns",
]

F64 = npt.NDArray[np.float64]
Solve = Callable[[F64, F64], F64]

SEGMENTS = 20
#: How much a program's segments count beside its total.
SEGMENT_WEIGHT = 0.3
#: Of a machine whose parameters are not known: how wide its prior is, how firmly it is held there,
#: and the weight of segments, which tell more where programs are few.
_SPREAD, _HELD, _SEGMENTS_TOLD = 10.0, 0.1, 2.0


@dataclass(frozen=True)
class Sums:
    """One program: ``x`` [segments, cores] and ``y`` [segments, machines], cycles."""

    name: str
    family: str
    rows: int
    x: F64
    y: F64


def with_columns(program: Sums, columns: Sequence[int] | npt.NDArray[np.int64]) -> Sums:
    """The program with these cores only."""
    return replace(program, x=program.x[:, columns])


def segment_breaks(rows: int, segments: int = SEGMENTS) -> npt.NDArray[np.int64]:
    """Row numbers that cut a trace into equal segments."""
    return np.unique(np.linspace(0, rows, segments + 1).astype(np.int64))


def merged(program: Sums) -> Sums:
    """The program as a single segment."""
    return replace(
        program,
        x=program.x.sum(axis=0, keepdims=True),
        y=program.y.sum(axis=0, keepdims=True),
    )


def fit_row(
    programs: Sequence[Sums],
    machine: int,
    prior: F64,
    strength: float,
    solve: Solve = nnls,
    segment_weight: float = SEGMENT_WEIGHT,
) -> F64:
    """The machine's row, >= 0: relative errors of the programs' totals and of their segments are
    small, and the row is near ``prior`` (``strength``: squared relative error that a program's
    worth of departure costs)."""
    rows, wanted = [], []
    totals = []
    for p in programs:
        y = p.y[:, machine]
        total = float(y.sum())
        if not np.isfinite(total) or total <= 0 or not np.isfinite(p.x).all():
            raise UsageError(f"{p.name}: the cycles of machine {machine} are not positive numbers")
        totals.append(p.x.sum(axis=0) / total)
        scale = segment_weight * np.sqrt(len(y)) / total
        rows += [totals[-1][None], p.x * scale]
        wanted += [np.ones(1), y * scale]
    if not programs:
        raise UsageError("no programs to learn from")
    size = np.sqrt((np.array(totals) ** 2).mean(axis=0))
    pull = np.sqrt(strength * len(programs)) * size
    a = np.vstack([*rows, np.diag(pull)])
    b = np.concatenate([*wanted, pull * prior])
    return solve(a, b)


def fit_table(programs: Sequence[Sums], priors: F64, strength: float, solve: Solve = nnls) -> F64:
    """One row a machine: float64 [machines, cores]."""
    return np.stack(
        [fit_row(programs, j, prior, strength, solve) for j, prior in enumerate(priors)]
    )


def fit_errors(programs: Sequence[Sums], machine: int) -> F64:
    """How badly each core's cycles alone explain the machine's segments: mean squared logarithm of
    their ratio, weighted by time, and that of their totals, [cores]."""
    parts = []
    for p in programs:
        y = p.y[:, [machine]]
        ratio = np.log(np.maximum(p.x, 1.0)) - np.log(np.maximum(y, 1.0))
        total = np.log(np.maximum(p.x.sum(axis=0), 1.0)) - np.log(y.sum())
        parts.append((y / y.sum() * ratio**2).sum(axis=0) + total**2)
    return np.asarray(np.mean(parts, axis=0))


def mixture_row(programs: Sequence[Sums], machine: int) -> F64:
    """The row of a machine whose parameters are not known: held towards a mixture of the cores,
    those first that are most like it on the programs' segments."""
    far = fit_errors(programs, machine)
    near = float(far.min())
    weights = np.exp(-(far - near) / (_SPREAD * max(near, 0.002)))
    totals = [p.y[:, machine].sum() / (p.x.sum(axis=0) @ weights) for p in programs]
    prior = weights * float(np.mean(totals))
    return fit_row(programs, machine, prior, _HELD, segment_weight=_SEGMENTS_TOLD)
