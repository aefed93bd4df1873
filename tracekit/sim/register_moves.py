"""Which way ``fmov`` moves.

gem5 prints ``fmov x0, d1`` and ``fmov d0, x1`` alike (``fmov   f0, f1``, both flags), and the text
is read as the latter.  A core whose branches wait for floating-point results must know: what the
code around it does with the registers tells.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.schema import BRANCH_KINDS

__all__ = ["to_general"]

_INT, _VECTOR, _NONE = 0, 2, 255
#: Instructions that are looked at on either side.
_REACH = 48
#: What ends the code that an instruction runs into.
_ENDS = tuple(BRANCH_KINDS.index(k) for k in ("jump", "indirect", "return"))


def to_general(statics: Any) -> npt.NDArray[np.intp]:
    """Of the instructions that were read as moves from a general register to a vector's, those that
    go the other way: numbers of static instructions."""
    a = statics.arrays
    text = statics.disassembly
    moves = statics.has("IsInteger") & statics.has("IsVector") & (a["dst_class"][:, 0] == _VECTOR)
    named = [i for i in np.flatnonzero(moves).tolist() if text[i].split(None, 1)[:1] == ["fmov"]]
    if not named:
        return np.array([], np.intp)
    order = np.lexsort((a["upc"], a["pc"]))
    place = np.empty(len(order), np.intp)
    place[order] = np.arange(len(order))
    code = _Code(a, order)
    return np.array([i for i in named if code.is_to_general(int(place[i]))], np.intp)


class _Code:
    """The static instructions in the order of their addresses.  Registers are taken from the
    arrays when they are looked at: moves are few, the code around them is a small part of all."""

    def __init__(self, arrays: Any, order: npt.NDArray[np.intp]) -> None:
        self.pc = arrays["pc"][order].astype(np.int64)
        self.ends = np.isin(arrays["branch"][order], _ENDS)
        self._arrays, self._order = arrays, order
        self._known: dict[tuple[str, int], set[tuple[int, int]]] = {}

    def reads(self, at: int) -> set[tuple[int, int]]:
        """(class, number) of its sources."""
        return self._registers("src", at)

    def writes(self, at: int) -> set[tuple[int, int]]:
        """(class, number) of its destinations."""
        return self._registers("dst", at)

    def _registers(self, kind: str, at: int) -> set[tuple[int, int]]:
        found = self._known.get((kind, at))
        if found is None:
            i = self._order[at]
            classes = self._arrays[f"{kind}_class"][i].tolist()
            numbers = self._arrays[f"{kind}_index"][i].tolist()
            found = {(c, n) for c, n in zip(classes, numbers, strict=True) if c != _NONE}
            self._known[kind, at] = found
        return found

    def is_to_general(self, at: int) -> bool:
        if len(self.writes(at)) != 1 or len(self.reads(at)) > 1:
            return False  # no move
        ((_, to),) = self.writes(at)
        used = self._used(at, (_INT, to)) - self._used(at, (_VECTOR, to))
        if used or not self.reads(at):  # the zero register is a general one
            return used > 0 and bool(self.reads(at))
        ((_, source),) = self.reads(at)
        return self._written(at, (_VECTOR, source)) < self._written(at, (_INT, source))

    def _used(self, at: int, register: tuple[int, int]) -> int:
        """1 where the next to touch it reads it, -1 where it writes it."""
        for k in range(at + 1, min(at + _REACH, len(self.pc))):
            if register in self.reads(k):
                return 1
            if register in self.writes(k):
                return -1
            if self.ends[k] or self.pc[k] - self.pc[k - 1] > 4 * _REACH:
                break
        return 0

    def _written(self, at: int, register: tuple[int, int]) -> int:
        """How far back it was written last."""
        for back in range(1, min(_REACH, at + 1)):
            if register in self.writes(at - back):
                return back
        return _REACH
