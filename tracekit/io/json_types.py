"""What JSON holds, as a type."""

from __future__ import annotations

import math
from typing import SupportsFloat, TypeAlias, Union

__all__ = ["Json", "finite_or_null"]

Json: TypeAlias = Union[bool, int, float, str, "list[Json]", "dict[str, Json]", None]
"""A value of JSON: null, a boolean, a number, a string, a list or an object."""


def finite_or_null(x: SupportsFloat) -> float | None:
    """A number, or None where it is none that JSON has (infinite, NaN)."""
    number = float(x)
    return number if math.isfinite(number) else None
