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
    moves = np.array([d.split(None, 1)[:1] == ["fmov"] for d in statics.disassembly], bool)
    moves &= statics.has("IsInteger") & statics.has("IsVector") & (a["dst_class"][:, 0] == _VECTOR)
    if not moves.any():
        return np.array([], np.intp)
    order = np.lexsort((a["upc"], a["pc"]))
    place = np.empty(len(order), np.intp)
    place[order] = np.arange(len(order))
    code = _Code(a, order)
    return np.array(
        [i for i in np.flatnonzero(moves) if code.is_to_general(int(place[i]))], np.intp
    )


class _Code:
    """The static instructions in the order of their addresses."""

    def __init__(self, arrays: Any, order: npt.NDArray[np.intp]) -> None:
        self.pc = arrays["pc"][order].astype(np.int64)
        self.ends = np.isin(arrays["branch"][order], _ENDS)
        self.reads, self.writes = (
            [
                {(int(c), int(i)) for c, i in zip(cs, ns, strict=True) if c != _NONE}
                for cs, ns in zip(
                    arrays[f"{kind}_class"][order], arrays[f"{kind}_index"][order], strict=True
                )
            ]
            for kind in ("src", "dst")
        )

    def is_to_general(self, at: int) -> bool:
        if len(self.writes[at]) != 1 or len(self.reads[at]) > 1:
            return False  # no move
        ((_, to),) = self.writes[at]
        used = self._used(at, (_INT, to)) - self._used(at, (_VECTOR, to))
        if used or not self.reads[at]:  # the zero register is a general one
            return used > 0 and bool(self.reads[at])
        ((_, source),) = self.reads[at]
        return self._written(at, (_VECTOR, source)) < self._written(at, (_INT, source))

    def _used(self, at: int, register: tuple[int, int]) -> int:
        """1 where the next to touch it reads it, -1 where it writes it."""
        for k in range(at + 1, min(at + _REACH, len(self.pc))):
            if register in self.reads[k]:
                return 1
            if register in self.writes[k]:
                return -1
            if self.ends[k] or self.pc[k] - self.pc[k - 1] > 4 * _REACH:
                break
        return 0

    def _written(self, at: int, register: tuple[int, int]) -> int:
        """How far back it was written last."""
        for back in range(1, min(_REACH, at + 1)):
            if register in self.writes[at - back]:
                return back
        return _REACH
