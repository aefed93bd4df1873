"""``tracekit join FEATS --target NAME=FILE… -o DATA``: targets on many machines beside one copy of
the features, in one file.

A file is a timed feats.zst of the same program, whose instructions are compared pc by pc, or an
array of cycles (.npy, .npy.zst) with as many rows, whose machines NAME names, separated by commas.
"""

from __future__ import annotations

import argparse
from typing import Any

from tracekit.cli.report import add_json, reported
from tracekit.text import note


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit join``."""
    p = sub.add_parser("join", help=help_text, description=__doc__)
    p.add_argument("features")
    p.add_argument("--target", action="append", required=True, metavar="NAME[,NAME…]=FILE")
    p.add_argument(
        "--micro",
        metavar="FEATS",
        help="the trace at the micro level, where the features are of the macro level and an "
        "array's rows are micro-ops: each instruction gets their sum",
    )
    p.add_argument("-o", "--output", required=True, help="the file of both, for a manifest")
    p.add_argument("--strict", action="store_true", help="streams that part are an error")
    p.add_argument("--force", action="store_true", help="replace the output")
    add_json(p)
    p.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Run ``tracekit join``; returns the exit code."""
    from tracekit.dataset import join

    report = join(
        args.features,
        args.target,
        args.output,
        strict=args.strict,
        force=args.force,
        micro=args.micro,
    )
    for told in report["notes"]:
        note(told)
    if not reported(args, report):
        print(
            f"{args.output}: {report['rows']:,} of {report['feature_rows']:,} rows with "
            f"targets, {len(report['machines'])} machines"
        )
    return 0
