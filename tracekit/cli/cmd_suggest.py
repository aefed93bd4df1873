"""``tracekit suggest``: which programs to run on a machine of unknown parameters, so that
``tracekit tune`` learns most; from features alone."""

from __future__ import annotations

import argparse
import contextlib
from typing import Any

from tracekit.cli.clustered import add_cluster, run_of, wanted
from tracekit.cli.common_options import add_quiet, add_threads, check_once
from tracekit.cli.numbers import at_least
from tracekit.cli.report import add_json, reported


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit suggest``."""
    p = sub.add_parser("suggest", help=help_text, description=__doc__)
    p.add_argument("traces", nargs="+", metavar="FEATS", help="features of each program")
    p.add_argument("-n", "--count", type=int, default=3, help="how many programs (3)")
    p.add_argument("--model", help="a model's folder; the shipped one unless given")
    add_threads(p)
    add_quiet(p)
    p.add_argument("--seed", type=at_least(0), default=0, help="of the random designs (0)")
    add_json(p)
    add_cluster(p)
    p.set_defaults(func=run, parser=p)


def run(args: argparse.Namespace) -> int:
    """Run ``tracekit suggest``; returns the exit code."""
    from tracekit.calibration import informations, most_informative
    from tracekit.errors import UsageError
    from tracekit.mixture import load_model

    if not 1 <= args.count < len(args.traces):
        raise UsageError(f"--count {args.count} of {len(args.traces)}: 1 to all but one")
    model = load_model(args.model)
    paths: list[str] = args.traces
    check_once(paths)
    with contextlib.ExitStack() as stack:
        spread = stack.enter_context(run_of(args)).spread if wanted(args) else None
        programs = informations(
            paths, model.cores, args.seed, args.threads, spread, quiet=args.quiet
        )
    chosen = [paths[i] for i in most_informative(programs, args.count)]
    if not reported(args, {"suggested": chosen}):
        print("\n".join(chosen))
    return 0
