"""Rank correlations, ties counted as SciPy's spearmanr and kendalltau (tau-b) do.

By hand: scipy.stats takes four to eight times as long and three seconds to be imported, for the
same numbers (bench/by_hand.py).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]

__all__ = ["kendall", "spearman"]


def _ranks(x: F64) -> F64:
    _, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    last = np.cumsum(counts).astype(np.float64)
    return (last - (counts - 1) / 2)[inverse.reshape(x.shape)]


def spearman(a: F64, b: F64) -> float:
    """Correlation of the ranks; NaN where one side is constant."""
    x, y = _ranks(a), _ranks(b)
    x, y = x - x.mean(), y - y.mean()
    scale = np.sqrt((x @ x) * (y @ y))
    return float(x @ y / scale) if scale > 0 else float("nan")


def kendall(a: F64, b: F64) -> float:
    """Tau-b; NaN where one side is constant."""
    x = np.sign(a[:, None] - a[None])
    y = np.sign(b[:, None] - b[None])
    scale = np.sqrt((x * x).sum() * (y * y).sum())
    return float((x * y).sum() / scale) if scale > 0 else float("nan")
