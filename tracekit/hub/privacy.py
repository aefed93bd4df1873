"""Whom an answer is about, and whether it may be shown.

A *cell* is what one agent sent for one day, group and label within one release.  An answer is
about a set of cells.  It is shown where the cells are of `K` agents or more, and where no answer
that was shown differs from it, on either side, by cells of fewer agents than that: the difference
of two answers is an answer, too.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from tracekit.errors import TracekitError

__all__ = ["K", "Shown", "agents_of", "cells_of", "may_be_shown", "pack", "shown_groups", "unpack"]

I64 = npt.NDArray[np.int64]

K: Final = 5
"""Agents that every answer, and every difference of two answers, is about at least."""
_AGENT, _DAY, _KIND, _RELEASE = 1 << 20, 1 << 16, 1 << 14, 1 << 13


def cells_of(agent: I64, day: I64, kind: I64, release: I64) -> I64:
    """The cells of rows, each once, sorted.  ``kind``: a number for each pair of group and label,
    which never changes.

    Raises TracekitError where a number is too large for a cell."""
    for values, most in ((agent, _AGENT), (day, _DAY), (kind, _KIND), (release, _RELEASE)):
        if len(values) and (int(values.max()) >= most or int(values.min()) < 0):
            raise TracekitError(
                "more agents, days, groups or releases than an answer can tell apart"
            )
    return np.unique(((agent * _DAY + day) * _KIND + kind) * _RELEASE + release)


def agents_of(cells: I64) -> int:
    """How many agents cells are of."""
    return len(np.unique(cells // (_DAY * _KIND * _RELEASE)))


def may_be_shown(cells: I64, before: Iterable[I64], k: int = K) -> bool:
    """Whether an answer about ``cells`` may be shown after those about ``before``."""
    if agents_of(cells) < k:
        return False
    for other in before:
        for a, b in ((cells, other), (other, cells)):
            difference = np.setdiff1d(a, b, assume_unique=True)
            if len(difference) and agents_of(difference) < k:
                return False
    return True


class Shown:
    """The answers that were shown, each a set of bits over all cells that any was about; what
    `may_be_shown` says of thousands of them, in the time of a few passes over those bits."""

    def __init__(self) -> None:
        self._sorted, self._at = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._agents = np.zeros(0, np.int64)  # of each cell, in the order in which cells came
        self._bits: list[npt.NDArray[np.uint8]] = []

    def add(self, cells: I64) -> None:
        """An answer about ``cells`` was shown."""
        self._bits.append(self._of(cells))

    def allow(self, cells: I64, k: int = K) -> bool:
        """Whether an answer about ``cells`` may be shown beside them."""
        if agents_of(cells) < k:
            return False
        mine = self._of(cells)
        for other in self._bits:
            here = mine.copy()
            here[: len(other)] &= ~other
            if not self._enough(here, k) or not self._enough(other & ~mine[: len(other)], k):
                return False
        return True

    def _of(self, cells: I64) -> npt.NDArray[np.uint8]:
        new = np.setdiff1d(cells, self._sorted, assume_unique=True)
        if len(new):
            count = len(self._agents)
            self._agents = np.concatenate([self._agents, new // (_DAY * _KIND * _RELEASE)])
            both = np.concatenate([self._sorted, new])
            at = np.concatenate([self._at, np.arange(count, count + len(new))])
            order = np.argsort(both, kind="stable")
            self._sorted, self._at = both[order], at[order]
        bits = np.zeros(len(self._agents), np.bool_)
        bits[self._at[np.searchsorted(self._sorted, cells)]] = True
        return np.packbits(bits)

    def _enough(self, bits: npt.NDArray[np.uint8], k: int) -> bool:
        """Whether these cells are of no agent or of k."""
        at = np.flatnonzero(np.unpackbits(bits)) if bits.any() else np.zeros(0, np.int64)
        if not len(at):
            return True
        few = self._agents[at[:: max(1, len(at) // 1024)]]
        return len(np.unique(few)) >= k or len(np.unique(self._agents[at])) >= k


def shown_groups(sizes: dict[str, int], k: int = K) -> list[str]:
    """Which parts of a whole that is shown may be shown beside it: those of k agents or more,
    without the smallest of them where what is left over would be of fewer than k."""
    shown = sorted((name for name, size in sizes.items() if size >= k), key=lambda n: (sizes[n], n))
    left = sum(size for name, size in sizes.items() if name not in shown)
    while shown and 0 < left < k:
        left += sizes[shown.pop(0)]
    return sorted(shown)


def pack(cells: I64) -> bytes:
    """Cells for the database."""
    steps = np.diff(cells, prepend=0)
    return zlib.compress(steps.astype("<i8").tobytes(), 6)


def unpack(data: bytes) -> I64:
    """What `pack` made."""
    return np.cumsum(np.frombuffer(zlib.decompress(data), "<i8")).astype(np.int64)


def hidden(reason: str = "") -> dict[str, Sequence[str] | str]:
    """What stands in place of an answer that is not shown."""
    return {"hidden": reason or f"fewer than {K} computers would be told apart"}
