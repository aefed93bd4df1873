"""Rows of the table from sums over segments of programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tracekit.errors import UsageError
from tracekit.perfvec.nnls import nnls

__all__ = ["Sums", "fit_row", "fit_table", "segment_breaks"]

F64 = npt.NDArray[np.float64]

SEGMENTS = 20
#: How much a program's segments count beside its total.
SEGMENT_WEIGHT = 0.3


@dataclass(frozen=True)
class Sums:
    """One program: ``x`` [segments, cores] and ``y`` [segments, machines], cycles."""

    name: str
    family: str
    rows: int
    x: F64
    y: F64


def segment_breaks(rows: int, segments: int = SEGMENTS) -> npt.NDArray[np.int64]:
    """Row numbers that cut a trace into equal segments."""
    return np.unique(np.linspace(0, rows, segments + 1).astype(np.int64))


def fit_row(programs: Sequence[Sums], machine: int, prior: F64, strength: float) -> F64:
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
        scale = SEGMENT_WEIGHT * np.sqrt(len(y)) / total
        rows += [totals[-1][None], p.x * scale]
        wanted += [np.ones(1), y * scale]
    if not programs:
        raise UsageError("no programs to learn from")
    size = np.sqrt((np.array(totals) ** 2).mean(axis=0))
    pull = np.sqrt(strength * len(programs)) * size
    a = np.vstack([*rows, np.diag(pull)])
    b = np.concatenate([*wanted, pull * prior])
    return nnls(a, b)


def fit_table(programs: Sequence[Sums], priors: F64, strength: float) -> F64:
    """One row a machine: float64 [machines, cores]."""
    return np.stack([fit_row(programs, j, prior, strength) for j, prior in enumerate(priors)])
