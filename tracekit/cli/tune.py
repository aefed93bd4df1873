"""``tracekit tune``: a new machine's row of the table from one or a few short traces, the model
frozen."""

from __future__ import annotations

import argparse
import json
from typing import Any


def add_parser(sub: Any, help_text: str) -> None:
    p = sub.add_parser("tune", help=help_text, description=__doc__)
    p.add_argument(
        "traces",
        nargs="+",
        metavar="FEATS[=CYCLES]",
        help="a timed feats.zst, a file that tracekit join wrote, or features and an array of "
        "cycles (.npy, .npy.zst)",
    )
    p.add_argument(
        "-o", "--output", required=True, help="the machine's file, for predict --machine"
    )
    p.add_argument("--name", required=True)
    p.add_argument("--column", help="which machine of the joined files it is (--name unless given)")
    p.add_argument("--parameters", help="the machine's JSON, where its parameters are known")
    p.add_argument("--model", help="a model's folder; the shipped one unless given")
    p.add_argument("--threads", type=int)
    p.add_argument("--json", action="store_true")
    p.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    import tracekit
    from tracekit.dataset import Dataset, read_cycles
    from tracekit.perfvec import load_model
    from tracekit.perfvec.tune import tune, write_machine
    from tracekit.reference import load_machine

    model = load_model(args.model)
    traces = []
    for entry in args.traces:
        path, _, array = entry.partition("=")
        trace = tracekit.open(path)
        if array:
            cycles = read_cycles(array, (args.name,), len(trace))[0]
        elif "targets" in trace.index:
            with Dataset(path) as data:
                cycles = data.cycles()[:, data.column_of(args.column or args.name)]
        else:
            cycles = trace.targets("cycles")
        traces.append((trace, cycles.astype(float)))
    parameters = load_machine(args.parameters) if args.parameters else None

    found = tune(model, traces, args.name, parameters=parameters, threads=args.threads)
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
