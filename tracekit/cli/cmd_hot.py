"""``tracekit hot``: the functions, lines or files that a program spent its instructions in."""

from __future__ import annotations

import argparse
from typing import Any

from tracekit.analysis import BY, hot
from tracekit.cli.common_options import add_quiet
from tracekit.cli.numbers import at_least
from tracekit.cli.report import add_json, reported
from tracekit.text import counted, note


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit hot``."""
    p = sub.add_parser("hot", help=help_text, description=__doc__)
    p.add_argument("file", help="a recording (.tks) or a feats.zst")
    p.add_argument(
        "--by",
        choices=list(BY),
        default="symbol",
        help="symbol (default); function: inlined ones apart; line: of the source; file",
    )
    p.add_argument("--top", type=at_least(0), default=20, metavar="N", help="parts shown (20)")
    p.add_argument(
        "--binary",
        metavar="ELF",
        help="the program, of a trace that does not tell it, or has moved",
    )
    add_quiet(p)
    add_json(p, "all parts as JSON (docs/json.md)")
    p.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Run ``tracekit hot``; returns the exit code."""
    found = hot(args.file, args.by, args.binary, quiet=args.quiet)
    for path, why in found.problems.items():
        note(f"{path}: {why}: no names from it")

    def result() -> dict[str, Any]:
        parts = [
            {"name": name, "rows": n, "share": n / found.rows}
            for name, n in found.parts.most_common()
        ]
        out = {"path": args.file, "by": args.by, "rows": found.rows, "parts": parts}
        return {**out, "problems": found.problems}

    if reported(args, result):
        return 0
    print(
        f"{args.file}: {counted(found.rows, 'row')} in {counted(len(found.parts), 'part')} by "
        f"{args.by}"
    )
    for name, n in found.parts.most_common(max(args.top, 0)):
        print(f"{100 * n / found.rows:7.2f} %{n:>14,}  {name}")
    return 0
