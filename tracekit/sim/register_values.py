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
_BASE = r"(?P<base>[xw]\d+|[xw]zr|w?sp|ureg0)"
_TO = r"(?:[xw]\d+|[xw]zr|w?sp|ureg0)"
_NUMBER = r"#(?P<number>-?\d+)"
#: ``ldr x0, [x3, #48]``, and with the base moved on before or behind.
_MEMORY = re.compile(rf"\[{_BASE}(?:, {_NUMBER})?\]")
_ADD = re.compile(rf"(?:add|addxi_uop)\s+{_TO}, {_BASE}, {_NUMBER}$")
_SUBTRACT = re.compile(rf"(?:sub|subxi_uop)\s+{_TO}, {_BASE}, {_NUMBER}$")
_MOVE = re.compile(rf"orr\s+{_TO}, [xw]zr, {_BASE}$")
_PAGE = re.compile(rf"adrp\s+{_TO}, {_NUMBER}$")
_PLACE = re.compile(rf"adr\s+{_TO}, {_NUMBER}$")
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


def _told(text: str, pc: int) -> tuple[int, str, int]:
    """What an ARM micro-op at ``pc`` tells, of which register (none of a constant), and a
    number."""
    if found := _MEMORY.search(text):
        # The upper half of a vector is a micro-op of its own, whose text has the lower one's.
        return _ACCESS, found["base"], int(found["number"] or 0) + (8 if "qtfp" in text else 0)
    if found := _ADD.match(text):
        return _SUM, found["base"], int(found["number"])
    if found := _SUBTRACT.match(text):
        return _SUM, found["base"], -int(found["number"])
    if found := _MOVE.match(text):
        return _SUM, found["base"], 0
    if found := _PAGE.match(text):
        return _CONSTANT, "", int(found["number"]) + (pc & ~0xFFF)
    if found := _PLACE.match(text):
        return _CONSTANT, "", int(found["number"]) + pc
    if found := _SMALL.match(text):
        return _CONSTANT, "", int(found["number"]) << int(found["shift"] or 0)
    return _NONE, "", 0


def arm_values(statics: Any, src: npt.NDArray[np.uint16]) -> RegisterValues:
    """Of gem5's ARM micro-ops; ``src``: the numbers of their sources, as their columns are."""
    n = len(statics)
    told, base = np.zeros(n, np.uint8), np.zeros(n, np.uint16)
    number = np.zeros(n, np.uint64)  # two's complement
    columns = (statics.arrays["src_class"], statics.arrays["src_index"], src)
    rows = zip(
        statics.disassembly, statics.pc.tolist(), *(c.tolist() for c in columns), strict=True
    )
    for i, (text, pc, classes, indices, numbers) in enumerate(rows):
        kind, name, value = _told(text.strip(), pc)
        if kind == _NONE:
            continue
        if name:
            wanted = (_INT, _index(name))
            of = zip(classes, indices, numbers, strict=True)
            own = next((r for c, k, r in of if (c, k) == wanted), _core.NO_REGISTER)
            if own == _core.NO_REGISTER:
                continue
            base[i] = own
        told[i], number[i] = kind, value & _WORD
    return RegisterValues(told, base, number.view(np.int64), 4)
