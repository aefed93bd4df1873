"""Proposals for parameters of a core from how parameters and deviations went together in the cores
judged so far: an ensemble Kalman step (Iglesias, Law and Stuart 2013, "Ensemble Kalman methods for
inverse problems")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Ensemble"]

F64 = npt.NDArray[np.float64]
Core = dict[str, Any]

#: Deviations count no further than this many times what a good core is off by.
_MOST = 6.0
#: Of the cores judged, those that are compared: the best ones.
_COMPARED = 256


class Ensemble:
    """Cores with their misfits and deviations from what a machine shows, [numbers] each, in units
    of how far a good core is off.  ``values``: of each parameter all that it can be; ordered, but
    for names."""

    def __init__(self, values: Mapping[str, tuple[Any, ...]]) -> None:
        self._values = values
        self._cores: list[Core] = []
        self._objectives = np.zeros(0)
        self._gaps: list[F64] = []

    def add(self, cores: Sequence[Core], objectives: F64, gaps: F64) -> None:
        """``gaps``: [cores, numbers]."""
        self._cores += cores
        self._objectives = np.append(self._objectives, objectives)
        self._gaps += list(np.clip(gaps, -_MOST, _MOST))

    def proposals(self, count: int, among: int, random: np.random.Generator) -> list[Core]:
        """``count`` cores: one of the best ``among`` each, moved by what would close its gaps, as
        far as the others tell."""
        best = np.argsort(self._objectives, kind="stable")[:_COMPARED]
        places = np.stack([self._place(self._cores[i]) for i in best])
        gaps = np.stack([self._gaps[i] for i in best])
        p, g = places - places.mean(axis=0), gaps - gaps.mean(axis=0)
        n = len(best)
        # Gain C_pg (C_gg + 1)^-1, by way of the smaller matrix of cores.
        gain = np.linalg.solve(g @ g.T + max(1, n - 1) * np.eye(n), p).T @ g
        out = []
        for _ in range(count):
            k = int(random.integers(min(among, n)))
            wanted = random.normal(size=gaps.shape[1]) - gaps[k]
            out.append(self._core(self._cores[best[k]], places[k] + gain @ wanted))
        return out

    def _place(self, core: Core) -> F64:
        """Ordered values as their number, names as one number for each."""
        out: list[float] = []
        for key, known in self._values.items():
            at = known.index(core[key])
            out += [float(i == at) for i in range(len(known))] if _named(known) else [float(at)]
        return np.array(out)

    def _core(self, core: Core, place: F64) -> Core:
        out, at = dict(core), 0
        for key, known in self._values.items():
            n = len(known) if _named(known) else 1
            if _named(known):
                i = int(np.argmax(place[at : at + n]))
            else:
                i = int(np.clip(np.rint(place[at]), 0, len(known) - 1))
            out[key] = known[i]
            at += n
        return out


def _named(known: tuple[Any, ...]) -> bool:
    return isinstance(known[0], str)
