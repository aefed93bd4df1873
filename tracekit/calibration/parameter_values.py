"""Which of its possible values each parameter of a core has, as numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["are_names", "numbers_of"]


def are_names(values: tuple[Any, ...]) -> bool:
    """Whether the values of a parameter are names, which have no order."""
    return isinstance(values[0], str)


def numbers_of(core: Mapping[str, Any], values: Mapping[str, tuple[Any, ...]]) -> list[int]:
    """The place of the core's value among those of each parameter, [parameters]."""
    return [known.index(core[key]) for key, known in values.items()]
