"""What gem5's ARM micro-ops tell of general registers."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tracekit.sim.register_values import RegisterValues, Told, values_of

__all__ = ["arm_values", "general_register"]

_SP: Final = 31
_TEMPORARY: Final = 32
_BASE: Final = r"(?P<base>[xw]\d+|[xw]zr|w?sp|ureg0)"
_TO: Final = r"(?:[xw]\d+|[xw]zr|w?sp|ureg0)"
_NUMBER: Final = r"#(?P<number>-?\d+)"
#: ``ldr x0, [x3, #48]``, and with the base moved on before or behind.
_MEMORY: Final = re.compile(rf"\[{_BASE}(?:, {_NUMBER})?\]")
_WITH_NUMBER: Final = re.compile(rf"\w+\s+{_TO}, {_BASE}, {_NUMBER}$")
_MOVE: Final = re.compile(rf"orr\s+{_TO}, [xw]zr, {_BASE}$")
#: By name: its text, and how often the number is added.
_SUMS: Final = {
    "add": (_WITH_NUMBER, 1),
    "addxi_uop": (_WITH_NUMBER, 1),
    "sub": (_WITH_NUMBER, -1),
    "subxi_uop": (_WITH_NUMBER, -1),
    "orr": (_MOVE, 0),
}
_PAGE: Final = re.compile(rf"adrp\s+{_TO}, {_NUMBER}$")
_PLACE: Final = re.compile(rf"adr\s+{_TO}, {_NUMBER}$")
_SMALL: Final = re.compile(rf"movz\s+{_TO}, {_NUMBER}(?:, #(?P<shift>\d+))?$")


def general_register(name: str) -> int | None:
    """gem5's number of a general register by its name in gem5's text; none of the zero register."""
    if name.endswith("zr"):
        return None
    if name.endswith("sp"):
        return _SP
    return _TEMPORARY if name == "ureg0" else int(name[1:])


def _told(text: str, pc: int) -> Told | None:
    """What a micro-op at ``pc`` tells."""
    if "[" in text and (found := _MEMORY.search(text)):
        # The upper half of a vector is a micro-op of its own, whose text has the lower one's.
        number = int(found["number"] or 0) + (8 if "qtfp" in text else 0)
        base = general_register(found["base"])
        return None if base is None else Told.access(base, number)
    name = (text.split(maxsplit=1) or [""])[0]
    if name in _SUMS:
        pattern, sign = _SUMS[name]
        if not (found := pattern.match(text)) or (base := general_register(found["base"])) is None:
            return None
        return Told.sum(base, sign and sign * int(found["number"]))
    if name == "adrp" and (found := _PAGE.match(text)):
        return Told.constant(int(found["number"]) + (pc & ~0xFFF))
    if name == "adr" and (found := _PLACE.match(text)):
        return Told.constant(int(found["number"]) + pc)
    if name == "movz" and (found := _SMALL.match(text)):
        return Told.constant(int(found["number"]) << int(found["shift"] or 0))
    return None


def arm_values(statics: Any, src: npt.NDArray[np.uint16]) -> RegisterValues:
    """``src``: the numbers of their sources, as their columns are."""
    each = zip(statics.disassembly, statics.pc.tolist(), strict=True)
    tolds = (_told(text.strip(), pc) for text, pc in each)
    return values_of(tolds, statics.arrays["src_class"], statics.arrays["src_index"], src)
