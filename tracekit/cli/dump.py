"""``tracekit dump``: rows as CSV or JSON lines, for eyes and scripts."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from typing import Any

from tracekit import schema
from tracekit.errors import UsageError
from tracekit.store.reader import TraceFile

_BLOCK = 1 << 14


def add_parser(sub: Any, help_text: str) -> None:
    p = sub.add_parser("dump", help=help_text, description=__doc__)
    p.add_argument("file")
    p.add_argument("--rows", default=":", metavar="A:B", help="range of rows (all)")
    p.add_argument("--columns", help="comma-separated names; default: all, with the disassembly")
    p.add_argument("--json", action="store_true", help="JSON lines instead of CSV")
    p.set_defaults(func=run)


def parse_range(text: str, n: int) -> tuple[int, int]:
    """A:B with either left out, as in Python."""
    try:
        parts = [int(x) if x else None for x in text.split(":")]
        if len(parts) != 2:
            raise ValueError
    except ValueError:
        raise UsageError(f"--rows {text!r}: a range is A:B") from None
    begin, end, _ = slice(*parts).indices(n)
    return begin, max(begin, end)


def run(args: argparse.Namespace) -> int:
    with TraceFile(args.file) as f:
        begin, end = parse_range(args.rows, len(f))
        if args.columns:
            names = args.columns.split(",")
        else:
            timed = [
                n
                for n in f.columns
                if n not in schema.COLUMNS or schema.COLUMNS[n].domain != "timed" or f.timed
            ]
            names = [
                "row",
                *(n for n in timed if n not in ("static_id", "bits", "flags")),
                "disassembly",
            ]
        unknown = [n for n in names if n not in (*f.columns, "row", "disassembly", "op_name")]
        if unknown:
            raise UsageError(
                f"no column {unknown[0]!r}; there are "
                f"{', '.join((*f.columns, 'row', 'disassembly', 'op_name'))}"
            )
        table = csv.writer(sys.stdout, lineterminator="\n")
        if not args.json:
            table.writerow(names)
        for a in range(begin, end, _BLOCK):
            b = min(a + _BLOCK, end)
            values = [_values(f, n, a, b) for n in names]
            for row in zip(*values, strict=True):
                if args.json:
                    sys.stdout.write(json.dumps(dict(zip(names, row, strict=True))) + "\n")
                else:
                    table.writerow(row)
    return 0


def _values(f: TraceFile, name: str, a: int, b: int) -> list[Any]:
    if name == "row":
        return list(range(a, b))
    if name in ("disassembly", "op_name"):
        t = f.statics
        get = t.disassembly.__getitem__ if name == "disassembly" else t.op_name
        return [get(i) for i in f.column("static_id", (a, b)).tolist()]
    values = f.column(name, (a, b))
    return (values.astype(int) if values.dtype == bool else values).tolist()  # type: ignore[no-any-return]
