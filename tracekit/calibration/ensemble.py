"""Proposals for parameters of a core from how parameters and deviations went together in the cores
judged so far: an ensemble Kalman step (Iglesias, Law and Stuart 2013, "Ensemble Kalman methods for
inverse problems")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.calibration.parameter_values import are_names, numbers_of

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
        self._places: list[F64] = []
        self._objectives = np.zeros(0)
        self._gaps: list[F64] = []

    def add(self, cores: Sequence[Core], objectives: F64, gaps: F64) -> None:
        """``gaps``: [cores, numbers]."""
        self._cores += cores
        self._places += [self._place(c) for c in cores]
        self._objectives = np.append(self._objectives, objectives)
        self._gaps += list(np.clip(gaps, -_MOST, _MOST))

    def proposals(self, count: int, among: int, random: np.random.Generator) -> list[Core]:
        """``count`` cores: one of the best ``among`` each, moved by what would close its gaps, as
        far as the others tell."""
        best = np.argsort(self._objectives, kind="stable")[:_COMPARED]
        places = np.stack([self._places[i] for i in best])
        gaps = np.stack([self._gaps[i] for i in best])
        p, g = places - places.mean(axis=0), gaps - gaps.mean(axis=0)
        n = len(best)
        # Gain C_pg (C_gg + 1)^-1, by way of the smaller matrix of cores.
        gain = np.linalg.solve(g @ g.T + max(1, n - 1) * np.eye(n), p).T @ g
        of = random.integers(min(among, n), size=count)
        wanted = random.normal(size=(count, gaps.shape[1])) - gaps[of]
        moved = self._cores_at(places[of] + wanted @ gain.T)
        return [{**self._cores[best[k]], **values} for k, values in zip(of, moved, strict=True)]

    def _place(self, core: Core) -> F64:
        """Ordered values as their number, names as one number for each."""
        out: list[float] = []
        for at, known in zip(numbers_of(core, self._values), self._values.values(), strict=True):
            out += [float(i == at) for i in range(len(known))] if are_names(known) else [float(at)]
        return np.array(out)

    def _cores_at(self, places: F64) -> list[Core]:
        """The values that are nearest to ``places`` [cores, numbers]."""
        columns, at = [], 0
        for known in self._values.values():
            n = len(known) if are_names(known) else 1
            own = places[:, at : at + n]
            nearest = own.argmax(axis=1) if are_names(known) else np.rint(own[:, 0])
            numbers = np.clip(nearest, 0, len(known) - 1).astype(np.int64).tolist()
            columns.append([known[i] for i in numbers])
            at += n
        return [dict(zip(self._values, row, strict=True)) for row in zip(*columns, strict=True)]
