"""``tracekit join FEATS --target NAME=FILE… -o DATA``: targets on many machines beside one copy of
the features, in one file.

A file is a timed feats.zst of the same program, whose instructions are compared pc by pc, or an
array of cycles (.npy, .npy.zst) with as many rows, whose machines NAME names, separated by commas.
"""

from __future__ import annotations

import argparse
from typing import Any

from tracekit.cli.clustered import add_cluster, run_of, wanted
from tracekit.cli.common_options import add_force, add_quiet
from tracekit.cli.report import add_json, reported
from tracekit.text import counted, note


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit join``."""
    p = sub.add_parser("join", help=help_text, description=__doc__)
    p.add_argument("features", nargs="+", help="with --cluster or --run several")
    p.add_argument(
        "--target",
        action="append",
        required=True,
        metavar="NAME[,NAME…]=FILE",
        help="of several features {} in it stands for their name up to the first dot",
    )
    p.add_argument(
        "--micro",
        metavar="FEATS",
        help="the trace at the micro level, where the features are of the macro level and an "
        "array's rows are micro-ops: each instruction gets their sum",
    )
    p.add_argument("-o", "--output", required=True, help="the file of both, for a manifest")
    p.add_argument("--strict", action="store_true", help="streams that part are an error")
    add_force(p)
    add_quiet(p)
    add_json(p)
    add_cluster(p)
    p.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Run ``tracekit join``; returns the exit code."""
    from tracekit.dataset import join
    from tracekit.errors import UsageError

    if wanted(args):
        return _many(args)
    if len(args.features) > 1:
        raise UsageError("several features are joined as tasks", hint="--run FOLDER or --cluster")
    report = join(
        args.features[0],
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
            f"{args.output}: {report['rows']:,} of {counted(report['feature_rows'], 'row')} with "
            f"targets, {counted(len(report['machines']), 'machine')}"
        )
    return 0


def _many(args: argparse.Namespace) -> int:
    """Each features' file to one of its name in the folder ``--output``."""
    from tracekit.cluster import join_many
    from tracekit.io.output import kept_folder

    with kept_folder(args.output), run_of(args) as run:
        outcomes = join_many(
            run,
            args.features,
            args.target,
            args.output,
            micro=args.micro,
            strict=args.strict,
            force=args.force,
        )
    done = [o for o in outcomes if o.error is None]
    for o in done:
        for told in o.value["report"]["notes"]:
            note(f"{o.task.name}: {told}")
    if not reported(args, lambda: [{"path": o.task.name, **o.value["report"]} for o in done]):
        for o in done:
            r = o.value["report"]
            print(
                f"{o.task.outputs[0]}: {r['rows']:,} of {counted(r['feature_rows'], 'row')} with "
                "targets, "
                f"{counted(len(r['machines']), 'machine')}"
            )
    for o in outcomes:
        if o.error is not None:
            note(o.error)
    return 0 if len(done) == len(outcomes) else 1
