"""``tracekit runs FOLDER``: what was asked of a run, what is done, what failed and why, and the
summary over its traces."""

from __future__ import annotations

import argparse
from typing import Any

from tracekit.cli.common_options import add_force
from tracekit.cli.report import add_json, reported
from tracekit.progress import clock
from tracekit.text import counted, shown


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit runs``."""
    p = sub.add_parser("runs", help=help_text, description=__doc__)
    p.add_argument("folder", help="the folder of --run, or an extraction's output folder")
    p.add_argument("--top", type=int, default=20, metavar="N", help="lines of each list (20)")
    p.add_argument("--summary", metavar="FILE.parquet", help="a line a trace, as Parquet")
    add_force(p)
    add_json(p)
    p.set_defaults(func=run, parser=p)


def run(args: argparse.Namespace) -> int:
    """Run ``tracekit runs``; returns the exit code."""
    from tracekit.cluster import state_of, table, write_parquet
    from tracekit.errors import UsageError
    from tracekit.io.output import check_output
    from tracekit.io.remote import public_name

    if args.top < 0:
        raise UsageError(f"--top {args.top}: 0 or more")
    if args.summary is not None:
        if not public_name(args.summary).lower().endswith(".parquet"):
            raise UsageError(f"--summary {shown(public_name(args.summary))}: a name in .parquet")
        check_output(args.summary, args.force)
    state = state_of(args.folder)
    if args.summary is not None:
        write_parquet(state.traces, args.summary, force=args.force)
    if reported(args, state.to_dict):
        return 0
    tasks = len(state.asked["tasks"])
    kinds = ", ".join(shown(r.get("kind", "?")) for r in state.asked["requests"])
    print(
        f"{args.folder}: {counted(tasks, 'task')} ({kinds}): {len(state.done)} done, "
        f"{len(state.failed)} failed, {len(state.missing)} missing"
    )
    print(f"{counted(state.rows, 'row')}; the tasks took {clock(state.seconds)}, one after another")
    for name, why in state.reasons()[: args.top]:
        print(f"failed: {shown(name)}: {shown(why)}")
    if len(state.failed) > args.top:
        print(f"... and {len(state.failed) - args.top} more failed")
    for name in state.missing[: args.top]:
        print(f"missing: {shown(name)}")
    if len(state.missing) > args.top:
        print(f"... and {len(state.missing) - args.top} more missing")
    if state.traces:
        lines = table(state.traces, state.totals())
        shown_lines = [lines[0], *lines[1:-1][: args.top], lines[-1]]
        print("\n".join(shown(line) for line in shown_lines))
        if len(state.traces) > args.top:
            print(f"({args.top} of {counted(len(state.traces), 'trace')}; --top shows more)")
    return 0
