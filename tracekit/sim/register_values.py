"""What instructions tell of general registers: what a core needs to know which lines the loads of a
wrong path ask for (csrc/sim/code_map.hpp)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tracekit import _core

__all__ = ["RegisterValues", "Told", "no_values", "values_of"]

#: A wrong path passes over as many bytes of code that never ran: what is skipped is mostly a few
#: instructions of the other way of a branch.
REACH: Final = 36
_NONE, _ACCESS, _SUM, _CONSTANT = range(4)
_INT: Final = 0
_WORD: Final = (1 << 64) - 1


class Told(NamedTuple):
    """What an instruction tells: a kind, gem5's number of a register (none of a constant), and a
    number."""

    kind: int
    base: int | None
    number: int

    @classmethod
    def access(cls, base: int, number: int) -> Told:
        """The register plus the number is the address."""
        return cls(_ACCESS, base, number)

    @classmethod
    def sum(cls, base: int, number: int) -> Told:
        """What it writes is the register plus the number."""
        return cls(_SUM, base, number)

    @classmethod
    def constant(cls, number: int) -> Told:
        """What it writes is the number."""
        return cls(_CONSTANT, None, number)


class RegisterValues(NamedTuple):
    """By part: what it tells (csrc/sim/code_map.hpp), of which register, and a number; ``reach``:
    REACH, or 0 where nothing is known of the code."""

    told: npt.NDArray[np.uint8]
    base: npt.NDArray[np.uint16]
    number: npt.NDArray[np.int64]
    reach: int

    @classmethod
    def empty(cls, parts: int, reach: int = REACH) -> RegisterValues:
        """Code of whose registers nothing is told."""
        kinds, bases = np.zeros(parts, np.uint8), np.zeros(parts, np.uint16)
        return cls(kinds, bases, np.zeros(parts, np.int64), reach)


def no_values() -> RegisterValues:
    """Of code that nothing is known of."""
    return RegisterValues.empty(0, 0)


def values_of(
    tolds: Iterable[Told | None],
    classes: npt.NDArray[np.uint8],
    indices: npt.NDArray[np.uint16],
    src: npt.NDArray[np.uint16],
) -> RegisterValues:
    """Of one part after another; ``classes`` and ``indices``: of their sources, as gem5 numbers
    them, whose numbers in the cores are ``src``.  A register that is no source tells nothing."""
    out = RegisterValues.empty(len(src))
    sources = (c.tolist() for c in (classes, indices, src))
    for part, (told, *of) in enumerate(zip(tolds, *sources, strict=True)):
        if told is None:
            continue
        if told.base is not None:
            wanted = (_INT, told.base)
            own = next((r for c, k, r in zip(*of, strict=True) if (c, k) == wanted), None)
            if own is None or own == _core.NO_REGISTER:
                continue
            out.base[part] = own
        out.told[part] = told.kind
        out.number.view(np.uint64)[part] = told.number & _WORD
    return out
