"""``tracekit export``: a file to Parquet, Arrow IPC or NumPy files; ChampSim's format where it
fits."""

from __future__ import annotations

import argparse
from typing import Any

from tracekit.store.export import FORMATS, export


def add_parser(sub: Any, help_text: str) -> None:
    p = sub.add_parser("export", help=help_text, description=__doc__)
    p.add_argument("file")
    p.add_argument("-o", "--output", required=True, help="file; of npy, a folder")
    p.add_argument("--to", choices=sorted(FORMATS), required=True)
    p.add_argument("--features", metavar="SET", help="a feature set instead of the columns")
    p.add_argument("--force", action="store_true", help="replace existing output")
    p.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    export(args.file, args.output, to=args.to, features=args.features, force=args.force)
    return 0
