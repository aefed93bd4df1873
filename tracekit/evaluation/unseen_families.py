"""The error of a fitted table on programs of families that it was not fitted to."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from tracekit.mixture.family_folds import folds
from tracekit.mixture.fit import Sums, fit_table
from tracekit.mixture.least_squares import nnls

__all__ = ["STRENGTH", "unseen_error"]

F64 = npt.NDArray[np.float64]
#: How firmly rows are held at their priors.
STRENGTH = 0.3
_FOLDS = 5


def unseen_error(
    programs: Sequence[Sums],
    priors: F64,
    seed: int,
    *,
    train: Sequence[Sums] | None = None,
    strength: float = STRENGTH,
    solve: Callable[[F64, F64], F64] = nnls,
) -> float:
    """Mean relative error of the programs' totals, five folds by family; ``priors``: [machines,
    cores]; ``train``: what is fitted of each program, all of it unless given."""
    train = programs if train is None else train
    errors = []
    for part in folds([p.family for p in programs], _FOLDS, seed):
        rest = [p for i, p in enumerate(train) if i not in part]
        table = fit_table(rest, priors, strength, solve)
        for i in part:
            p = programs[i]
            errors.append(np.abs(p.x.sum(axis=0) @ table.T / p.y.sum(axis=0) - 1).mean())
    return float(np.mean(errors))
