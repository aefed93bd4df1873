"""The registers that the code around an instruction reads and writes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.schema import BRANCH_KINDS

__all__ = ["INT", "REACH", "VECTOR", "CodeAround"]

#: Classes of registers, as the columns of a static table give them.
INT, VECTOR, _NONE = 0, 2, 255
#: Instructions that are looked at on either side.
REACH = 48
#: What ends the code that an instruction runs into.
_ENDS = tuple(BRANCH_KINDS.index(k) for k in ("jump", "indirect", "return"))


class CodeAround:
    """The static instructions in the order of their addresses.  Registers are taken from the
    arrays when they are looked at: who asks is rare, the code around it is a small part of all."""

    def __init__(self, arrays: Any) -> None:
        self.order: npt.NDArray[np.intp] = np.lexsort((arrays["upc"], arrays["pc"]))
        self.pc = arrays["pc"][self.order].astype(np.int64)
        self.ends = np.isin(arrays["branch"][self.order], _ENDS)
        self._arrays = arrays
        self._known: dict[tuple[str, int], set[tuple[int, int]]] = {}

    def reads(self, at: int) -> set[tuple[int, int]]:
        """(class, number) of its sources."""
        return self._registers("src", at)

    def writes(self, at: int) -> set[tuple[int, int]]:
        """(class, number) of its destinations."""
        return self._registers("dst", at)

    def _registers(self, kind: str, at: int) -> set[tuple[int, int]]:
        found = self._known.get((kind, at))
        if found is None:
            i = self.order[at]
            classes = self._arrays[f"{kind}_class"][i].tolist()
            numbers = self._arrays[f"{kind}_index"][i].tolist()
            found = {(c, n) for c, n in zip(classes, numbers, strict=True) if c != _NONE}
            self._known[kind, at] = found
        return found

    def behind(self, at: int) -> range:
        """What it runs into."""
        last = at + 1
        while last < min(at + REACH, len(self.pc)):
            last += 1
            if self.ends[last - 1] or self.pc[last - 1] - self.pc[last - 2] > 4 * REACH:
                break
        return range(at + 1, last)

    def written(self, at: int, register: tuple[int, int]) -> int:
        """How far back it was written last; REACH if it was not."""
        for back in range(1, min(REACH, at + 1)):
            if register in self.writes(at - back):
                return back
        return REACH
