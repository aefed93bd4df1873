"""Whether another thread shares the core that a thread runs on.

A virtual processor is often one of two threads of a core.  A busy neighbour takes its share of
independent additions, which no clock tells.
"""

from __future__ import annotations

from typing import Final

from tracekit import _core

__all__ = ["SHARED", "SharedCore"]

#: How much longer independent additions take where another thread shares the core: up to twice as
#: long.  Alone they differ by a sixth, by how their code lies in the cache of decoded instructions.
SHARED: Final = 1.25
#: Additions of a chain, by 64: some 10 us, beside which reading the clock is nothing.
_CHAIN: Final = 500
#: The chains before and behind the independent additions differ by less, or the clock has changed
#: meanwhile; so many tries at the most, of which so many count.
_STEADY, _TRIES, _COUNT = 0.02, 12, 3
#: Looks that tell what independent additions take at best.
_LOOKS: Final = 100


class SharedCore:
    """The core that this thread is pinned to."""

    def __init__(self) -> None:
        self._least = float("inf")
        for _ in range(_LOOKS):
            self.slower()

    def slower(self) -> float:
        """How many times as long independent additions take as in the best moment so far."""
        here = _look()
        if here < self._least:
            # One look alone may be wrong, and a best moment that never was makes all others slow.
            here = max(here, _look(), _look())
            self._least = min(self._least, here)
        return here / self._least

    def shared(self) -> bool:
        """Whether they take a quarter longer."""
        return self.slower() > SHARED


def _look() -> float:
    """Time of independent additions over that of a chain of them, at a steady clock."""
    found: list[float] = []
    ratio = float("inf")
    behind = _core.add_chain_seconds(_CHAIN)
    for _ in range(_TRIES):
        before = behind
        free = _core.free_adds_seconds(4 * _CHAIN)
        behind = _core.add_chain_seconds(_CHAIN)
        ratio = 2 * free / max(before + behind, 1e-12)
        if abs(before - behind) <= _STEADY * max(before, behind):
            found.append(ratio)
            if len(found) == _COUNT:
                break
    return min(found, default=ratio)
