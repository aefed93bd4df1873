"""The clock of a machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["period"]


def period(machine: Mapping[str, Any]) -> float:
    """Seconds of a clock period, NaN where the clock is not known.  gem5 rounds it to
    picoseconds."""
    clock = machine.get("clock_ghz")
    if not isinstance(clock, int | float) or not 1e-6 < clock < 1e6:
        return float("nan")
    return round(1000 / clock) * 1e-12
