"""What JSON holds, as a type."""

from __future__ import annotations

from typing import TypeAlias, Union

__all__ = ["Json"]

Json: TypeAlias = Union[bool, int, float, str, "list[Json]", "dict[str, Json]", None]
"""A value of JSON: null, a boolean, a number, a string, a list or an object."""
