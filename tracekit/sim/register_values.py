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
    each = [
        (0, -1, 0) if t is None else (t.kind, -1 if t.base is None else t.base, t.number)
        for t in tolds
    ]
    wanted = np.array([base for _, base, _ in each], np.int64)
    is_it = (classes == _INT) & (indices == wanted[:, None])
    own = src[np.arange(len(src)), is_it.argmax(axis=1)]
    found = is_it.any(axis=1) & (own != _core.NO_REGISTER)
    tell = found | (wanted < 0)
    out.told[tell] = np.array([kind for kind, _, _ in each], np.uint8)[tell]
    out.base[found] = own[found]
    numbers = np.array([number & _WORD for _, _, number in each], np.uint64)
    out.number.view(np.uint64)[tell] = numbers[tell]
    return out
