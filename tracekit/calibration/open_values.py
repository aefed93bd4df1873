"""What traces leave open of each parameter of a core: values drawn as often as they are known, less
often where they explain the traces worse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["OpenValues"]

F64 = npt.NDArray[np.float64]
Core = dict[str, Any]


class OpenValues:
    """Weights of all values of each parameter: how many of ``designs`` have it, times the
    exponential of how much the objective rises when ``core`` has it instead of its own, negative
    and over ``tolerated``.

    ``values``: of each parameter all that it can be, in order; ``rises``: of (parameter, value)
    what was tried.  Values farther off than those that were tried count like the last of these."""

    def __init__(
        self,
        values: Mapping[str, tuple[Any, ...]],
        designs: Sequence[Mapping[str, Any]],
        core: Mapping[str, Any],
        rises: Mapping[tuple[str, Any], float],
        tolerated: float,
    ) -> None:
        self._values, self._weights = values, dict[str, F64]()
        for key, known in values.items():
            # Half a design more: a value that none of them has is possible, too.
            often = np.array([sum(d[key] == v for d in designs) for v in known]) + 0.5
            own = known.index(core[key])
            rise = np.array([rises.get((key, v), np.nan) for v in known])
            rise[own] = 0.0
            weights = often * np.exp(-_farther_alike(rise, own) / tolerated)
            self._weights[key] = weights / weights.sum()

    def weights(self, key: str) -> F64:
        """Of a parameter's values, adding up to one."""
        return self._weights[key]

    def sampled(self, core: Mapping[str, Any], part: float, random: np.random.Generator) -> Core:
        """The core with a part of its parameters drawn anew."""
        out = dict(core)
        for key, known in self._values.items():
            if random.random() < part:
                out[key] = known[int(random.choice(len(known), p=self._weights[key]))]
        return out


def _farther_alike(rise: F64, own: int) -> F64:
    """NaN: the next known one towards ``own``."""
    out: F64 = rise.copy()
    for step in (1, -1):
        for i in range(own + step, len(out) if step > 0 else -1, step):
            if np.isnan(out[i]):
                out[i] = out[i - step]
    return out
