"""``tracekit completion SHELL``: what a shell has to read to complete commands and options.

For bash: ``tracekit completion bash > ~/.local/share/bash-completion/completions/tracekit``; for
zsh: ``tracekit completion zsh > DIR/_tracekit``, where DIR is in ``fpath``.
"""

from __future__ import annotations

import argparse
from typing import Any


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit completion``."""
    p = sub.add_parser(
        "completion",
        help=help_text,
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("shell", choices=("bash", "zsh", "tcsh"), help="whose completion")
    p.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Run ``tracekit completion``; returns the exit code."""
    import shtab

    from tracekit.cli.main import create_parser

    print(shtab.complete(create_parser(), shell=args.shell))
    return 0
