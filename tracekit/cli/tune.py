"""``tracekit tune``: a new machine's row of the table from one or a few short traces, the model
frozen."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any


def add_parser(sub: Any, help_text: str) -> None:
    p = sub.add_parser("tune", help=help_text, description=__doc__)
    p.add_argument(
        "traces",
        nargs="+",
        metavar="FEATS[=CYCLES]",
        help="a timed feats.zst, or features and an array of cycles (.npy, .npy.zst, joined .npz)",
    )
    p.add_argument(
        "-o", "--output", required=True, help="the machine's file, for predict --machine"
    )
    p.add_argument("--name", required=True)
    p.add_argument("--column", help="which machine of the arrays it is; --order names them")
    p.add_argument("--order", help="JSON list of the arrays' machines, in a file")
    p.add_argument("--parameters", help="the machine's JSON, where its parameters are known")
    p.add_argument("--model", help="a model's folder; the shipped one unless given")
    p.add_argument("--threads", type=int)
    p.add_argument("--json", action="store_true")
    p.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    from pathlib import Path

    import tracekit
    from tracekit.dataset import open_targets
    from tracekit.errors import UsageError
    from tracekit.perfvec import load_model
    from tracekit.perfvec.tune import tune, write_machine
    from tracekit.reference import load_machine

    model = load_model(args.model)
    order = tuple(json.loads(Path(args.order).read_text("utf-8"))) if args.order else ()
    traces = []
    for entry in args.traces:
        features, _, cycles = entry.partition("=")
        trace = tracekit.open(features)
        if not cycles:
            traces.append((trace, trace.targets("cycles")))
            continue
        targets = open_targets(cycles, order or ((args.column or args.name,)), len(trace))
        wanted = args.column or args.name
        if wanted not in targets.machines:
            raise UsageError(f"no machine {wanted}", path=cycles, hint="--column names it")
        traces.append((trace, targets.cycles[targets.machines.index(wanted)].astype(float)))
    parameters = load_machine(args.parameters) if args.parameters else None

    def report(name: str, misfit: float) -> None:
        print(f"{name}: misfit {misfit:.5f}", file=sys.stderr)

    found = tune(
        model, traces, args.name, parameters=parameters, threads=args.threads, report=report
    )
    write_machine(args.output, found)
    if args.json:
        print(json.dumps(found, indent=1))
        return 0
    for t in found["tuned_on"]:
        print(
            f"{t['path']}: {t['rows']:,} rows, error of total time {t['error']:+.1%}"
            " (it was tuned on this)"
        )
    print(f"wrote {args.output}")
    return 0
