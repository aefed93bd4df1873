"""``tracekit train perfvec MANIFEST -o MODEL``: a model folder from a dataset."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any


def add_parser(sub: Any, help_text: str) -> None:
    p = sub.add_parser("train", help=help_text, description=__doc__)
    models = p.add_subparsers(dest="model", metavar="MODEL", required=True)
    q = models.add_parser("perfvec", help="program representations and a table of machines")
    q.add_argument("manifest", help="JSON or TOML (docs/perfvec.md)")
    q.add_argument("-o", "--output", required=True, help="the model's folder")
    q.add_argument("--preset", choices=("default", "paper"), default="default")
    q.add_argument("--seed", type=int, default=0)
    q.add_argument("--threads", type=int, help="all cores unless given")
    q.add_argument("--epochs", type=int, default=50, help="paper: passes over the data")
    q.add_argument("--rows", type=int, help="paper: only the first N rows of each program")
    q.add_argument("--quiet", action="store_true")
    q.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    from tracekit.dataset import load_manifest
    from tracekit.train.default import json_lines, train_default

    out = Path(args.output)
    manifest = load_manifest(args.manifest)
    echo = None if args.quiet else lambda line: print(line, file=sys.stderr)
    report = json_lines(out / "metrics.jsonl", echo)
    if args.preset == "paper":
        from tracekit.train.paper import train_paper

        train_paper(
            manifest,
            out,
            epochs=args.epochs,
            rows=args.rows,
            seed=args.seed,
            threads=args.threads,
            report=report,
        )
    else:
        train_default(manifest, out, seed=args.seed, threads=args.threads, report=report)
    return 0
