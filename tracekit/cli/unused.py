"""Options that a command has, but that mean nothing in one of its modes: a usage error."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from tracekit.errors import UsageError

__all__ = ["refuse"]


def refuse(args: argparse.Namespace, names: Iterable[str], mode: str) -> None:
    """UsageError where one of the options was given something else than its default.  ``args``
    has its command's parser as ``parser``; ``mode`` ends the sentence "…means nothing"."""
    wrong = [n for n in names if getattr(args, n) != args.parser.get_default(n)]
    if wrong:
        options = " and ".join(f"--{n.replace('_', '-')}" for n in wrong)
        raise UsageError(f"{options}: means nothing {mode}")
