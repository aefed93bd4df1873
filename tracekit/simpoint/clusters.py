"""Which intervals stand for a program: random projection, and the clusters of the alike, as
SimPoint 3.2 does (Hamerly et al., JILP 2005); with the memory that they reach as BarrierPoint has
it (Carlson et al., ISPASS 2014)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tracekit.errors import UsageError
from tracekit.phases import clustered
from tracekit.simpoint.memory import misses
from tracekit.simpoint.representatives import balanced, central, shares
from tracekit.simpoint.vectors import BlockVectors

__all__ = ["SimulationPoint", "choose", "projected"]

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
#: Of the squares of values: what varies less is rounding.
_SAME = 1e-20
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
    vectors: BlockVectors,
    memory: I64 | None = None,
    *,
    most: int = 30,
    dimensions: int = 15,
    seed: int = 1,
) -> list[SimulationPoint]:
    """The intervals that stand for a program, in their order; ``most``: clusters, of which there
    are never more than the square root of the intervals: of clusters of one interval each the
    criterion knows no variance.

    With ``memory``, as from `memory_vectors`, clusters are of what runs the same code and misses
    alike in caches of any size, both of the same weight; and their intervals are chosen so that
    together they miss like the whole program.

    Raises `UsageError` where scikit-learn is missing and for numbers out of range.
    """
    if most < 1 or dimensions < 1 or seed < 0:
        raise UsageError("at least one cluster, one dimension, and a seed from 0 on")
    points = projected(vectors, dimensions, seed)
    if memory is None:
        labels, centres = clustered(points, most, seed)
        chosen = central(points, labels, centres)
    else:
        reach = _scaled(misses(memory, vectors.instructions))
        points = np.hstack([_scaled(points), reach])
        labels, centres = clustered(points, most, seed)
        chosen = balanced(reach, labels, central(points, labels, centres))
    found = sorted(zip(chosen.tolist(), shares(labels, chosen).tolist(), strict=True))
    return [SimulationPoint(i, k, weight) for k, (i, weight) in enumerate(found)]


def _scaled(values: F64) -> F64:
    """Values [intervals, values] from their mean, so that all of them together have variance 1; 0
    where all intervals are the same."""
    apart: F64 = values - values.mean(axis=0)
    variance = float((apart**2).sum(axis=1).mean())
    if variance <= _SAME * float((values**2).sum(axis=1).mean()):
        return np.zeros_like(apart)
    apart /= math.sqrt(variance)
    return apart
