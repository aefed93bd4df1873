"""Survivors of several kinds: a search that keeps the best ones alone soon has cores of one memory
only, and no step leads from a memory with the rest made to fit it to another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["best_of_niches", "niche"]

F64 = npt.NDArray[np.float64]
Core = dict[str, Any]


def niche(core: Mapping[str, Any]) -> tuple[Any, ...]:
    """What is alike in the cores of a kind: the memory, and whether a third cache is before it."""
    return core.get("mem"), core.get("l3_kb", 0) > 0


def best_of_niches(cores: Sequence[Core], errors: F64, count: int, most: int) -> list[int]:
    """The numbers of ``count`` cores, or of all, best first: the best ones of which no more than
    ``most`` are of one niche, and where these are too few the best others."""
    order = np.argsort(errors, kind="stable").tolist()
    held: dict[tuple[Any, ...], int] = {}
    kept: list[int] = []
    others: list[int] = []
    for i in order:
        kind = niche(cores[i])
        held[kind] = held.get(kind, 0) + 1
        (kept if held[kind] <= most else others).append(i)
    chosen = {*kept[:count], *others[: max(0, count - len(kept))]}
    return [i for i in order if i in chosen]
