"""``tracekit what-if FEATS --machine M CHANGE…``: the time of a program on a machine that is
changed.

    tracekit what-if feats.zst --machine m.json "rob=512" "l2_kb*2" "l1d_lat-1" "bp=perfect"

A change is NAME=VALUE, NAME*N, NAME/N, NAME+N or NAME-N of a machine's parameter, or NAME=perfect
of bp, l1i, l1d, l2, memory_latency, bandwidth, memory_order, latency, width, window, units and
mshrs.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from tracekit.cli.common_options import add_threads
from tracekit.cli.report import add_json, reported
from tracekit.text import counted

if TYPE_CHECKING:
    from tracekit.causes.places import Places
    from tracekit.causes.what_if import Effect, WhatIf


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit what-if``."""
    p = sub.add_parser(
        "what-if",
        help=help_text,
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("file", help="a feats.zst")
    p.add_argument("changes", nargs="*", metavar="CHANGE", help="of a parameter, e.g. rob=512")
    p.add_argument(
        "-m", "--machine", required=True, metavar="NAME|FILE", help="a machine's name, or its JSON"
    )
    p.add_argument("--together", action="store_true", help="and all changes at once")
    p.add_argument(
        "--all",
        action="store_true",
        help="every parameter one step down and up, and every perfect one",
    )
    p.add_argument("--rows", type=int, metavar="N", help="about N evenly spread rows tell (all)")
    p.add_argument(
        "--by",
        choices=("function", "line", "instruction"),
        default="function",
        help="the kind of place to list (function)",
    )
    p.add_argument("--binary", metavar="ELF", help="the program, of a trace that does not tell it")
    p.add_argument("--top", type=int, default=3, metavar="N", help="places, causes shown (3)")
    add_threads(p)
    add_json(p)
    p.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Run ``tracekit what-if``; returns the exit code."""
    import tracekit
    from tracekit.causes.changes import HINT, idealizations, parse_change, steps
    from tracekit.causes.places import Places
    from tracekit.causes.stacks import spread
    from tracekit.causes.what_if import what_if
    from tracekit.cli.machine_option import named_machine, tell_notes
    from tracekit.cli.trace_notes import tell_limits
    from tracekit.errors import UsageError

    if args.all and args.together:
        raise UsageError("--together is for named changes, not for --all")
    if not args.changes and not args.all:
        raise UsageError("no change", hint=f"{HINT}, or --all")
    if args.rows is not None and args.rows < 1000:
        raise UsageError(f"--rows {args.rows}: 1,000 or more")
    if args.top < 0:
        raise UsageError(f"--top {args.top}: 0 or more")
    with tracekit.open(args.file) as trace:
        arch = trace.arch
        machine = named_machine(args.machine, arch).to_dict()
        tell_limits(trace)
        changes: list[Any] = [parse_change(c, machine) for c in args.changes]
        if args.together:
            changes = args.changes  # each of what those before it made
        if args.all:
            changes += steps(machine, arch) + idealizations(machine)
        places = Places.of(trace, args.by, args.binary)
        found = what_if(
            trace,
            machine,
            changes,
            together=args.together,
            labels=places.labels,
            ranges=spread(len(trace), args.rows) if args.rows else None,
            threads=args.threads,
        )
    for e in found.effects if args.together else found.effects[: len(args.changes)]:
        tell_notes(e.change.text, e.change.apply(machine), machine)
    if reported(args, lambda: as_json(args.file, found, places)):
        return 0
    _print(args.file, found, places, args)
    return 0


def as_json(path: str, w: WhatIf, places: Places) -> dict[str, Any]:
    """docs/json.md, tracekit what-if --json."""
    return {
        "path": path,
        "machine": w.machine,
        "rows": w.rows,
        "walked": w.walked,
        "cycles": w.cycles,
        "seconds": w.seconds,
        "by": places.by,
        "effects": [
            {
                "change": e.change.text,
                "set": dict(e.change.set),
                "cycles": e.cycles,
                "seconds": e.seconds,
                "gain": e.gain,
                "causes": e.causes,
                "places": dict(_moved(e, places)),
            }
            for e in w.effects
        ],
    }


def _moved(e: Effect, places: Places) -> list[tuple[str, float]]:
    """Places whose time changes, by how much."""
    both = zip(places.names, e.places.tolist(), strict=True)
    return sorted(((n, s) for n, s in both if s), key=lambda p: -abs(p[1]))


def _print(path: str, w: WhatIf, places: Places, args: argparse.Namespace) -> None:
    from tracekit.causes.names import TITLES

    how = (
        counted(w.rows, "row")
        if w.walked == w.rows
        else f"{w.walked:,} of {counted(w.rows, 'row')}"
    )
    name = w.machine.get("name", "machine")
    print(f"{path} on {name}: {how}, {w.cycles:,.0f} cycles, {1e6 * w.seconds:,.1f} us")
    for e in w.best() if args.all else w.effects:
        print(f"{0.0 - e.gain:+8.2%} of the time  {e.change.text:<28}{e.cycles:>14,.0f} cycles")
        if args.all and not args.changes:
            continue
        for kind, moved in (
            ("cause", [(TITLES[c], s) for c, s in e.causes.items()]),
            (places.by, _moved(e, places)),
        ):
            for n, s in sorted(moved, key=lambda p: -abs(p[1]))[: args.top]:
                print(f"{'':10}{s / w.seconds:+8.2%}  {kind}: {n}")
