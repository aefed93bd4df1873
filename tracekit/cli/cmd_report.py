"""``tracekit report FEATS --machines M… -o report.html``: one file that shows where a program's
time goes on machines, and why.

It needs no network and no other file.  At most 200 functions and 2,000 instructions are in it, the
costliest ones; it counts the others.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import Any

from tracekit.cli.report import add_json, reported


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit report``."""
    p = sub.add_parser("report", help=help_text, description=__doc__)
    p.add_argument("file", help="a feats.zst")
    p.add_argument(
        "--machines",
        nargs="+",
        required=True,
        metavar="M",
        help="JSON files, or names; the first one's limits are shown",
    )
    p.add_argument("-o", "--output", required=True, metavar="HTML")
    p.add_argument("--title", help="instead of the file's name")
    p.add_argument("--binary", metavar="ELF", help="the program, of a trace that does not tell it")
    p.add_argument("--force", action="store_true", help="replace an existing file")
    p.add_argument("--threads", type=int)
    add_json(p, "its numbers as JSON too (docs/json.md)")
    p.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Run ``tracekit report``; returns the exit code."""
    import tracekit
    from tracekit.cli.machine_files import machine_named
    from tracekit.io.output import check_output, write_bytes
    from tracekit.report import collect, page

    check_output(args.output, args.force)
    with tracekit.open(args.file) as trace:
        arch = str(trace.index.get("arch", ""))
        machines = [machine_named(m, arch) for m in args.machines]
        data = collect(
            trace,
            machines,
            binary=args.binary,
            title=args.title,
            command=shlex.join(["tracekit", *sys.argv[1:]]),
            threads=args.threads,
        )
    write_bytes(args.output, page(data).encode(), force=args.force)
    if not reported(args, data):
        print(f"{args.output}: {data['machines'][0]['paragraph']}")
    return 0
