"""Which intervals stand for a program: random projection, and the clusters of the alike, as
SimPoint 3.2 does (Hamerly et al., JILP 2005)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tracekit.errors import UsageError
from tracekit.phases import clustered
from tracekit.simpoint.vectors import BlockVectors

__all__ = ["SimulationPoint", "choose", "projected"]

F64 = npt.NDArray[np.float64]
_PIECE = 1 << 16  # entries of vectors that are projected at once


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
    which = which.ravel()
    for at in range(0, len(which), _PIECE):
        piece = slice(at, at + _PIECE)
        np.add.at(out, of[piece], share[piece, None] * matrix[which[piece]])
    return out


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
    labels, centres = clustered(points, most, seed)
    chosen = []
    for k in range(len(centres)):
        mine = np.flatnonzero(labels == k)
        if len(mine):
            near = int(np.argmin(((points[mine] - centres[k]) ** 2).sum(axis=1)))
            chosen.append((int(mine[near]), len(mine) / len(points)))
    return [SimulationPoint(i, k, weight) for k, (i, weight) in enumerate(sorted(chosen))]
