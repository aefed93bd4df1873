"""``tracekit plugin``: the sources of the gem5 plug-in, to be compiled into an unmodified gem5."""

from __future__ import annotations

import argparse
from typing import Any

from tracekit.cli.common_options import add_force
from tracekit.plugin import write_plugin


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit plugin``."""
    p = sub.add_parser("plugin", help=help_text, description=__doc__)
    p.add_argument("-o", "--output", required=True, metavar="DIR", help="folder to write")
    add_force(p)
    p.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Run ``tracekit plugin``; returns the exit code."""
    folder = write_plugin(args.output, force=args.force)
    print(f"scons build/ARM/gem5.opt EXTRAS={folder}")
    return 0
