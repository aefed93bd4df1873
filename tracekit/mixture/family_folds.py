"""Folds by family: siblings are never on both sides."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["folds"]


def folds(families: Sequence[str], count: int, seed: int) -> list[list[int]]:
    """``count`` lists of program numbers, of nearly equal size, each family whole in one of
    them."""
    names = sorted(set(families))
    np.random.default_rng(seed).shuffle(names)
    names.sort(key=lambda f: -families.count(f))  # stable: the large ones first, else shuffled
    out: list[list[int]] = [[] for _ in range(min(count, len(names)))]
    for f in names:
        smallest = min(out, key=len)
        smallest += [i for i, x in enumerate(families) if x == f]
    return out
