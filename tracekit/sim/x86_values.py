"""What gem5's X86 micro-ops tell of general registers."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tracekit.sim.instruction_lengths import lengths
from tracekit.sim.register_values import RegisterValues, Told, values_of

__all__ = ["x86_values"]

_LOW: Final = ("ax", "cx", "dx", "bx", "sp", "bp", "si", "di")
#: Registers of which a micro-op writes all: its names of 64 bits and of 32.
_WHOLE: Final = {
    **{f"{size}{name}": k for k, name in enumerate(_LOW) for size in "re"},
    **{f"r{k}{size}": k for k in range(8, 16) for size in ("", "d")},
    **{f"t{k}{size}": 16 + k for k in range(1, 16) for size in ("", "d")},
}
_R: Final = r"[a-z]\w+"
_N: Final = r"(?P<number>0x[0-9a-f]{1,16}|\d{1,19})"
#: ``SS:[t0 + rsp + 0x8]``; with an index, or a segment that has a base of its own, it tells of no
#: register.
_ADDRESS: Final = rf"[CDES]S:\[(?:t0 \+ )?(?P<base>{_R})(?: \+ {_N})?\]"
_ACCESS: Final = re.compile(rf"(?!lea\s)\w+\s.*, {_ADDRESS}")
_LEA: Final = re.compile(rf"lea\s+(?P<to>{_R}), {_ADDRESS}")
_LIMM: Final = re.compile(rf"limm\s+(?P<to>{_R}), {_N}$")
_MOVE: Final = re.compile(rf"mov\s+(?P<to>{_R}), {_R}, (?P<base>{_R})$")
_ADD: Final = re.compile(rf"(?P<sign>add|sub)i\s+(?P<to>{_R}), (?P<base>{_R}), {_N}$")
#: An instruction's own number comes in a micro-op of its own.
_ADD_LOADED: Final = re.compile(
    rf"(?P<sign>add|sub)\s+(?P<to>{_R}), (?P<base>{_R}), (?P<loaded>{_R})$"
)


def _number(text: str | None) -> int:
    return int(text or "0", 16 if text and text.startswith("0x") else 10)


def _op(text: str) -> str:
    """Of ``SUB_R_I : sub   rsp, rsp, t1`` what is behind the colon; nothing of a move that is made
    on a condition."""
    return "" if text.startswith("CMOV") else text.rpartition(" : ")[2].strip()


@lru_cache(maxsize=1 << 16)
def _told(op: str, before: str) -> Told | None:
    """``before``: the micro-op that comes before, of the same instruction; or none."""
    if found := _LIMM.match(op):
        return Told.constant(_number(found["number"])) if found["to"] in _WHOLE else None
    if found := _ACCESS.match(op):
        base = _WHOLE.get(found["base"])
        return None if base is None else Told.access(base, _number(found["number"]))
    for pattern in (_LEA, _MOVE, _ADD, _ADD_LOADED):
        found = pattern.match(op)
        if not found or found["to"] not in _WHOLE or found["base"] not in _WHOLE:
            continue
        base, number = _WHOLE[found["base"]], 0
        if pattern is _ADD_LOADED:
            loaded = _LIMM.match(before)
            if not loaded or loaded["to"] != found["loaded"]:
                return None
            number = _number(loaded["number"])
        elif pattern is not _MOVE:
            number = _number(found["number"])
        negative = pattern in (_ADD, _ADD_LOADED) and found["sign"] == "sub"
        return Told.sum(base, -number if negative else number)
    return None


def x86_values(
    statics: Any,
    src: npt.NDArray[np.uint16],
    classes: npt.NDArray[np.uint8],
    indices: npt.NDArray[np.uint16],
) -> RegisterValues:
    """``src``: the numbers of their sources, ``classes`` and ``indices`` what gem5 renames."""
    n = len(statics)
    pcs = statics.pc.tolist()
    next_pcs = (statics.pc + lengths(statics).astype(np.uint64)).tolist()
    ops = [_op(text) for text in statics.disassembly]
    before = [""] * n
    for a, b in pairwise(np.lexsort((statics.upc, statics.pc)).tolist()):
        if ops[b].startswith(("add ", "sub ")) and pcs[a] == pcs[b]:
            before[b] = ops[a]
    tolds = (
        # All of the register, whatever the size of its name.
        Told.constant(next_pc) if op.startswith("rdip") else _told(op, earlier)
        for op, earlier, next_pc in zip(ops, before, next_pcs, strict=True)
    )
    return values_of(tolds, classes, indices, src)
