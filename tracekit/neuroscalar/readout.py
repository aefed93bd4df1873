"""From predictions that are medians to ones whose sums are right."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.errors import FormatError

__all__ = ["apply_mean_map", "best_share", "fit_mean_map"]

F64 = npt.NDArray[np.float64]
#: Knots of the map, at quantiles of the predictions, and how far they are apart at least: what a
#: number format changes must not matter.
KNOTS, APART = 24, 0.05
#: Shares of the simulated core in the mean that are tried.  Never the whole: where cores are equal
#: the model tells designs apart.
SHARES = (0.0, 0.25, 0.5, 0.75, 0.9)


def fit_mean_map(found: npt.NDArray[Any], truth: npt.NDArray[Any]) -> dict[str, list[float]]:
    """A piecewise linear map of predictions to the mean of ``truth`` that goes with them, by least
    squares; scaled so that the sum is that of ``truth``.  ``knots`` increase; ``values`` are 0 or
    more."""
    p, t = found.astype(np.float64), truth.astype(np.float64)
    knots: list[float] = []
    for k in np.quantile(p, np.linspace(0, 1, KNOTS)) if len(p) else [0.0]:
        if not knots or k - knots[-1] >= APART:
            knots.append(float(k))
    hats = np.stack([np.interp(p, knots, row) for row in np.eye(len(knots))], axis=1)
    near = hats.sum(axis=0)
    start = np.where(near > 0, hats.T @ t / np.maximum(near, 1e-9), 0.0)
    square = hats.T @ hats + 1e-6 * max(1.0, float(near.max(initial=0))) * np.eye(len(knots))
    values = np.maximum(start + np.linalg.solve(square, hats.T @ (t - hats @ start)), 0)
    whole = float((hats @ values).sum())
    if whole > 0:
        values *= t.sum() / whole
    return {"knots": knots, "values": values.tolist()}


def apply_mean_map(entry: Any, found: npt.NDArray[Any]) -> F64:
    """Expected cycles of predictions; FormatError where ``entry`` is no map."""
    try:
        knots, values = (np.array(entry[k], np.float64) for k in ("knots", "values"))
    except (TypeError, KeyError, ValueError):
        raise FormatError("mean_map is not knots and values") from None
    if knots.ndim != 1 or not len(knots) or values.shape != knots.shape:
        raise FormatError("mean_map is not knots and a value for each")
    if not np.isfinite([knots, values]).all() or (knots[1:] <= knots[:-1]).any():
        raise FormatError("mean_map's knots do not increase")
    out: F64 = np.interp(found.astype(np.float64), knots, values)
    return out


def best_share(found: F64, core: F64, truth: F64) -> float:
    """The share of the simulated cores in the mean with which total times err least: all are sums,
    [programs, machines]."""
    whole = np.maximum(truth, 1)
    errors = [np.abs(((1 - a) * found + a * core) / whole - 1).mean() for a in SHARES]
    return SHARES[int(np.argmin(errors))]
