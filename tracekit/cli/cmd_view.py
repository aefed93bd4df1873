"""``tracekit view FEATS --rows A:B -o FILE``: the pipeline, row by row, for Konata or Perfetto.

Of gem5's own stage ticks where the trace has them; with --machine of a simulated core, which
walks all rows before the window, too; with --both of both, and by how much they differ.
"""

from __future__ import annotations

import argparse
from typing import Any

from tracekit.cli.common_options import add_force, add_threads
from tracekit.cli.report import add_json, reported


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit view``."""
    p = sub.add_parser("view", help=help_text, description=__doc__)
    p.add_argument("file", help="a feats.zst")
    p.add_argument("--rows", default="0:1000", metavar="A:B", help="rows shown (0:1000)")
    p.add_argument(
        "-m",
        "--machine",
        metavar="NAME|FILE",
        help="a simulated core: a machine's name, or its JSON",
    )
    p.add_argument(
        "--both", action="store_true", help="gem5's own stages beside those of --machine"
    )
    p.add_argument(
        "--to",
        choices=("kanata", "perfetto"),
        help="from the output's name unless given: .json is perfetto",
    )
    p.add_argument(
        "-o", "--output", required=True, metavar="FILE", help="what is written; .gz: compressed"
    )
    add_force(p)
    add_threads(p)
    add_json(p)
    p.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Run ``tracekit view``; returns the exit code."""
    import gzip
    import json

    import tracekit
    from tracekit.cli.machine_option import named_machine
    from tracekit.errors import UsageError
    from tracekit.io.output import check_output, write_bytes
    from tracekit.view import beside, kanata, of_simulation, of_trace, perfetto

    first, colon, last = args.rows.partition(":")
    if not (colon and first.isdecimal() and last.isdecimal() and len(args.rows) < 40):
        raise UsageError(f"--rows {args.rows}: A:B, as 0:1000")
    if args.both and not args.machine:
        raise UsageError("--both needs --machine: beside gem5's own stages")
    check_output(args.output, args.force)
    other = None
    with tracekit.open(args.file) as trace:
        begin, end = int(first), min(int(last), len(trace))
        if int(last) <= begin:
            raise UsageError(f"--rows {args.rows}: none; A is less than B")
        if end <= begin:
            raise UsageError(f"--rows {args.rows}: the trace has {len(trace):,}")
        if args.both or not args.machine:
            view = of_trace(trace, begin, end)
        if args.machine:
            machine = named_machine(args.machine, trace.arch).to_dict()
            core = of_simulation(trace, machine, begin, end, args.threads)
            view, other = beside(view, core) if args.both else (core, None)
    packed = args.output.endswith(".gz")
    json_named = args.output.removesuffix(".gz").endswith(".json")
    to = args.to or ("perfetto" if json_named else "kanata")
    text = "".join(kanata(view, other)) if to == "kanata" else json.dumps(perfetto(view, other))
    # Both viewers read gzip's; without the time the same rows are the same bytes.
    data = gzip.compress(text.encode(), mtime=0) if packed else text.encode()
    write_bytes(args.output, data, force=args.force)
    shown = [v for v in (view, other) if v is not None]
    last_cycle = max(v.last_cycle for v in shown)
    title = "; ".join(v.title for v in shown)
    result: dict[str, Any] = {
        "path": args.file,
        "output": args.output,
        "to": to,
        "title": title,
        "begin": begin,
        "rows": end - begin,
        "cycles": last_cycle,
        "marks": [
            {
                "of": v.of,
                "track": m.track,
                "row": begin + m.row,
                "begin": m.begin,
                "end": m.end,
                "what": m.what,
            }
            for v in shown
            for m in v.marks
        ],
    }
    if other is not None and (view.retired[-1] >= 0):
        result["later"] = int(other.retired[-1] - view.retired[-1])
    if not reported(args, result):
        late = (
            f"; the last row retires {result['later']:+,} cycles later" if "later" in result else ""
        )
        print(f"{args.output}: {title}, {last_cycle:,} cycles ({to}){late}")
    return 0
