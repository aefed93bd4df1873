"""``tracekit export``: a file to Parquet, Arrow IPC or NumPy files, to ChampSim's format where it
fits, or a recording to DynamoRIO's (drmemtrace)."""

from __future__ import annotations

import argparse
from typing import Any

from tracekit.cli.common_options import add_force
from tracekit.exporting import FORMATS, export
from tracekit.text import note


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit export``."""
    p = sub.add_parser("export", help=help_text, description=__doc__)
    p.add_argument(
        "file",
        help="a feats.zst; for drmemtrace a recording; for ChampSim either, or a stream",
    )
    p.add_argument("-o", "--output", required=True, help="file; of npy and drmemtrace, a folder")
    p.add_argument("--to", choices=sorted(FORMATS), help="default: as the output's name ends")
    p.add_argument("--features", metavar="SET", help="a feature set instead of the columns")
    p.add_argument("--disassembly", action="store_true", help="a column with each row's text")
    add_force(p)
    p.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Run ``tracekit export``; returns the exit code."""
    dropped = export(
        args.file,
        args.output,
        to=args.to,
        features=args.features,
        disassembly=args.disassembly,
        force=args.force,
    )
    for kind, count in dropped.items():
        note(f"{args.output}: {count:,} {kind} of an instruction have no place, and were left out")
    return 0
