"""Which programs to measure a new machine with: those that told most about the known machines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tracekit.perfvec.fit import Sums, mixture_row, with_columns

__all__ = ["choose_programs"]

F64 = npt.NDArray[np.float64]


def choose_programs(
    programs: Sequence[Sums], own: Sequence[int], machines: Sequence[int], count: int
) -> list[int]:
    """``count`` programs, by number, one after another: with each the mean error on all others is
    least when ``machines`` are tuned as if their parameters were not known.

    ``own``: the column of each machine's own core (-1: none), which its row does not use.
    """
    x = np.stack([p.x.sum(axis=0) for p in programs])
    y = np.stack([p.y.sum(axis=0) for p in programs])
    columns = np.arange(x.shape[1])
    chosen: list[int] = []
    while len(chosen) < min(count, len(programs) - 1):
        best, least = -1, np.inf
        for i in range(len(programs)):
            if i in chosen:
                continue
            tuned = [*chosen, i]
            rest = [k for k in range(len(programs)) if k not in tuned]
            errors = []
            for j in machines:
                others = columns[columns != own[j]]
                row = mixture_row([with_columns(programs[k], others) for k in tuned], j)
                errors.append(np.abs(x[np.ix_(rest, others)] @ row / y[rest, j] - 1).mean())
            if np.mean(errors) < least:
                best, least = i, float(np.mean(errors))
        chosen.append(best)
    return chosen
