"""``tracekit tune``: a new machine's row of the table from one or a few short traces, the model
frozen."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tracekit.cli.clustered import add_cluster, run_of, wanted
from tracekit.cli.common_options import add_force, add_quiet, add_threads, check_once
from tracekit.cli.events import Events
from tracekit.cli.numbers import at_least
from tracekit.cli.report import add_json, reported
from tracekit.text import counted


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit tune``."""
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
    add_force(p)
    p.add_argument("--name", required=True, help="of the machine")
    p.add_argument("--column", help="which machine of the joined files it is (--name unless given)")
    p.add_argument(
        "--parameters",
        metavar="NAME|FILE",
        help="the machine's JSON, or its name, where its parameters are known",
    )
    p.add_argument(
        "--known",
        action="append",
        metavar="NAME=VALUE,…",
        help="parameters that are known where others are not: the search keeps them, like "
        "width=4,l2_kb=1024,clock_ghz=3.2 (repeatable)",
    )
    p.add_argument("--model", help="a model's folder; the shipped one unless given")
    add_threads(p)
    add_quiet(p)
    p.add_argument(
        "--seed",
        type=at_least(0),
        default=0,
        help="of the cores that are drawn without --parameters (0)",
    )
    add_json(p)
    add_cluster(p)
    p.set_defaults(func=run, parser=p)


def run(args: argparse.Namespace) -> int:
    """Run ``tracekit tune``; returns the exit code."""
    import tracekit
    from tracekit.calibration import tune, write_machine
    from tracekit.cli.unused import refuse
    from tracekit.dataset import Dataset, read_cycles
    from tracekit.io.output import check_output
    from tracekit.mixture import load_model
    from tracekit.sim import machine_notes
    from tracekit.sim.description import named_or_file

    if args.parameters:
        refuse(args, ("seed", "known"), "with --parameters: no core is drawn")
    known = _known(args.known or [])
    check_once([entry.partition("=")[0] for entry in args.traces])
    check_output(args.output, args.force)
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
    parameters = named_or_file(args.parameters, Path()) if args.parameters else None

    options: dict[str, Any] = {"threads": args.threads, "seed": args.seed}
    with contextlib.ExitStack() as stack:
        if wanted(args):
            options["spread"] = stack.enter_context(run_of(args)).spread
        report = stack.enter_context(Events("search", "steps", quiet=args.quiet))
        found = tune(
            model,
            traces,
            args.name,
            parameters=parameters,
            known=known,
            report=report,
            **options,
        )
    write_machine(args.output, found, force=args.force)
    if reported(args, found):
        return 0
    for note in machine_notes(parameters or {}):
        print(f"note: {note}")
    for t in found["tuned_on"]:
        print(
            f"{t['path']}: {counted(t['rows'], 'row')}, error of total time {t['error']:+.1%}"
            " (it was tuned on this)"
        )
    print(f"wrote {args.output}")
    return 0


def _known(given: Sequence[str]) -> dict[str, float | int | str]:
    """Of NAME=VALUE: numbers where they are numbers."""
    from tracekit.errors import UsageError

    out: dict[str, float | int | str] = {}
    for text in ",".join(given).split(",") if given else ():
        name, sign, value = (part.strip() for part in text.partition("="))
        if not (name and sign and value):
            raise UsageError(f"--known {text!r}: NAME=VALUE, like width=4")
        if name in out:
            raise UsageError(f"--known: {name} is given twice")
        try:
            number = float(value)
        except ValueError:
            out[name] = value
        else:
            out[name] = int(number) if number.is_integer() else number
    return out
