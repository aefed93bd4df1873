"""``tracekit dse SPACE FEATS…``: every design of a grid, ranked by an objective."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tracekit.cli.clustered import add_cluster, run_of, wanted
from tracekit.cli.report import add_json, reported


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit dse``."""
    p = sub.add_parser("dse", help=help_text, description=__doc__)
    p.add_argument("space", help='JSON: {"base": machine, "vary": {"l1d_kb": [4, 8, …]}}')
    p.add_argument("files", nargs="+", help="feats.zst files or recordings of the programs")
    p.add_argument("--objective", default="time", help="an expression, the least is best")
    p.add_argument("--cost", help="an expression; a picture shows it against time")
    p.add_argument("--known", help="JSON: {program: {number of a design: cycles}}")
    p.add_argument("--top", type=int, default=5)
    p.add_argument("--plot", metavar="FILE", help="a picture: .png, .svg or .pdf")
    p.add_argument("--force", action="store_true", help="replace it")
    p.add_argument("--threads", type=int)
    p.add_argument("-q", "--quiet", action="store_true", help="no progress")
    add_json(p)
    add_cluster(p)
    p.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Run ``tracekit dse``; returns the exit code."""
    import tracekit
    from tracekit.errors import UsageError
    from tracekit.exploration import explore, load_known, load_space
    from tracekit.plotting import check_picture

    if args.top < 0:
        raise UsageError(f"--top {args.top}: 0 or more")
    if args.cost and not args.plot:
        raise UsageError("--cost is drawn against time: give --plot too")
    check_picture(args.plot, args.force)
    space = load_space(args.space)
    known = load_known(args.known) if args.known else {}
    traces = {Path(f).name.split(".")[0]: tracekit.open(f) for f in args.files}
    how = (space, traces, args.objective, known, args.threads)
    if wanted(args):
        with run_of(args) as tasks:
            result = explore(*how, spread=tasks.spread)
    else:
        result = explore(*how, quiet=args.quiet)
    if args.plot:
        from tracekit.exploration import dse_plot

        dse_plot(result, space, args.cost, args.plot, force=args.force)
    if reported(args, result):
        return 0
    for note in result["notes"]:
        print(f"note: {note}")
    for name, p in result["programs"].items():
        print(f"{name}: {args.objective}")
        for rank, k in enumerate(p["ranking"][: args.top], 1):
            design = ", ".join(f"{a} {b}" for a, b in space.points[k].items())
            print(f"  {rank}. {design:<32}{p['cycles'][k]:>14,.0f} cycles  {p['objective'][k]:.6g}")
    return 0
