"""Which way ``fmov`` moves.

gem5 prints ``fmov x0, d1`` and ``fmov d0, x1`` alike (``fmov   f0, f1``, both flags), and the text
is read as the latter.  A core whose branches wait for floating-point results must know: what the
code around it does with the registers tells.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.sim.code_around import INT, VECTOR, CodeAround

__all__ = ["to_general"]


def to_general(statics: Any) -> npt.NDArray[np.intp]:
    """Of the instructions that were read as moves from a general register to a vector's, those that
    go the other way: numbers of static instructions."""
    a = statics.arrays
    text = statics.disassembly
    moves = statics.has("IsInteger") & statics.has("IsVector") & (a["dst_class"][:, 0] == VECTOR)
    named = {i for i in np.flatnonzero(moves).tolist() if text[i].split(None, 1)[:1] == ["fmov"]}
    if not named:
        return np.array([], np.intp)
    code = CodeAround(a)
    places = [k for k, i in enumerate(code.order.tolist()) if i in named]
    return np.sort([code.order[k] for k in places if _is_to_general(code, k)]).astype(np.intp)


def _is_to_general(code: CodeAround, at: int) -> bool:
    if len(code.writes(at)) != 1 or len(code.reads(at)) > 1:
        return False  # no move
    ((_, to),) = code.writes(at)
    used = _used(code, at, (INT, to)) - _used(code, at, (VECTOR, to))
    if used or not code.reads(at):  # the zero register is a general one
        return used > 0 and bool(code.reads(at))
    ((_, source),) = code.reads(at)
    return code.written(at, (VECTOR, source)) < code.written(at, (INT, source))


def _used(code: CodeAround, at: int, register: tuple[int, int]) -> int:
    """1 where the next to touch it reads it, -1 where it writes it."""
    for k in code.behind(at):
        if register in code.reads(k):
            return 1
        if register in code.writes(k):
            return -1
    return 0
