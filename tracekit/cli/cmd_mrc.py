"""``tracekit mrc``: miss ratios of fully associative LRU caches of every size, from a feats.zst."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tracekit
from tracekit.analysis import mrc
from tracekit.cli.common_options import add_force, add_quiet
from tracekit.cli.report import add_json, reported
from tracekit.cli.trace_notes import tell_missing_flags
from tracekit.cli.unused import refuse
from tracekit.io.output import check_output
from tracekit.plotting import check_picture
from tracekit.text import counted

#: What is asked for on the command line -> what counts it.
STREAMS = {"data": mrc.data_counts, "fetch": mrc.fetch_counts}


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit mrc``."""
    p = sub.add_parser("mrc", help=help_text, description=__doc__)
    p.add_argument("file", nargs="+", help="feats.zst files, or recordings (.tks)")
    p.add_argument(
        "--stream",
        choices=[*STREAMS, "both"],
        default="both",
        help="loads and stores, instruction fetches, or both (default)",
    )
    p.add_argument("--plot", metavar="FILE", help="a picture: .png, .svg or .pdf")
    add_force(p)
    p.add_argument("--exact", action="store_true", help="every size, not only powers of two")
    add_quiet(p)
    add_json(p)
    p.set_defaults(func=run, parser=p)


def run(args: argparse.Namespace) -> int:
    """Run ``tracekit mrc``; returns the exit code."""
    if args.plot is None:
        refuse(args, ("force",), "without --plot")
    else:
        check_picture(args.plot, args.force)
        for path in args.file:
            check_output(args.plot, args.force, path)
    wanted = list(STREAMS) if args.stream == "both" else [args.stream]
    found = [_curves(path, wanted, args.exact, args.quiet) for path in args.file]
    if args.plot:
        several = len(found) > 1
        drawn = {
            f"{Path(f.path).name}: {n}" if several else n: c
            for f in found
            for n, c in f.exact.items()
        }
        title = "" if several else Path(found[0].path).name
        size = found[0].line_size
        mrc.plot(drawn, args.plot, line_size=size, title=title, force=args.force)

    def result() -> dict[str, Any]:
        return _entry(found[0]) if len(found) == 1 else {"files": [_entry(f) for f in found]}

    if reported(args, result):
        return 0
    for f in found:
        if len(found) > 1:
            print(f.path)
        for name, c in f.curves.items():
            print(
                f"{name}: {counted(c.accesses, 'access', 'accesses')}, {100 * c.cold:.3f} % "
                "first touches"
            )
            print(f"  an access is {mrc.ACCESSES[name]}")
            for lines, ratio in zip(c.lines.tolist(), c.ratios.tolist(), strict=True):
                print(f"  {mrc.size_name(lines * f.line_size):>12}  {100 * ratio:8.4f} %")
    return 0


@dataclass
class _Curves:
    """Of one file: ``curves`` as they are told, ``exact`` ones as they are drawn."""

    path: str
    line_size: int
    curves: dict[str, mrc.MissRatioCurve]
    exact: dict[str, mrc.MissRatioCurve]


def _curves(path: str, wanted: list[str], every: bool, quiet: bool) -> _Curves:
    with tracekit.open(path) as f:
        if "data" in wanted:
            tell_missing_flags(f)
        line_size = 1 << f.index["options"]["line_bits"]
        counts = {name: STREAMS[name](f, quiet=quiet) for name in wanted}
    exact = {name: c.curve() for name, c in counts.items()}
    last = max(int(c.lines[-1]) for c in exact.values())
    sizes = [1 << k for k in range((last - 1).bit_length() + 1)]
    curves = exact if every else {n: counts[n].curve(sizes) for n in wanted}
    return _Curves(path, line_size, curves, exact)


def _entry(f: _Curves) -> dict[str, Any]:
    out: dict[str, Any] = {"path": f.path, "line_size": f.line_size}
    out["access"] = {n: mrc.ACCESSES[n] for n in f.curves}
    return {**out, **{n: mrc.as_dict(c) for n, c in f.curves.items()}}
