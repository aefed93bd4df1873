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

_SCALABLE = re.compile(r"(ld|st)\S+ +\{?z\d")
_END = re.compile(r"st\S+ +\{z\d.*mul vl")


def _those(statics: Any, pattern: re.Pattern[str]) -> npt.NDArray[np.bool_]:
    found = {d for d in set(statics.disassembly) if pattern.match(d)}
    return np.array([d in found for d in statics.disassembly] if found else [False], bool)


def access_sizes(statics: Any) -> npt.NDArray[np.uint16]:
    """Bytes that each static row reads or writes; 0: not known."""
    known = np.asarray(statics.access_size, np.uint16)
    unknown = _those(statics, _SCALABLE) & (known == 0)
    return np.where(unknown, np.uint16(SCALABLE_VECTOR), known)


def masked(statics: Any) -> npt.NDArray[np.bool_]:
    """Stores that write not all of their bytes.  A trace does not tell which lanes are active; one
    that is some vectors behind its address is taken for the end of what is copied."""
    return _those(statics, _END)
