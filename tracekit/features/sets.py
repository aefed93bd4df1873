"""Feature sets: named, versioned, ordered lists of columns (features.md), and the registry of
them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tracekit import schema
from tracekit.entry_points import offers, the_offer
from tracekit.errors import UsageError
from tracekit.old_names import bits_of_column

Array = npt.NDArray[np.generic]


@dataclass(frozen=True)
class Feature:
    """One column of a set.

    Exactly one of: ``static``, a function of the StaticTable giving one number an instruction;
    ``column``, a stored column or bit of that name, of ``window_before``, ``window_now``,
    ``p_local`` and ``p_global`` the entropy (features.md); ``dynamic``, a function of a Chunk
    giving one number a row.  ``bits``, of the column ``addr``: the lowest bit and how many of them
    are the number, at most 24, which float32 holds.

    Raises `UsageError` where it is none of the three, or names a column that is not stored.
    """

    name: str
    static: Callable[..., Array] | None = None
    column: str | None = None
    dynamic: Callable[..., Array] | None = None
    bits: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if self.column is not None and (old := bits_of_column(self.column)) is not None:
            object.__setattr__(self, "column", old[0])
            object.__setattr__(self, "bits", old[1])
        if sum(x is not None for x in (self.static, self.column, self.dynamic)) != 1:
            raise UsageError(f"feature {self.name}: give one of static, column, dynamic")
        if any(f is not None and not callable(f) for f in (self.static, self.dynamic)):
            raise UsageError(f"feature {self.name}: static and dynamic are functions")
        if self.bits is not None:
            first, count = self.bits
            if self.column != "addr":
                raise UsageError(f"feature {self.name}: bits are of the column addr")
            if first < 0 or not 1 <= count <= min(24, 64 - first):
                raise UsageError(f"feature {self.name}: bits {self.bits} are no 1 to 24 of 64")
        if self.column is not None and self.column not in (*schema.COLUMNS, *schema.BITS):
            static = self.column in schema.STATIC_COLUMNS
            raise UsageError(
                f"feature {self.name}: no column {self.column!r} is stored for each row",
                hint=f"static=lambda table: table.{self.column}"
                if static
                else f"there are {', '.join((*schema.COLUMNS, *schema.BITS))}",
            )


@dataclass(frozen=True)
class FeatureSet:
    """Columns in their order, as `TraceFile.features` gives them: float32 [rows, features].

    Raises `UsageError` where two features have one name, or one is no `Feature`.
    """

    name: str
    version: int
    features: tuple[Feature, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names, in order."""
        return tuple(f.name for f in self.features)

    def __post_init__(self) -> None:
        if not all(isinstance(f, Feature) for f in self.features):
            raise UsageError(f"feature set {self.name}: features is a tuple of Feature")
        if len(set(self.columns)) != len(self.columns):
            raise UsageError(f"feature set {self.name}: two columns have one name")


_sets: dict[str, FeatureSet] = {}


def register(spec: FeatureSet) -> FeatureSet:
    """Make a set known by its name, for ``trace.features(name)``.

    spec: the set; its features' functions get a static table or a chunk and give one number an
        instruction or a row.

    Raises `UsageError` where the name is taken, or ``spec`` is none.  Returns ``spec``.

    >>> import tracekit
    >>> size = tracekit.Feature("size", static=lambda table: table.access_size)
    >>> _ = tracekit.register_feature_set(tracekit.FeatureSet("only-size", 1, (size,)))
    >>> tracekit.open("feats.zst").features("only-size").shape
    (6134, 1)
    """
    if not isinstance(spec, FeatureSet):
        raise UsageError(f"a FeatureSet is needed, not {spec!r:.80}")
    if spec.name in _sets:
        raise UsageError(f"feature set {spec.name!r} exists already")
    _sets[spec.name] = spec
    return spec


def get(name: str) -> FeatureSet:
    """A set by name, a registered one or another package's (docs/entry-points.md); UsageError where
    there is none, or where the package's cannot be used."""
    if name not in _sets:
        if (offer := the_offer("feature set", name)) is None:
            there = ", ".join(sorted(names()))
            raise UsageError(f"no feature set {name!r}; there are {there}")
        made = offer.load()
        if callable(made):
            try:
                made = made()
            except Exception as e:  # somebody else's function
                raise offer.failed(e) from None
        if not isinstance(made, FeatureSet) or made.name != name:
            raise offer.failed(f"it gives no FeatureSet of that name, but {made!r:.200}")
        _sets[name] = made
    return _sets[name]


def names() -> tuple[str, ...]:
    """The names of all sets: the registered ones, then those of other packages."""
    return tuple(dict.fromkeys((*_sets, *(o.name for o in offers("feature set")))))


def entropy_nats(p: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """-p·ln p - (1-p)·ln(1-p), 0 at p = 0 and p = 1."""
    out = np.zeros_like(p)
    inside = (p > 0) & (p < 1)
    q = p[inside]
    out[inside] = -q * np.log(q) - (1 - q) * np.log1p(-q)
    return out
