"""From predictions that are medians to ones whose sums are right."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.errors import FormatError

__all__ = ["apply_mean_map", "best_share", "fit_mean_map"]

F64 = npt.NDArray[np.float64]
#: Quantiles that the map has its pieces at.
PIECES = 64
#: Shares of the reference core in the mean that are tried.
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)


def fit_mean_map(found: npt.NDArray[Any], truth: npt.NDArray[Any]) -> dict[str, list[float]]:
    """The mean of ``truth`` in each interval of predictions, the intervals holding about equally
    many rows: ``edges`` increasing, ``values`` one more than edges."""
    edges = np.unique(np.quantile(found.astype(np.float64), np.linspace(0, 1, PIECES + 1)[1:-1]))
    row = np.searchsorted(edges, found, "right")
    count = np.bincount(row, minlength=len(edges) + 1)
    sums = np.bincount(row, truth.astype(np.float64), len(edges) + 1)
    whole = float(truth.mean()) if len(truth) else 0.0
    values = np.where(count > 0, sums / np.maximum(count, 1), whole)
    return {"edges": edges.tolist(), "values": values.tolist()}


def apply_mean_map(entry: Any, found: npt.NDArray[Any]) -> F64:
    """Expected cycles of predictions; FormatError where ``entry`` is no map."""
    try:
        edges, values = (np.array(entry[k], np.float64) for k in ("edges", "values"))
    except (TypeError, KeyError, ValueError):
        raise FormatError("mean_map is not edges and values") from None
    if edges.ndim != 1 or values.shape != (len(edges) + 1,) or not np.isfinite(values).all():
        raise FormatError("mean_map is not edges and one more value")
    if not np.isfinite(edges).all() or (edges[1:] <= edges[:-1]).any():
        raise FormatError("mean_map's edges do not increase")
    out: F64 = values[np.searchsorted(edges, found, "right")]
    return out


def best_share(found: F64, core: F64, truth: F64) -> float:
    """The share of the reference cores in the mean with which total times err least: all are sums,
    [programs, machines]."""
    whole = np.maximum(truth, 1)
    errors = [np.abs(((1 - a) * found + a * core) / whole - 1).mean() for a in SHARES]
    return SHARES[int(np.argmin(errors))]
