"""``tracekit diff A B``: two traces of one program, row by row and column by column."""

from __future__ import annotations

import argparse
from typing import Any

from tracekit.analysis import Diff, diff_files
from tracekit.cli.numbers import at_least
from tracekit.cli.report import add_json, reported
from tracekit.schema import NEVER
from tracekit.text import counted

#: Of the shorter trace's rows, the part that two traces of one program share at least.
_SAME = 0.2


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit diff``."""
    p = sub.add_parser(
        "diff",
        help=help_text,
        description="Aligns two feats.zst of one program (a simulator's and a recording, two "
        "versions, two machines) by their pcs and tells, for each column, on how many rows they "
        "agree, and which instructions differ most.",
    )
    p.add_argument("a", help="a feats.zst")
    p.add_argument("b", help="a feats.zst of the same program")
    p.add_argument("--features", metavar="SET", help="compare a feature set's columns instead")
    p.add_argument("--binary", metavar="ELF", help="the program, to name places")
    p.add_argument(
        "--examples", type=at_least(0), default=3, metavar="N", help="for each column (3)"
    )
    p.add_argument(
        "--gaps", type=at_least(0), default=10, metavar="N", help="unmatched parts shown (10)"
    )
    add_json(p)
    p.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Run ``tracekit diff``; returns the exit code."""
    d = diff_files(
        args.a,
        args.b,
        features_of=args.features,
        binary=args.binary,
        examples=max(args.examples, 0),
    )
    if not reported(args, {"a": args.a, "b": args.b, **d.as_dict()}):
        print("\n".join(_lines(args, d)))
    return 0


def _lines(args: argparse.Namespace, d: Diff) -> list[str]:
    out = [f"a {args.a}: {counted(d.rows_a, 'row')}", f"b {args.b}: {counted(d.rows_b, 'row')}"]
    inside = [end - begin for begin, end in (d.span_a, d.span_b)]
    out.append(
        f"{counted(d.matched, 'row')} in both, from row {d.span_a[0]:,} of a and {d.span_b[0]:,} "
        "of b on; "
        f"there {inside[0] - d.matched:,} in a only and {inside[1] - d.matched:,} in b only"
    )
    if (share := d.matched / max(1, min(d.rows_a, d.rows_b))) < _SAME:
        out.insert(0, f"hardly the same program: {share:.1%} of the shorter one's rows are matched")
    for gap in d.gaps[: max(args.gaps, 0)]:
        sizes = [end - begin for begin, end in (gap.a, gap.b)]
        out.append(f"  a {gap.a[0]:,} + {sizes[0]:,}, b {gap.b[0]:,} + {sizes[1]:,}: {gap.place}")
    if moves := ", ".join(f"{k:+#x} ({counted(n, 'row')})" for k, n in d.moves.items() if k):
        out.append(f"memory lies elsewhere in b by {moves}")
    for name, c in d.columns.items():
        out.append(f"{name:<22}{100 * c.share:9.4f} %{c.rows - c.equal:>12,} of {c.rows:,} differ")
        out += [
            f"    {e.rows:,} x {e.pc:#x} {e.text}: {_value(name, e.a)} and {_value(name, e.b)}"
            for e in c.examples
        ]
    return out


def _value(name: str, v: Any) -> str:
    if "distance" in name and v == NEVER:
        return "never"
    return f"{v:#x}" if isinstance(v, int) and v > 1 << 20 else str(v)
