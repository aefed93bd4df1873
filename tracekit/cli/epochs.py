"""``tracekit epochs FEATS``: a trace in epochs of 100,000 instructions, each with the hash of its
pcs; and how much of the run the distinct ones cover."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any


def add_parser(sub: Any, help_text: str) -> None:
    p = sub.add_parser("epochs", help=help_text, description=__doc__)
    p.add_argument("file", help="a feats.zst at the macro level")
    p.add_argument("--length", type=int, default=100_000, help="instructions an epoch (100000)")
    p.add_argument("--json", action="store_true", help="as JSON (docs/json.md)")
    p.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    from tracekit.epochs import coverage, epochs
    from tracekit.store.reader import TraceFile

    with TraceFile(args.file) as trace:
        rows = len(trace)
        listed = epochs(trace, args.length)
    distinct = coverage(listed)
    if args.json:
        out = {
            "path": args.file,
            "rows": rows,
            "length": args.length,
            "epochs": [asdict(e) for e in listed],
            "distinct": [asdict(c) for c in distinct],
        }
        print(json.dumps(out, indent=1))
        return 0
    for e in listed:
        again = f"  as {e.first}" if e.first != e.number else ""
        print(f"{e.number:>6}{e.begin:>14,}{e.rows:>10,}  {e.signature}{again}")
    print(f"{rows:,} instructions, {len(listed)} epochs, {len(distinct)} distinct signatures")
    for want in (0.5, 0.9, 1.0):
        k = sum(c.together < want - 1e-12 for c in distinct) + 1
        if k <= len(distinct):
            print(f"{want:5.0%} of the instructions: {k} signatures")
    return 0
