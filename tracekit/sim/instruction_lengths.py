"""How many bytes instructions have, which no trace tells, and which lie in two fetch blocks."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tracekit.schema import BRANCH_KINDS

__all__ = ["lengths", "split"]

#: An instruction of X86 has no more.
_MOST: Final = 15
#: Of branches of X86, short and long: displacements of one byte and of four, ``ret`` and ``rep
#: ret``, a register and memory beside the program counter.
_BRANCH: Final = {
    "conditional": (2, 6),
    "jump": (2, 5),
    "call": (5, 5),
    "return": (1, 2),
    "indirect": (2, 6),
    "indirect_call": (2, 6),
}
#: A branch by memory beside the program counter: gem5's name, capstone's text.
_BESIDE: Final = re.compile(r"(JMP|CALL_NEAR)_P\b|(notrack |bnd )?(jmp|call)\b.*\[rip\b")


def split(statics: Any, arch: str) -> npt.NDArray[np.bool_]:
    """Which instructions lie on both sides of an address that 16 divides."""
    if arch not in ("x86", "riscv"):
        return np.zeros(len(statics), np.bool_)
    size = lengths(statics) if arch == "x86" else _riscv(statics)
    place: npt.NDArray[np.int64] = (statics.pc % np.uint64(16)).astype(np.int64)
    return place + size > 16


def _riscv(statics: Any) -> npt.NDArray[np.int64]:
    short = {d for d in set(statics.disassembly) if d.startswith(("c_", "c."))}
    return np.array([2 if d in short else 4 for d in statics.disassembly], np.int64)


def lengths(statics: Any) -> npt.NDArray[np.int64]:
    """Of instructions of X86: up to the next one that was run, which is the one behind it unless
    this is a branch; 1 where it is too far away."""
    pcs, which = np.unique(statics.pc, return_inverse=True)
    which = which.ravel()
    up_to_next = np.full(len(pcs), _MOST + 1, np.int64)
    up_to_next[:-1] = np.minimum(np.diff(pcs), np.uint64(_MOST + 1)).astype(np.int64)
    least = np.where(up_to_next > _MOST, 1, up_to_next)
    most = least.copy()
    # Of micro-ops one is the branch.
    branch, fall = np.zeros(len(pcs), np.uint8), np.zeros((len(pcs), 2), np.int64)
    np.maximum.at(branch, which, statics.branch)
    np.maximum.at(fall, which, statics.arrays["fall"].astype(np.int64))
    for name, (short, long) in _BRANCH.items():
        kind = branch == BRANCH_KINDS.index(name)
        least[kind], most[kind] = short, long
    # One by memory beside the program counter has a displacement of four bytes.
    indirect = np.isin(branch, [BRANCH_KINDS.index(k) for k in ("indirect", "indirect_call")])
    beside = np.zeros(len(pcs), np.bool_)
    texts = statics.disassembly
    np.logical_or.at(beside, which, [_BESIDE.match(text) is not None for text in texts])
    least[indirect & beside] = most[indirect & beside]
    # A conditional one's displacement leaves one length or two.
    kind = (branch == BRANCH_KINDS.index("conditional")) & fall.any(axis=1)
    least[kind] = np.where(fall == 0, _MOST, fall).min(axis=1)[kind]
    most[kind] = fall.max(axis=1)[kind]
    return np.where(up_to_next == most, most, least)[which]
