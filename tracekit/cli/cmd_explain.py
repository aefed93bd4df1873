"""``tracekit explain A [B]``: where a difference of time sits, by cause and by function.

    tracekit explain feats.zst --machine old.json new.json     one program on two machines
    tracekit explain old.zst new.zst --machine m.json          two versions of a program

Functions of two versions belong together by name, lines by their function and number within it;
without symbols, blocks of instructions do that are the same but for addresses.  Both waterfalls
add up to the difference without remainder.
"""

from __future__ import annotations

import argparse
import contextlib
from typing import TYPE_CHECKING, Any

from tracekit.cli.common_options import add_threads
from tracekit.cli.intermixed import Traces
from tracekit.cli.report import add_json, reported
from tracekit.text import counted, note

if TYPE_CHECKING:
    from tracekit.causes.explain import Difference


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit explain``."""
    p = sub.add_parser(
        "explain",
        help=help_text,
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.__class__ = Traces
    p.add_argument("files", nargs="+", metavar="FEATS", help="one feats.zst, or two")
    p.add_argument(
        "-m",
        "--machine",
        nargs="+",
        action="extend",
        required=True,
        metavar="NAME|FILE",
        help="one machine, or two: names, or JSON files",
    )
    p.add_argument(
        "--by",
        choices=("function", "line", "instruction"),
        default="function",
        help="the kind of place to list (function)",
    )
    p.add_argument(
        "--binary",
        nargs="+",
        action="extend",
        metavar="ELF",
        help="the program, or both versions of it",
    )
    p.add_argument("--top", type=int, default=12, metavar="N", help="parts shown (12)")
    add_threads(p)
    add_json(p)
    p.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Run ``tracekit explain``; returns the exit code."""
    import tracekit
    from tracekit.causes.explain import explain
    from tracekit.cli.machine_option import named_machine
    from tracekit.cli.trace_notes import tell_limits
    from tracekit.errors import UsageError

    binaries = args.binary or [None]
    for name, values in (
        ("FEATS", args.files),
        ("--machine", args.machine),
        ("--binary", binaries),
    ):
        if len(values) > 2:
            raise UsageError(f"{name}: one or two")
    if len(args.files) == len(args.machine) == 1:
        raise UsageError("nothing to compare: give a second feats.zst, or a second machine")
    if args.top < 0:
        raise UsageError(f"--top {args.top}: 0 or more")
    with contextlib.ExitStack() as stack:
        traces = [stack.enter_context(tracekit.open(f)) for f in args.files]
        a, b = traces[0], traces[-1]
        for trace in traces:
            tell_limits(trace)
        machines = [
            named_machine(m, t.arch).to_dict()
            for m, t in zip((args.machine[0], args.machine[-1]), (a, b), strict=True)
        ]
        found = explain(
            a,
            b,
            *machines,
            by=args.by,
            binary_a=binaries[0],
            binary_b=binaries[-1],
            threads=args.threads,
        )
    for path, why in found.problems.items():
        note(f"{path}: {why}: no names from it")
    names = [
        f"{f} on {m.get('name', 'machine')}"
        for f, m in zip((args.files[0], args.files[-1]), machines, strict=True)
    ]
    if reported(args, lambda: _json(names, found)):
        return 0
    _print(names, found, args.top)
    return 0


def _json(names: list[str], d: Difference) -> dict[str, Any]:
    return {
        "a": {"name": names[0], "picoseconds": d.picoseconds[0], "rows": d.rows[0]},
        "b": {"name": names[1], "picoseconds": d.picoseconds[1], "rows": d.rows[1]},
        "moved": d.moved,
        "by": d.by,
        "causes": d.causes,
        "places": d.places,
        "parts": d.parts,
        "problems": d.problems,
    }


def _print(names: list[str], d: Difference, top: int) -> None:
    a, b = d.picoseconds
    print(f"{names[0]}: {a * 1e-6:,.3f} us, {counted(d.rows[0], 'row')}")
    print(f"{names[1]}: {b * 1e-6:,.3f} us, {counted(d.rows[1], 'row')}")
    change = f" ({d.moved / a:+.2%})" if a else ""
    print(f"difference: {d.moved * 1e-6:+,.3f} us{change}")
    for kind, parts in d.tables(top).items():
        _waterfall(kind, parts, a, b)


def _waterfall(kind: str, parts: list[tuple[str, int]], a: int, b: int) -> None:
    """From A's time to B's, a line a part."""
    print(f"\nby {kind}{'':>10}{'us':>14}{'of A':>9}  from A to B")
    at, span = a, max(a, b, 1)
    for name, n in parts:
        low, high = sorted((at, at + n))
        begin = round(30 * low / span)
        bar = " " * begin + ("+" if n > 0 else "-") * max(1, round(30 * high / span) - begin)
        share = n / a if a else 0.0
        print(f"{n * 1e-6:>+24,.3f}{share:>+9.2%}  |{bar[:40]:<36}| {name}")
        at += n
    print(f"{(at - a) * 1e-6:>+24,.3f}  together")
