"""``tracekit dump``: rows as CSV or JSON lines, for eyes and scripts."""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import sys
from collections.abc import Iterable
from typing import Any

import tracekit
from tracekit import TraceFile, schema
from tracekit.cli.report import add_json
from tracekit.errors import UsageError
from tracekit.io.output import OutputFile, replacing

_BLOCK = 1 << 14


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit dump``."""
    p = sub.add_parser("dump", help=help_text, description=__doc__)
    p.add_argument("file", help="a feats.zst")
    p.add_argument("--rows", default=":", metavar="A:B", help="range of rows (all)")
    p.add_argument("--columns", help="comma-separated names; default: all, with the disassembly")
    add_json(p, "JSON lines instead of CSV")
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
    """Run ``tracekit dump``; returns the exit code."""
    with tracekit.open(args.file) as f:
        begin, end = parse_range(args.rows, len(f))
        if begin == end and len(f):
            raise UsageError(f"--rows {args.rows}: nothing is there of {len(f):,} rows")
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
        blocks = (
            list(zip(*(_values(f, n, a, min(a + _BLOCK, end)) for n in names), strict=True))
            for a in range(begin, end, _BLOCK)
        )
        with contextlib.ExitStack() as outputs:
            file = None
            if args.json_file is not None:
                file = outputs.enter_context(replacing(args.json_file, force=True))
            _write(names, blocks, args.json, file)
    return 0


def _write(
    names: list[str], blocks: Iterable[list[Any]], as_json: bool, file: OutputFile | None
) -> None:
    """CSV or JSON lines to standard output, and JSON lines into ``file``."""
    table = csv.writer(sys.stdout, lineterminator="\n")
    if not as_json:
        table.writerow(names)
    for rows in blocks:
        lines = ""
        if as_json or file is not None:
            lines = "".join(json.dumps(dict(zip(names, r, strict=True))) + "\n" for r in rows)
        if file is not None:
            file.write(lines.encode())
        if as_json:
            sys.stdout.write(lines)
        else:
            table.writerows(rows)


def _values(f: TraceFile, name: str, a: int, b: int) -> list[Any]:
    if name == "row":
        return list(range(a, b))
    if name in ("disassembly", "op_name"):
        t = f.statics
        get = t.disassembly.__getitem__ if name == "disassembly" else t.op_name
        return [get(i) for i in f.column("static_id", (a, b)).tolist()]
    values = f.column(name, (a, b))
    return (values.astype(int) if values.dtype == bool else values).tolist()  # type: ignore[no-any-return]
