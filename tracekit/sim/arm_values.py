"""What ARM's instructions tell of general registers: gem5's micro-ops, and machine code in
capstone's words, whose numbers above 9 are hexadecimal."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tracekit.sim.register_values import RegisterValues, Told, values_of

__all__ = ["arm_values", "general_register"]

_SP: Final = 31
_TEMPORARY: Final = 32
_BASE: Final = r"(?P<base>[xw]\d{1,2}|[xw]zr|w?sp|ureg0)"
_TO: Final = r"(?:[xw]\d{1,2}|[xw]zr|w?sp|ureg0)"
_NUMBER: Final = r"#(?P<number>-?(?:0x[0-9a-f]{1,16}|\d{1,20}))"
#: ``ldr x0, [x3, #48]``, and with the base moved on before or behind.
_MEMORY: Final = re.compile(rf"\[{_BASE}(?:, {_NUMBER})?\]")
_SHIFT: Final = r"#(?P<shift>\d{1,2})"
_WITH_NUMBER: Final = re.compile(rf"\w+\s+{_TO}, {_BASE}, {_NUMBER}(?:, lsl {_SHIFT})?$")
_MOVE: Final = re.compile(rf"(?:orr\s+{_TO}, [xw]zr|mov\s+{_TO}), {_BASE}$")
#: By name: its text, and how often the number is added.
_SUMS: Final = {
    "add": (_WITH_NUMBER, 1),
    "addxi_uop": (_WITH_NUMBER, 1),
    "sub": (_WITH_NUMBER, -1),
    "subxi_uop": (_WITH_NUMBER, -1),
    "orr": (_MOVE, 0),
    "mov": (_MOVE, 0),
}
#: Both say how far it is: machine code is decoded as if it stood at 0.
_PAGE: Final = re.compile(rf"adrp\s+{_TO}, {_NUMBER}$")
_PLACE: Final = re.compile(rf"adr\s+{_TO}, {_NUMBER}$")
_SMALL: Final = re.compile(rf"movz\s+{_TO}, {_NUMBER}(?:, (?:lsl )?{_SHIFT})?$")
_LOADED: Final = re.compile(rf"mov\s+(?P<size>[xw])(?:\d{{1,2}}|zr|sp), {_NUMBER}$")
_HALF: Final = (1 << 32) - 1


def general_register(name: str) -> int | None:
    """gem5's number of a general register by its name in gem5's text; none of the zero register."""
    if name.endswith("zr"):
        return None
    if name.endswith("sp"):
        return _SP
    return _TEMPORARY if name == "ureg0" else int(name[1:])


def _number(text: str | None) -> int:
    return int(text or "0", 16 if text and "0x" in text else 10)


def _told(text: str, pc: int) -> Told | None:
    """What an instruction or a micro-op at ``pc`` tells."""
    if "[" in text and (found := _MEMORY.search(text)):
        # The upper half of a vector is a micro-op of its own, whose text has the lower one's.
        number = _number(found["number"]) + (8 if "qtfp" in text else 0)
        base = general_register(found["base"])
        return None if base is None else Told.access(base, number)
    name = (text.split(maxsplit=1) or [""])[0]
    if name == "mov" and (found := _LOADED.match(text)):
        value = _number(found["number"])
        return Told.constant(value & _HALF if found["size"] == "w" else value)
    if name in _SUMS:
        pattern, sign = _SUMS[name]
        if not (found := pattern.match(text)) or (base := general_register(found["base"])) is None:
            return None
        if not sign:
            return Told.sum(base, 0)
        return Told.sum(base, sign * (_number(found["number"]) << int(found["shift"] or 0)))
    if name == "adrp" and (found := _PAGE.match(text)):
        return Told.constant(_number(found["number"]) + (pc & ~0xFFF))
    if name == "adr" and (found := _PLACE.match(text)):
        return Told.constant(_number(found["number"]) + pc)
    if name == "movz" and (found := _SMALL.match(text)):
        return Told.constant(_number(found["number"]) << int(found["shift"] or 0))
    return None


def arm_values(statics: Any, src: npt.NDArray[np.uint16]) -> RegisterValues:
    """``src``: the numbers of their sources, as their columns are."""
    each = zip(statics.disassembly, statics.pc.tolist(), strict=True)
    tolds = (_told(text.strip(), pc) for text, pc in each)
    return values_of(tolds, statics.arrays["src_class"], statics.arrays["src_index"], src)
