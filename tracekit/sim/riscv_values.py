"""What RISC-V's instructions, as gem5 and capstone write them, tell of general registers."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tracekit.sim.register_values import RegisterValues, Told, values_of

__all__ = ["riscv_values"]

#: By the ABI's names.
_REGISTERS: Final = (
    *("zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1"),
    *(f"a{k}" for k in range(8)),
    *(f"s{k}" for k in range(2, 12)),
    *(f"t{k}" for k in range(3, 7)),
)
_ZERO: Final = "zero"
#: ``ld a4, 80(a4)``, and ``amoadd_w a5, a4, (a3)``.
_MEMORY: Final = re.compile(r"(?P<number>-?\w+)?\((?P<base>\w+)\)$")
#: Names, without what says that they are compressed, of what adds a number to a register.
_SUMS: Final = ("addi", "addi16sp", "addi4spn", "mv")
_UPPER: Final = 12  # bits that lui and auipc shift by
_UPPER_SIGN: Final = 1 << 19


def _number(text: str) -> int | None:
    try:
        return int(text, 0)
    except ValueError:
        return None


def _sum(base: str, number: int) -> Told | None:
    if base == _ZERO:
        return Told.constant(number)
    return Told.sum(_REGISTERS.index(base), number) if base in _REGISTERS else None


def _told(text: str, pc: int) -> Told | None:
    """What the instruction at ``pc`` tells."""
    if text.endswith(")"):
        found = _MEMORY.search(text)
        number = _number(found["number"] or "0") if found else None
        if not found or number is None or found["base"] not in _REGISTERS:
            return None
        return Told.access(_REGISTERS.index(found["base"]), number)
    name, _, rest = text.partition(" ")
    name = name.removeprefix("c_").removeprefix("c.")
    operands = rest.replace(" ", "").split(",")
    last = _number(operands[-1])
    if name in _SUMS:
        if last is None:
            return _sum(operands[-1], 0) if name == "mv" else None
        return _sum(operands[-2], last) if len(operands) > 1 else None
    if last is None:
        return None
    if name == "li":
        return Told.constant(last)
    if name in ("lui", "auipc"):
        upper = (last ^ _UPPER_SIGN) - _UPPER_SIGN << _UPPER  # gem5's text has no sign
        return Told.constant(upper + (pc if name == "auipc" else 0))
    return None


def riscv_values(statics: Any, src: npt.NDArray[np.uint16]) -> RegisterValues:
    """``src``: the numbers of their sources, as their columns are."""
    each = zip(statics.disassembly, statics.pc.tolist(), strict=True)
    tolds = (_told(text.strip(), pc) for text, pc in each)
    return values_of(tolds, statics.arrays["src_class"], statics.arrays["src_index"], src)
