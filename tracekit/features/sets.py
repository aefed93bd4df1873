"""Feature sets: named, versioned, ordered lists of columns (features.md), and the registry of
them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.errors import UsageError

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Feature:
    """One column of a set.

    Exactly one of: ``static``, a function of the StaticTable giving one number an instruction;
    ``column``, a stored column or bit of that name; ``dynamic``, a function of a Chunk giving one
    number a row.
    """

    name: str
    static: Callable[[Any], Array] | None = None
    column: str | None = None
    dynamic: Callable[[Any], Array] | None = None

    def __post_init__(self) -> None:
        if sum(x is not None for x in (self.static, self.column, self.dynamic)) != 1:
            raise UsageError(f"feature {self.name}: give one of static, column, dynamic")


@dataclass(frozen=True)
class FeatureSet:
    name: str
    version: int
    features: tuple[Feature, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names, in order."""
        return tuple(f.name for f in self.features)

    def __post_init__(self) -> None:
        if len(set(self.columns)) != len(self.columns):
            raise UsageError(f"feature set {self.name}: two columns have one name")


_sets: dict[str, FeatureSet] = {}


def register(spec: FeatureSet) -> FeatureSet:
    """Makes a set known by its name; a name that is taken is an error."""
    if spec.name in _sets:
        raise UsageError(f"feature set {spec.name!r} exists already")
    _sets[spec.name] = spec
    return spec


def get(name: str) -> FeatureSet:
    """A set by name; UsageError where there is none."""
    try:
        return _sets[name]
    except KeyError:
        raise UsageError(f"no feature set {name!r}; there are {', '.join(sorted(_sets))}") from None


def names() -> tuple[str, ...]:
    return tuple(_sets)


def entropy_nats(p: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """-p·ln p - (1-p)·ln(1-p), 0 at p = 0 and p = 1."""
    out = np.zeros_like(p)
    inside = (p > 0) & (p < 1)
    q = p[inside]
    out[inside] = -q * np.log(q) - (1 - q) * np.log1p(-q)
    return out
