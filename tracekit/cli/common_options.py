"""Options and files that many commands take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracekit.cli.numbers import at_least
from tracekit.cpus import MOST_THREADS
from tracekit.errors import UsageError

__all__ = ["add_force", "add_quiet", "add_threads", "check_once"]


def add_force(p: Any) -> None:
    """``--force``, of a command whose outputs are named on the command line."""
    p.add_argument("--force", action="store_true", help="replace existing output")


def add_quiet(p: Any) -> None:
    """``-q``, of a command that shows its progress."""
    p.add_argument("-q", "--quiet", action="store_true", help="no progress")


def add_threads(p: Any) -> None:
    """``--threads``, of tracekit's own work; all processors that it may use unless given."""
    number = at_least(1, MOST_THREADS)
    p.add_argument("--threads", type=number, metavar="N", help="worker threads (all processors)")


def check_once(names: Sequence[str]) -> None:
    """UsageError where a file or a machine is named twice: it would count twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise UsageError(f"{name} is given twice")
        seen.add(name)
