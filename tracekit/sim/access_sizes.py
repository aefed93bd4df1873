"""Which bytes a row's access has, where its text alone does not tell."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["access_sizes", "masked"]

#: Of a vector of SVE in gem5's system calls' emulation, which runs programs with the shortest one
#: (``sve_vl_se`` of ``ArmISA``, src/arch/arm/ArmISA.py).
SCALABLE_VECTOR = 16

#: Of gem5's micro-ops for structures, which move 16 bytes at a time, and of an element of one
#: (VldMultOp64 and VldSingleOp64 of src/arch/arm/insts/macromem.cc): mostly the longest.
STRUCTURE, ELEMENT = 16, 8

_STRUCTURE = re.compile(r"mem_neon_uop(ld|st)")
_PACKED = re.compile(r"(un)?pack_neon_uop")
_SCALABLE = re.compile(r"(ld|st)\S+ +\{?z\d")
_END = re.compile(r"st\S+ +\{z\d.*mul vl")


def _those(statics: Any, pattern: re.Pattern[str]) -> npt.NDArray[np.bool_]:
    found = {d for d in set(statics.disassembly) if pattern.match(d)}
    if not found:
        return np.zeros(len(statics.disassembly), bool)
    return np.array([d in found for d in statics.disassembly], bool)


def access_sizes(statics: Any) -> npt.NDArray[np.uint16]:
    """Bytes that each static row reads or writes; 0: not known."""
    known = np.asarray(statics.access_size, np.uint16)
    none = known == 0
    sizes = np.where(none & _those(statics, _SCALABLE), np.uint16(SCALABLE_VECTOR), known)
    structures = none & _those(statics, _STRUCTURE)
    if structures.any():
        pc = np.asarray(statics.pc)
        elements = np.isin(pc, pc[_those(statics, _PACKED)])
        sizes = np.where(structures, np.where(elements, ELEMENT, STRUCTURE), sizes)
    return sizes.astype(np.uint16)


def masked(statics: Any) -> npt.NDArray[np.bool_]:
    """Stores that write not all of their bytes.  A trace does not tell which lanes are active; one
    that is some vectors behind its address is taken for the end of what is copied."""
    return _those(statics, _END)
