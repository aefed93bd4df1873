"""k-means of points, and the number of clusters by the Bayesian information criterion, as SimPoint
3.2 does (Hamerly et al., JILP 2005)."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tracekit.extras import needed

__all__ = ["bic", "clustered", "nearest"]

F64 = npt.NDArray[np.float64]
Labels = npt.NDArray[np.intp]
#: The fewest clusters whose score comes so far up from the worst one's to the best one's.
THRESHOLD = 0.9
_PIECE = 1 << 16  # points whose distances are known at once


def bic(points: F64, labels: Labels, centres: F64) -> float:
    """The Bayesian information criterion of a clustering, spherical normal clusters of one variance
    (Pelleg and Moore, ICML 2000)."""
    n, dimensions = points.shape
    k = len(centres)
    distance = float(((points - centres[labels]) ** 2).sum())
    variance = max(distance / (dimensions * max(n - k, 1)), 1e-12)
    sizes = np.bincount(labels, minlength=k).astype(float)
    sizes = sizes[sizes > 0]
    likelihood = float((sizes * np.log(sizes / n)).sum())
    likelihood -= n * dimensions / 2 * math.log(2 * math.pi * variance)
    likelihood -= distance / (2 * variance)
    parameters = k - 1 + dimensions * k + 1
    return float(likelihood - parameters / 2 * math.log(n))


def clustered(points: F64, most: int, seed: int) -> tuple[Labels, F64]:
    """The cluster of each point, and the clusters' centres: as few as are nearly as good as any
    number up to ``most``, of which there are never more than the square root of the points: of
    clusters of one point each the criterion knows no variance.

    Raises `UsageError` where scikit-learn is missing.
    """
    most = min(most, len(np.unique(points, axis=0)), math.isqrt(len(points) - 1) + 1)
    if most == 1:
        every = [(np.zeros(len(points), np.intp), points.mean(axis=0, keepdims=True))]
    else:
        every = _clusterings(points, most, seed)
    scores = np.array([bic(points, labels, centres) for labels, centres in every])
    enough = scores.min() + THRESHOLD * (scores.max() - scores.min())
    return every[int(np.flatnonzero(scores >= enough)[0])]


def nearest(points: F64, centres: F64) -> Labels:
    """The centre that is nearest to each point: intp [points]."""
    out = np.empty(len(points), np.intp)
    for at in range(0, len(points), _PIECE):
        piece = points[at : at + _PIECE]
        apart = ((piece[:, None] - centres[None]) ** 2).sum(axis=2)
        out[at : at + _PIECE] = apart.argmin(axis=1)
    return out


def _clusterings(points: F64, most: int, seed: int) -> list[tuple[Labels, F64]]:
    """k-means of 1 to ``most`` clusters: labels [points], centres [clusters, dimensions]."""
    try:
        from sklearn.cluster import KMeans
        from threadpoolctl import threadpool_limits  # scikit-learn needs it, too
    except ModuleNotFoundError as e:
        raise needed(e.name or "sklearn") or e from None
    out = []
    with threadpool_limits(1):  # sums in one order: the same clusters on every computer
        for k in range(1, most + 1):
            found = KMeans(k, n_init=5, random_state=seed).fit(points)
            out.append((found.labels_.astype(np.intp), found.cluster_centers_.astype(float)))
    return out
