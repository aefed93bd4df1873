"""Which intervals stand for a program: random projection, k-means, and the number of clusters by
the Bayesian information criterion, as SimPoint 3.2 does (Hamerly et al., JILP 2005)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tracekit.errors import UsageError
from tracekit.extras import needed
from tracekit.simpoint.vectors import BlockVectors

__all__ = ["SimulationPoint", "bic", "choose", "projected"]

F64 = npt.NDArray[np.float64]
#: The fewest clusters whose score comes so far up from the worst one's to the best one's.
THRESHOLD = 0.9


@dataclass(frozen=True)
class SimulationPoint:
    """Interval ``interval`` stands for cluster ``cluster``, which is ``weight`` of the program."""

    interval: int
    cluster: int
    weight: float


def projected(vectors: BlockVectors, dimensions: int, seed: int) -> F64:
    """Each interval's vector, its sum made 1, times a matrix of uniform numbers from -1 to 1:
    float64 [intervals, dimensions]."""
    blocks, which = np.unique(vectors.block, return_inverse=True)
    matrix = np.random.default_rng(seed).uniform(-1, 1, (len(blocks), dimensions))
    out = np.zeros((len(vectors), dimensions))
    of = np.repeat(np.arange(len(vectors)), np.diff(vectors.begin))
    share = vectors.count / vectors.instructions[of]
    np.add.at(out, of, share[:, None] * matrix[which.ravel()])
    return out


def bic(points: F64, labels: npt.NDArray[np.intp], centres: F64) -> float:
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


def choose(
    vectors: BlockVectors, *, most: int = 30, dimensions: int = 15, seed: int = 1
) -> list[SimulationPoint]:
    """The intervals that stand for a program, in their order; ``most``: clusters, of which there
    are never more than the square root of the intervals: of clusters of one interval each the
    criterion knows no variance.

    Raises `UsageError` where scikit-learn is missing and for numbers out of range.
    """
    if most < 1 or dimensions < 1 or seed < 0:
        raise UsageError("at least one cluster, one dimension, and a seed from 0 on")
    points = projected(vectors, dimensions, seed)
    most = min(most, len(np.unique(points, axis=0)), math.isqrt(len(points) - 1) + 1)
    if most == 1:
        every = [(np.zeros(len(points), np.intp), points.mean(axis=0, keepdims=True))]
    else:
        every = _clusterings(points, most, seed)
    scores = np.array([bic(points, labels, centres) for labels, centres in every])
    enough = scores.min() + THRESHOLD * (scores.max() - scores.min())
    labels, centres = every[int(np.flatnonzero(scores >= enough)[0])]
    chosen = []
    for k in range(len(centres)):
        mine = np.flatnonzero(labels == k)
        if len(mine):
            near = int(np.argmin(((points[mine] - centres[k]) ** 2).sum(axis=1)))
            chosen.append((int(mine[near]), len(mine) / len(points)))
    return [SimulationPoint(i, k, weight) for k, (i, weight) in enumerate(sorted(chosen))]


def _clusterings(points: F64, most: int, seed: int) -> list[tuple[npt.NDArray[np.intp], F64]]:
    """k-means of 1 to ``most`` clusters: labels [intervals], centres [clusters, dimensions]."""
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
