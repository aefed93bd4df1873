"""Numbers of a command line, for argparse's ``type``: what is none, or too small, is told with the
option's name."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any

from tracekit.cpus import MOST_THREADS

__all__ = ["add_threads", "at_least", "minutes_or_none", "seconds", "seconds_or_none"]


#: The largest whole number that the compiled code takes.
_MOST = 2**63 - 1


def add_threads(p: Any) -> None:
    """``--threads``, of tracekit's own work; all processors that it may use unless given."""
    number = at_least(1, MOST_THREADS)
    p.add_argument("--threads", type=number, metavar="N", help="worker threads (all processors)")


def at_least(least: int, most: int = _MOST) -> Callable[[str], int]:
    """A whole number from ``least`` to ``most``."""

    def number(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"{text}: a whole number, {least} or more")
        if value > most:
            raise argparse.ArgumentTypeError(f"{text}: a whole number, at most {most}")
        return value

    return number


def seconds(text: str) -> float:
    """A time above 0."""
    if not (value := seconds_or_none(text)):
        raise argparse.ArgumentTypeError(f"{text}: a number of seconds above 0")
    return value


def seconds_or_none(text: str) -> float:
    """A time from 0 on."""
    return _not_negative(text, "seconds")


def minutes_or_none(text: str) -> float:
    """A time from 0 on."""
    return _not_negative(text, "minutes")


def _not_negative(text: str, unit: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text}: a number of {unit}, 0 or more")
    return value
