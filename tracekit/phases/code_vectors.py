"""Which code each stretch of a trace runs, in few dimensions, and the phases that follow."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from tracekit.phases.clustering import Labels, clustered, nearest

__all__ = ["DIMENSIONS", "code_vectors", "phases_of_rows"]

F64 = npt.NDArray[np.float64]
#: As SimPoint's projection has.
DIMENSIONS = 15
#: Stretches that clusters are made from; k-means of more takes long, and tells the same.
_FITTED = 4_000


def code_vectors(
    ids: Iterable[npt.NDArray[np.uint32]], statics: int, length: int, seed: int
) -> F64:
    """Each whole stretch of ``length`` rows by how often it ran each static instruction, times a
    matrix of uniform numbers from -1 to 1: float64 [stretches, DIMENSIONS].

    This is SimPoint's basic-block vector, each block weighted by its rows, in a random projection.
    ``ids``: the rows' static instructions, all below ``statics``, in pieces.
    """
    matrix = np.random.default_rng(seed).uniform(-1, 1, (statics, DIMENSIONS))
    counts, room = np.zeros(statics, np.int64), length
    out = []
    for piece in ids:
        at = 0
        while at < len(piece):
            part = piece[at : at + room]
            counts += np.bincount(part, minlength=statics)
            at += len(part)
            room -= len(part)
            if not room:
                ran = np.flatnonzero(counts)
                out.append(counts[ran] @ matrix[ran] / length)
                counts[:] = 0
                room = length
    return np.array(out).reshape(-1, DIMENSIONS)


def phases_of_rows(
    ids: Iterable[npt.NDArray[np.uint32]], statics: int, length: int, most: int, seed: int
) -> Labels:
    """The phase of each whole stretch of ``length`` rows: intp [stretches], numbers from 0 on, at
    most ``most`` of them.

    Raises `UsageError` where scikit-learn is missing.
    """
    points = code_vectors(ids, statics, length, seed)
    if not len(points):
        return np.zeros(0, np.intp)
    some = points[:: -(-len(points) // _FITTED)]
    _, centres = clustered(some, most, seed)
    _, labels = np.unique(nearest(points, centres), return_inverse=True)
    return labels.ravel().astype(np.intp)
