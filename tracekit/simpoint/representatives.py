"""Which interval stands for each cluster: the one next to its centre, or those that together come
next to the whole program."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["balanced", "central", "shares"]

F64 = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.intp]
#: Each cluster's choice is looked at again so often at most; it mostly settles in three.
_TURNS = 20


def central(points: F64, labels: Numbers, centres: F64) -> Numbers:
    """Of each cluster that has points the one next to its centre: intp [clusters]."""
    chosen = []
    for k in np.unique(labels):
        mine = np.flatnonzero(labels == k)
        chosen.append(mine[np.argmin(((points[mine] - centres[k]) ** 2).sum(axis=1))])
    return np.array(chosen, np.intp)


def shares(labels: Numbers, chosen: Numbers) -> F64:
    """The share of all points that the cluster of each chosen one has: float64 [clusters]."""
    out: F64 = np.bincount(labels)[labels[chosen]] / len(labels)
    return out


def balanced(values: F64, labels: Numbers, chosen: Numbers) -> Numbers:
    """Representatives whose values, weighted by their clusters' shares, are the mean of all: a
    balanced sample (Deville and Tillé, Biometrika 2004), from ``chosen`` on by exchanges.

    What is made small is the square of how far the weighted values are from the mean, and the
    squares of how far each representative's are from its own cluster's, which is what remains where
    the clusters' errors do not cancel.  ``values``: float64 [points, values], in units that may be
    added.  ``chosen``: intp [clusters], one point of each.
    """
    chosen = chosen.copy()
    weights = shares(labels, chosen)
    members = [np.flatnonzero(labels == label) for label in labels[chosen]]
    apart = [((values[m] - values[m].mean(axis=0)) ** 2).sum(axis=1) for m in members]
    off = weights @ values[chosen] - values.mean(axis=0)
    for _ in range(_TURNS):
        before = chosen.copy()
        for k, (mine, own) in enumerate(zip(members, apart, strict=True)):
            others = off - weights[k] * values[chosen[k]]
            together = ((others + weights[k] * values[mine]) ** 2).sum(axis=1)
            chosen[k] = mine[np.argmin(together + weights[k] ** 2 * own)]
            off = others + weights[k] * values[chosen[k]]
        if np.array_equal(chosen, before):
            break
    return chosen
