"""What installed packages add: feature sets, input formats and machines, by entry points.

A package is imported only when something is asked for that tracekit itself does not have, so that
one that is broken is in nobody's way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from tracekit.errors import UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["EntryPointWarning", "Offer", "offers", "the_offer"]

Kind = Literal["feature set", "input format", "machines"]
#: What is looked for, and the group that a package's metadata names it in.
GROUPS: Final[dict[Kind, str]] = {
    "feature set": "tracekit.features",
    "input format": "tracekit.inputs",
    "machines": "tracekit.machines",
}


class EntryPointWarning(UserWarning):
    """A package's entry point cannot be used; everything else goes on."""


@dataclass(frozen=True)
class Offer:
    """One entry point: its kind and name, the package ("name 1.0") and the object that it names."""

    kind: Kind
    name: str
    package: str
    _entry: EntryPoint

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r} of the package {self.package}"

    def load(self) -> object:
        """The object; UsageError with package, place and reason where that fails."""
        try:
            return self._entry.load()
        except (Exception, SystemExit) as e:  # whatever the import of somebody's module raises
            raise self.failed(e) from None

    def failed(self, why: BaseException | str) -> UsageError:
        """The error that says that ``why`` keeps it from being used."""
        text = why if isinstance(why, str) else f"{type(why).__name__}: {why}"
        return UsageError(
            f"{self} cannot be used: {text}",
            hint=f"its entry point is {self._entry.value} in the group {GROUPS[self.kind]}",
        )


def offers(kind: Kind) -> Iterator[Offer]:
    """The entry points of a kind, by name; nothing is imported of them."""
    from importlib.metadata import entry_points

    found = sorted(entry_points(group=GROUPS[kind]), key=lambda e: (e.name, e.value))
    for e in found:
        dist = e.dist
        package = f"{dist.metadata['Name']} {dist.version}" if dist is not None else "?"
        yield Offer(kind, e.name, package, e)


def the_offer(kind: Kind, name: str) -> Offer | None:
    """The entry point of that name, None where there is none; UsageError where there are two."""
    found = [o for o in offers(kind) if o.name == name]
    if len(found) > 1:
        packages = " and ".join(o.package for o in found)
        raise UsageError(f"two packages have a {kind} {name!r}: {packages}", hint="remove one")
    return found[0] if found else None
