"""``tracekit epochs FEATS``: a trace in epochs of 100,000 instructions, each with the hash of its
pcs; and how much of the run the distinct ones cover."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from tracekit.cli.report import add_json, reported
from tracekit.text import counted


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit epochs``."""
    p = sub.add_parser("epochs", help=help_text, description=__doc__)
    p.add_argument("file", help="a feats.zst, or a recording (.tks)")
    p.add_argument("--length", type=int, default=100_000, help="instructions an epoch (100000)")
    add_json(p)
    p.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Run ``tracekit epochs``; returns the exit code."""
    import tracekit
    from tracekit.analysis import coverage, epochs

    with tracekit.open(args.file, level="macro") as trace:
        rows = len(trace)
        listed = epochs(trace, args.length)
    distinct = coverage(listed)

    def result() -> dict[str, Any]:
        return {
            "path": args.file,
            "rows": rows,
            "length": args.length,
            "epochs": [asdict(e) for e in listed],
            "distinct": [asdict(c) for c in distinct],
        }

    if reported(args, result):
        return 0
    for e in listed:
        again = f"  as {e.first}" if e.first != e.number else ""
        print(f"{e.number:>6}{e.begin:>14,}{e.rows:>10,}  {e.signature}{again}")
    print(
        f"{counted(rows, 'instruction')}, {counted(len(listed), 'epoch')}, "
        f"{counted(len(distinct), 'distinct signature')}"
    )
    for want in (0.5, 0.9, 1.0):
        k = sum(c.together < want - 1e-12 for c in distinct) + 1
        if k <= len(distinct):
            print(f"{want:5.0%} of the instructions: {counted(k, 'signature')}")
    return 0
