"""``tracekit runs FOLDER``: what was asked of a run, what is done, what failed and why, and the
summary over its traces; of a folder of runs a line each."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tracekit.cli.common_options import add_force
from tracekit.cli.report import add_json, reported
from tracekit.progress import clock
from tracekit.text import counted, note, shown

if TYPE_CHECKING:
    from tracekit.cluster import RunState


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit runs``."""
    p = sub.add_parser("runs", help=help_text, description=__doc__)
    p.add_argument(
        "folder", help="the folder of --run, an extraction's output folder, or a folder of such"
    )
    p.add_argument("--top", type=int, default=20, metavar="N", help="lines of each list (20)")
    p.add_argument("--summary", metavar="FILE.parquet", help="a line a trace, as Parquet")
    add_force(p)
    add_json(p)
    p.set_defaults(func=run, parser=p)


def run(args: argparse.Namespace) -> int:
    """Run ``tracekit runs``; returns the exit code."""
    from tracekit.cluster import runs_in, state_of, table, write_parquet
    from tracekit.errors import UsageError
    from tracekit.io.output import check_output
    from tracekit.io.remote import public_name

    if args.top < 0:
        raise UsageError(f"--top {args.top}: 0 or more")
    if args.summary is not None:
        if not public_name(args.summary).lower().endswith(".parquet"):
            raise UsageError(f"--summary {shown(public_name(args.summary))}: a name in .parquet")
        check_output(args.summary, args.force)
    if runs := runs_in(args.folder):
        if args.summary is not None:
            raise UsageError("--summary is of one run", path=args.folder, hint=f"{runs[0]}, say")
        return _list(args, runs)
    state = state_of(args.folder)
    if args.summary is not None:
        write_parquet(state.traces, args.summary, force=args.force)
    if reported(args, state.to_dict):
        return 0
    print(_line(state))
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


def _line(state: RunState) -> str:
    """How a run stands."""
    tasks = len(state.asked["tasks"])
    kinds = ", ".join(shown(r.get("kind", "?")) for r in state.asked["requests"])
    return (
        f"{state.path}: {counted(tasks, 'task')} ({kinds}): {len(state.done)} done, "
        f"{len(state.failed)} failed, {len(state.missing)} missing"
    )


def _list(args: argparse.Namespace, runs: Sequence[str]) -> int:
    """A line a run; one that cannot be read is told, and the others are shown."""
    from tracekit.cluster import state_of
    from tracekit.errors import TracekitError

    states, failed = [], []
    for run in runs:
        try:
            states.append(state_of(run))
        except TracekitError as e:
            failed.append(e)
    if not reported(args, lambda: {"path": args.folder, "runs": [s.to_dict() for s in states]}):
        for state in states[: args.top]:
            print(_line(state))
        if len(states) > args.top:
            print(f"({args.top} of {counted(len(states), 'run')}; --top shows more)")
    for error in failed:
        note(error)
    return 1 if failed else 0
