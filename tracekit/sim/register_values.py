"""What instructions tell of general registers: what a core needs to know which lines the loads of a
wrong path ask for (csrc/sim/code_map.hpp)."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tracekit import _core

__all__ = ["RegisterValues", "arm_values", "no_values"]

_NONE, _ACCESS, _SUM, _CONSTANT = range(4)
_INT, _SP, _TEMPORARY, _ZERO = 0, 31, 32, "zr"
_WORD = (1 << 64) - 1
_REGISTER = r"(?P<{}>[xw]\d+|[xw]zr|w?sp|ureg0)"
#: ``ldr x0, [x3, #48]``, and with the base moved on before or behind.
_MEMORY = re.compile(rf"\[{_REGISTER.format('base')}(?:, #(?P<number>-?\d+))?\]")
_TO = _REGISTER.format("to")
_FROM = _REGISTER.format("base")
_NUMBER = r"#(?P<number>-?\d+)"
_ADD = re.compile(rf"(?P<op>add|sub|addxi_uop|subxi_uop)\s+{_TO}, {_FROM}, {_NUMBER}$")
_MOVE = re.compile(rf"orr\s+{_TO}, [xw]zr, {_FROM}$")
_PAGE = re.compile(rf"(?P<op>adrp|adr)\s+{_TO}, {_NUMBER}$")
_SMALL = re.compile(rf"movz\s+{_TO}, {_NUMBER}(?:, #(?P<shift>\d+))?$")


class RegisterValues(NamedTuple):
    """By part: what it tells (csrc/sim/code_map.hpp), of which register, and a number."""

    told: npt.NDArray[np.uint8]
    base: npt.NDArray[np.uint16]
    number: npt.NDArray[np.int64]
    longest: int


def no_values() -> RegisterValues:
    """Of code that nothing is known of."""
    return RegisterValues(np.zeros(0, np.uint8), np.zeros(0, np.uint16), np.zeros(0, np.int64), 0)


def _index(name: str) -> int | None:
    """gem5's number of an ARM general register; none of the zero register."""
    if name.endswith(_ZERO):
        return None
    if name.endswith("sp"):
        return _SP
    return _TEMPORARY if name == "ureg0" else int(name[1:])


def arm_values(statics: Any, src: npt.NDArray[np.uint16]) -> RegisterValues:
    """Of gem5's ARM micro-ops; ``src``: the numbers of their sources, as their columns are."""
    n = len(statics)
    told, base = np.zeros(n, np.uint8), np.zeros(n, np.uint16)
    number = np.zeros(n, np.uint64)  # two's complement
    classes, indices = statics.arrays["src_class"], statics.arrays["src_index"]

    def source(i: int, name: str) -> int | None:
        own = np.flatnonzero((classes[i] == _INT) & (indices[i] == _index(name)))
        if _index(name) is None or not len(own) or src[i, own[0]] == _core.NO_REGISTER:
            return None
        return int(src[i, own[0]])

    for i, text in enumerate(statics.disassembly):
        text = text.strip()
        if found := _MEMORY.search(text):
            register = source(i, found["base"])
            # The upper half of a vector is a micro-op of its own, whose text has the lower one's.
            offset = int(found["number"] or 0) + (8 if "qtfp" in text else 0)
            if register is not None:
                told[i], base[i], number[i] = _ACCESS, register, offset & _WORD
        elif found := _ADD.match(text):
            register = source(i, found["base"])
            if register is not None:
                sign = -1 if found["op"].startswith("sub") else 1
                value = sign * int(found["number"])
                told[i], base[i], number[i] = _SUM, register, value & _WORD
        elif found := _MOVE.match(text):
            register = source(i, found["base"])
            if register is not None:
                told[i], base[i] = _SUM, register
        elif found := _PAGE.match(text):
            pc = int(statics.pc[i])
            told[i] = _CONSTANT
            from_pc = pc & ~0xFFF if found["op"] == "adrp" else pc
            number[i] = (int(found["number"]) + from_pc) & _WORD
        elif found := _SMALL.match(text):
            told[i] = _CONSTANT
            number[i] = int(found["number"]) << int(found["shift"] or 0) & _WORD
    return RegisterValues(told, base, number.view(np.int64), 4)
