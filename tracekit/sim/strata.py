"""Which stretches of a trace are alike, so that two of them tell much of the others: strata of
stretches that should cost about as much, each a part of the trace."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["CLASSES", "Stratum", "classes", "shared_out", "shares", "strata"]

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

#: Classes of cost at most; those of one class are cut into strata by time.
CLASSES = 8
#: Share of the samples that goes by a class's size alone, whatever its costs say.
BY_SIZE = 0.5
#: Stretches of a stratum at least, where its class has as many.
FEWEST = 4
#: Share of a class's strata that are shorter than the others, at its beginning.
BEGINNING = 1 / 8
_BINS = 400


class Stratum(NamedTuple):
    """``stretches``: their numbers, increasing; ``taken``: how many of them are to be samples."""

    stretches: I64
    taken: int


def strata(costs: F64, count: int) -> list[Stratum]:
    """Strata of the stretches with these expected ``costs``, with ``count`` samples in all: two in
    each, three in the last one of a class where its number is odd, and more where they are much of
    a class.  ``count``: at least 2, and no more than there are stretches."""
    of = classes(costs, max(1, min(CLASSES, count // 4)))
    out: list[Stratum] = []
    for k, taken in enumerate(shares(costs, of, count).tolist()):
        own = np.flatnonzero(of == k).astype(np.int64)
        parts = max(1, taken // 2)
        if FEWEST * parts <= len(own):
            each = [2] * (parts - 1) + [taken - 2 * (parts - 1)]
            out += map(Stratum, np.split(own, cuts(len(own), parts)), each)
        else:
            parts = max(1, len(own) // FEWEST)
            of_each = np.array_split(np.arange(taken), parts)
            out += map(Stratum, np.array_split(own, parts), map(len, of_each))
    return out


def classes(costs: F64, most: int) -> npt.NDArray[np.intp]:
    """The class of each stretch, numbers from 0 on that all occur, at most ``most`` of them.

    Their bounds share out the cumulative square root of the costs' frequencies (Dalenius and
    Hodges; Cochran, Sampling Techniques, 1977, section 5A.7), on a logarithmic scale.
    """
    scale = np.log(costs)
    heights, edges = np.histogram(scale, _BINS)
    found = np.cumsum(np.sqrt(heights))
    wanted = found[-1] * np.arange(1, most) / most
    bounds = edges[1 + np.searchsorted(found, wanted)]
    of: npt.NDArray[np.intp] = np.searchsorted(bounds, scale)
    numbered: npt.NDArray[np.intp] = np.searchsorted(np.unique(of), of)
    return numbered


def shares(costs: F64, of: npt.NDArray[np.intp], count: int) -> npt.NDArray[np.intp]:
    """How many samples each class has, ``count`` together.  Half of them are due by size, half by
    size times how much the costs spread (Neyman's allocation), which serves a machine whose times
    the costs do not tell as well as one whose times they do."""
    sizes = np.bincount(of).astype(float)
    mean = np.bincount(of, costs) / sizes
    spread = np.sqrt(np.bincount(of, (costs - mean[of]) ** 2) / sizes)
    due = sizes / sizes.sum()
    if (own := sizes * spread).sum() > 0:
        due = BY_SIZE * due + (1 - BY_SIZE) * own / own.sum()
    return shared_out(sizes, due, count)


def shared_out(sizes: npt.NDArray[Any], due: npt.NDArray[Any], count: int) -> npt.NDArray[np.intp]:
    """How many of ``count`` samples each stratum of so many stretches has: two at least, or all of
    it; the others one after the other where the most are ``due`` for each that is taken."""
    taken: npt.NDArray[np.intp] = np.minimum(sizes, 2).astype(np.intp)
    for _ in range(count - int(taken.sum())):
        left = np.where(taken < sizes, due / (taken + 1), -1.0)
        taken[int(left.argmax())] += 1
    return taken


def cuts(stretches: int, count: int) -> list[int]:
    """Where each of ``count`` strata of so many stretches begins, but for the first one: at least
    four each, if there are as many.

    An eighth of them grow by the same factor each, from two stretches on, to the size that the
    others have, since a program's beginning is not like what comes behind: caches are cold, and
    what is done is done once.
    """
    short = int(BEGINNING * count)
    grown, size = np.arange(short) / max(short, 1), stretches / count
    for _ in range(20):  # each comes eight times nearer, or more
        sizes = 2 * (size / 2) ** grown
        size = float((stretches - sizes.sum()) / (count - short))
    begin = np.concatenate([[0.0], np.cumsum(sizes)])
    edges = np.concatenate([begin, np.linspace(begin[-1], stretches, count - short + 1)[1:]])
    whole: list[int] = np.floor(edges[1:-1]).astype(np.int64).tolist()
    return whole
