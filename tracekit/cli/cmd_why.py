"""``tracekit why FEATS --machine M``: why a program takes the time that it takes on a machine, and
what would help.

The stack of causes is docs/causes.md's.  The changes are tried on evenly spread rows where the
trace is long; the output says how many.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from tracekit.cli.common_options import add_force, add_threads
from tracekit.cli.report import add_json, reported
from tracekit.text import note

if TYPE_CHECKING:
    from tracekit.causes.why import Costly, Why

WIDTH = 40


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit why``."""
    p = sub.add_parser("why", help=help_text, description=__doc__)
    p.add_argument("file", help="a feats.zst")
    p.add_argument(
        "-m", "--machine", required=True, metavar="NAME|FILE", help="a machine's name, or its JSON"
    )
    p.add_argument("--binary", metavar="ELF", help="the program, of a trace that does not tell it")
    p.add_argument("--top", type=int, default=10, metavar="N", help="lines shown (10)")
    p.add_argument("--no-changes", action="store_true", help="without what would help: faster")
    p.add_argument("--folded", metavar="FILE", help="function;cause cycles, for flame graphs")
    p.add_argument(
        "--by-row", metavar="FILE", help="each row's cycles by cause (.parquet or .arrow)"
    )
    p.add_argument(
        "--phases", type=int, default=20, metavar="N", help="ranges of rows in the JSON (20)"
    )
    add_force(p)
    add_threads(p)
    add_json(p)
    p.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Run ``tracekit why``; returns the exit code."""
    import tracekit
    from tracekit.causes.why import why
    from tracekit.cli.machine_option import named_machine
    from tracekit.cli.trace_notes import tell_limits
    from tracekit.errors import UsageError
    from tracekit.exporting import check_causes_output, export_causes
    from tracekit.io.output import check_output, write_bytes

    if args.top < 0:
        raise UsageError(f"--top {args.top}: 0 or more")
    if args.phases < 1:
        raise UsageError(f"--phases {args.phases}: 1 or more")
    if args.folded:
        check_output(args.folded, args.force)
    if args.by_row:
        check_causes_output(args.by_row, args.file, force=args.force)
    with tracekit.open(args.file) as trace:
        machine = named_machine(args.machine, trace.arch).to_dict()
        tell_limits(trace)
        found = why(
            trace,
            machine,
            binary=args.binary,
            changes=not args.no_changes,
            phases=max(1, min(args.phases, len(trace))),
            threads=args.threads,
        )
        if args.by_row:
            export_causes(trace, machine, args.by_row, force=args.force, threads=args.threads)
    if args.folded:
        write_bytes(args.folded, found.folded().encode(), force=args.force)
    for path, problem in found.problems.items():
        note(f"{path}: {problem}: no names from it")
    if reported(args, lambda: _json(args.file, found, args.top)):
        return 0
    _print(found, args.top)
    return 0


def _json(path: str, w: Why, top: int) -> dict[str, Any]:
    from tracekit.causes.names import CAUSES

    changes = None
    if w.changes is not None:
        changes = {
            "walked": w.changes.walked,
            "effects": [
                {"change": e.change.text, "set": dict(e.change.set), "gain": e.gain}
                for e in w.changes.best()
            ],
            "helpful": [e.change.text for e in w.helpful()],
        }
    return {
        "path": path,
        "machine": w.machine,
        "rows": w.stacks.rows,
        "cycles": w.cycles,
        "seconds": w.seconds,
        "paragraph": w.paragraph(),
        "causes": w.stacks.of(0),
        "groups": w.stacks.groups()[0],
        "phases": {
            "edges": w.stacks.breaks,
            "causes": [
                {c: n for c, n in zip(CAUSES, row, strict=True) if n}
                for row in w.stacks.phases[:, 0].tolist()
            ],
        },
        "by": w.by,
        "places": [_place(c) for c in w.places[:top]],
        "functions": [_place(c) for c in w.functions[:top]],
        "changes": changes,
        "problems": w.problems,
    }


def _place(c: Costly) -> dict[str, Any]:
    return {
        "name": c.name,
        "cycles": c.cycles,
        "rows": c.rows,
        "cause": c.cause,
        "of_cause": c.of_cause,
    }


def _print(w: Why, top: int) -> None:
    import textwrap

    from tracekit.causes.names import GROUP_TITLES, GROUPS, TITLES

    print(textwrap.fill(w.paragraph(), 100))
    total = w.cycles or 1.0
    print()
    stack, groups = w.stacks.of(0), w.stacks.groups()[0]
    longest = max(stack.values())
    for group, title in GROUP_TITLES.items():
        rows = [(c, n) for c, n in stack.items() if GROUPS[c] == group and n]
        if not rows:
            continue
        print(f"{title:<46}{groups[group] / total:7.1%}")
        for c, n in sorted(rows, key=lambda r: -r[1]):
            bar = "█" * round(WIDTH * n / longest) or "▏"
            print(f"  {TITLES[c]:<44}{n / total:7.1%}  {bar}")
    if top:
        print(f"\n{'cycles':>14}{'':>8}  by {w.by}; the cause of most but base")
    for p in w.places[:top]:
        share = f"{p.cycles / total:7.1%}"
        print(f"{p.cycles:>14,.0f}{share}  {p.name}: {TITLES[p.cause]} ({p.of_cause:,.0f})")
    if w.changes is not None and (helpful := w.helpful()):
        walked = w.changes.walked
        how = "" if walked == w.stacks.rows else f" (tried on {walked:,} evenly spread rows)"
        print(f"\nwhat would help most, one step of one parameter{how}:")
        for e in helpful:
            ((name, _),) = e.change.set.items()
            print(f"  {e.change.text:<28}{e.gain:7.1%} less time  (it is {w.machine.get(name, 0)})")
