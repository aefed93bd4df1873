"""Numbers of a command line, for argparse's ``type``: what is none, or too small, is told with the
option's name."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

__all__ = ["at_least", "seconds", "seconds_or_none"]


def at_least(least: int) -> Callable[[str], int]:
    """A whole number from ``least`` on."""

    def number(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"{text}: a whole number, {least} or more")
        return value

    return number


def seconds(text: str) -> float:
    """A time above 0."""
    if not (value := seconds_or_none(text)):
        raise argparse.ArgumentTypeError(f"{text}: a number of seconds above 0")
    return value


def seconds_or_none(text: str) -> float:
    """A time from 0 on."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text}: a number of seconds, 0 or more")
    return value
