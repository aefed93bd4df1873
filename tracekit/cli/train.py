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
    q.add_argument("--machines", nargs="+", metavar="NAME", help="default: only these")
    paper = q.add_argument_group("preset paper")
    paper.add_argument("--epochs", type=int, default=50, help="passes over the data")
    paper.add_argument("--rows", type=int, help="only the first N rows of each program")
    paper.add_argument("--minutes", type=float, help="stop then; the same command goes on")
    paper.add_argument(
        "--patience", type=int, default=10, help="passes without gain on the validation families"
    )
    paper.add_argument("--streams", type=int, default=64, help="rows that are computed at once")
    paper.add_argument("--bf16", action="store_true", help="the LSTM in bfloat16")
    paper.add_argument("--device", default="auto", help="cpu, cuda, cuda:1; a GPU unless given")
    q.add_argument("--quiet", action="store_true")
    q.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    from tracekit.dataset import load_manifest
    from tracekit.train.metrics import metrics

    out = Path(args.output)
    manifest = load_manifest(args.manifest)
    echo = None if args.quiet else lambda line: print(line, file=sys.stderr)
    report = metrics(out, echo)
    if args.preset == "paper":
        from tracekit.train.paper import PaperOptions, train_paper

        options = PaperOptions(
            epochs=args.epochs,
            rows=args.rows,
            minutes=args.minutes,
            patience=args.patience,
            seed=args.seed,
            streams=args.streams,
            bf16=args.bf16,
            device=args.device,
            threads=args.threads,
        )
        train_paper(manifest, out, options, report)
    else:
        from tracekit.train.default import train_default

        train_default(
            manifest,
            out,
            seed=args.seed,
            threads=args.threads,
            machines=args.machines,
            report=report,
        )
    return 0
