"""What the objective of a core will be, foretold from the cores judged so far: kernel ridge
regression of their deviations (a kriging model; Jin 2011, "Surrogate-assisted evolutionary
computation: recent advances and future challenges")."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.calibration.parameter_values import are_names, numbers_of
from tracekit.sim.memories import memory_cycles

__all__ = ["Surrogate"]

F64 = npt.NDArray[np.float64]
Core = Mapping[str, Any]

#: Deviations count no further than this many times what a good core is off by.
_MOST = 12.0
#: Of the cores judged, those that are learned from: the best ones.
_LEARNED = 400
#: The variance that a deviation has beside what parameters explain, of what they do.
_NOISE = 2e-3
#: Parameters count by how much they move deviations, to this power.
_SHARPER = 1.5
#: How far two names are apart, of the way from a parameter's least value to its largest.
_NAMES_APART = 0.7
#: A memory is what it takes in the core's cycles, so that two of different clocks may be alike.
_MEMORY = ("clock_ghz", "mem")


class Surrogate:
    """``values``: of each parameter all that it can be, in order; ``loss``: the part of an
    objective that deviations [cores, numbers] explain, [cores]."""

    def __init__(self, values: Mapping[str, tuple[Any, ...]], loss: Callable[[F64], F64]) -> None:
        self._values, self._loss = {k: v for k, v in values.items() if k not in _MEMORY}, loss
        self._named = [are_names(v) for v in self._values.values()]
        self._places: list[list[float]] = []
        self._objectives: list[float] = []
        self._gaps: list[F64] = []

    def add(self, cores: Sequence[Core], objectives: F64, gaps: F64) -> None:
        """Cores with their objectives, and their deviations in units of how far a good core is
        off, ``gaps`` [cores, numbers]."""
        self._places += [self._place(c) for c in cores]
        self._objectives += objectives.tolist()
        self._gaps += list(np.clip(gaps, -_MOST, _MOST))

    def foretold(self, cores: Sequence[Core]) -> F64:
        """The objectives of ``cores``, about."""
        best = np.argsort(self._objectives, kind="stable")[:_LEARNED]
        places = np.array(self._places)
        least = places.min(axis=0)
        wide = np.maximum(places.max(axis=0) - least, 1e-9)
        known = (places[best] - least) / wide
        asked = (np.array([self._place(c) for c in cores]) - least) / wide
        gaps = np.stack([self._gaps[i] for i in best])
        # Windows are not among the deviations: what they add is foretold for itself.
        rest = np.array(self._objectives)[best] - self._loss(gaps)
        numbers = np.column_stack([gaps, rest])
        middle = numbers.mean(axis=0)
        weights = self._weights(known, numbers - middle)
        far = self._distances(known, known, weights)
        scale = max(float(np.median(far)), 1e-9)
        kernel = np.exp(-far / scale) + _NOISE * np.eye(len(best))
        learned = np.linalg.solve(kernel, numbers - middle)
        found = np.exp(-self._distances(asked, known, weights) / scale) @ learned + middle
        return np.asarray(self._loss(found[:, :-1]) + found[:, -1])

    def _place(self, core: Core) -> list[float]:
        """Values and names as their numbers, and the logarithms of the memory's cycles."""
        own = [float(at) for at in numbers_of(core, self._values)]
        cycles = memory_cycles(core["mem"], core["clock_ghz"])
        return own + [float(np.log1p(v)) for v in cycles.values()]

    def _is_named(self, coordinate: int) -> bool:
        """Not so the memory's, which come last."""
        return coordinate < len(self._named) and self._named[coordinate]

    def _weights(self, places: F64, numbers: F64) -> F64:
        """Of each coordinate, by how much it moves ``numbers`` in a linear regression."""
        columns, of = [], []
        for i, at in enumerate(places.T):
            each = [_NAMES_APART * (at == v) for v in np.unique(at)] if self._is_named(i) else [at]
            columns += each
            of += [i] * len(each)
        x = np.stack(columns, axis=1)
        x = x - x.mean(axis=0)
        slopes = np.linalg.solve(x.T @ x + np.eye(x.shape[1]), x.T @ numbers)
        moved = np.sqrt(np.bincount(of, (slopes**2).sum(axis=1))) ** _SHARPER
        return np.asarray(moved / max(float(moved.mean()), 1e-9))

    def _distances(self, a: F64, b: F64, weights: F64) -> F64:
        """Between places, [a, b]."""
        out = np.zeros((len(a), len(b)))
        for i, weight in enumerate(weights):
            apart = np.abs(a[:, i, None] - b[None, :, i])
            if self._is_named(i):
                apart = _NAMES_APART * (apart > 0)
            out += weight * apart
        return out
