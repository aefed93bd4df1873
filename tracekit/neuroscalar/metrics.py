"""NeuroScalar's accuracies of single instructions (its table 5), and what they are held against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Scores", "average", "finite", "group_medians", "mean_scores", "score"]

Array = npt.NDArray[Any]
F64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Scores:
    """``acc_round``: share of rows whose rounded prediction is the truth; ``within_1``,
    ``within_2``: no further than that from it; ``rel5``: predictions no further than 5 % of the
    truth (of one cycle where it is 0); ``rae``: error relative to that of the mean; ``total``:
    relative error of the sum."""

    rows: int
    mae: float
    rmse: float
    rae: float
    acc_round: float
    within_1: float
    within_2: float
    rel5: float
    total: float

    def as_dict(self) -> dict[str, float]:
        """The scores by name."""
        return asdict(self)


def score(found: Array, truth: Array, expected: Array | None = None) -> Scores:
    """Scores of predictions; ``expected``, where given, is what adds up to the total."""
    t = truth.astype(np.float64)
    p = found.astype(np.float64)
    n = len(t)
    if not n:
        nan = float("nan")
        return Scores(0, nan, nan, nan, nan, nan, nan, nan, nan)
    error = np.abs(p - t)
    off = np.abs(np.rint(p) - t)
    spread = float(np.abs(t - t.mean()).sum())
    whole = float(t.sum())
    added = float((p if expected is None else expected).sum(dtype=np.float64))
    return Scores(
        rows=n,
        mae=float(error.mean()),
        rmse=float(np.sqrt((error**2).mean())),
        rae=float(error.sum() / spread) if spread else float("nan"),
        acc_round=float((off == 0).mean()),
        within_1=float((off <= 1).mean()),
        within_2=float((off <= 2).mean()),
        rel5=float((error <= 0.05 * np.maximum(t, 1)).mean()),
        total=added / whole - 1 if whole else float("nan"),
    )


def average(scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Means over programs; of ``total`` the mean of its size, as ``total_error``."""
    if not scores:
        return {}
    out = {
        k: float(np.mean([s[k] for s in scores])) for k in scores[0] if k not in ("rows", "total")
    }
    out["total_error"] = float(np.mean([abs(s["total"]) for s in scores]))
    return out


def mean_scores(scores: Sequence[Scores]) -> dict[str, float]:
    """``average`` of Scores."""
    return average([s.as_dict() for s in scores])


def finite(value: Any) -> Any:
    """For JSON, which has no NaN: null in its place, in dicts and lists too."""
    if isinstance(value, dict):
        return {k: finite(v) for k, v in value.items()}
    if isinstance(value, list):
        return [finite(v) for v in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def group_medians(groups: Array, values: Array) -> tuple[Array, F64]:
    """The groups that there are, sorted, and the median of each (of an even number, the lower of
    the two in the middle)."""
    order = np.lexsort((values, groups))
    g, v = groups[order], values[order]
    names, begin, count = np.unique(g, return_index=True, return_counts=True)
    return names, v[begin + (count - 1) // 2].astype(np.float64)
