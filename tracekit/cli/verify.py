"""``tracekit verify``: reads everything, checks every checksum and what must hold between
columns."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from tracekit.store.verify import verify


def add_parser(sub: Any, help_text: str) -> None:
    p = sub.add_parser("verify", help=help_text, description=__doc__)
    p.add_argument("file", nargs="+")
    p.add_argument("--json", action="store_true", help="as JSON (docs/json.md)")
    p.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    results = {path: verify(path) for path in args.file}
    if args.json:
        print(json.dumps(results, indent=1))
    bad = 0
    for path, problems in results.items():
        bad += bool(problems)
        if not args.json:
            print(f"{path}: {'ok' if not problems else ''}")
        for p in problems:
            sys.stderr.write(f"tracekit: {p}\n")
    return 1 if bad else 0
