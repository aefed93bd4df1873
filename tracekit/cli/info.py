"""``tracekit info``: what a file holds, where it came from, and what was wrong with its input."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from tracekit.store.summary import summary


def add_parser(sub: Any, help_text: str) -> None:
    p = sub.add_parser("info", help=help_text, description=__doc__)
    p.add_argument("file")
    p.add_argument("--json", action="store_true", help="as JSON (docs/json.md)")
    p.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    if _is_recording(args.file):
        return _recording(args)
    s = summary(args.file)
    if args.json:
        print(json.dumps(s, indent=1))
        return 0
    print(
        f"{s['path']}: {s['rows']:,} rows ({s['level']}-level), "
        f"{s['static_instructions']:,} static, {s['arch']}"
    )
    print(f"size       {s['bytes']:,} bytes, {s['bytes_per_row']:.2f} a row")
    if s["timed"]:
        print(
            f"time       {s['ticks']:,} ps, {s['cycles']:,.0f} cycles of {s['clock_ps']} ps, "
            f"CPI {s['cpi']:.3f}"
        )
    else:
        print("time       none: the trace has no O3PipeView lines")
    if t := s.get("targets"):
        print(f"targets    {t['rows']:,} rows on {len(t['machines'])} machines")
    for name in ("squashed", "trapped", "untimed", "taken", "memory_accesses"):
        print(f"{name.replace('_', ' '):<11}{s[name]:,}")
    if s["trapped_unknown"]:
        print("           O3PipeView alone cannot show trapped instructions")
    i = s["input"]
    print(f"input      {i['path']}, {i['bytes']:,} bytes, xxh3-128 {i['xxh3_128']}")
    print(f"made by    tracekit {s['tracekit']}, format {s['format']}")
    if s["anomalies"]:
        print("anomalies  " + ", ".join(f"{a['count']} x {k}" for k, a in s["anomalies"].items()))
    if s["binary"]:
        print(f"binary     {_binary(s['binary'])}")
    print("mix        " + ", ".join(f"{k} {100 * v:.1f} %" for k, v in list(s["mix"].items())[:10]))
    print(
        "columns    "
        + ", ".join(f"{k} {v / s['rows']:.3f}" for k, v in s["column_bytes"].items())
        + " bytes a row"
    )
    return 0


def _binary(counts: dict[str, int]) -> str:
    """The machine code of --binary against the text (tracekit.isa.binary.BinaryCounts)."""
    fields = ("op", "flags", "branch", "src", "dst", "condition_codes", "access_size")
    differ = ", ".join(f"{k} {counts[k]:,}" for k in fields if counts[k]) or "none"
    left = ", ".join(f"{counts[k]:,} {k}" for k in ("micro", "no_code", "undecodable") if counts[k])
    return (
        f"{counts['compared']:,} of {counts['statics']:,} static compared with the machine code"
        + (f" ({left})" if left else "")
        + f"; they differ in: {differ}"
    )


def _is_recording(path: str) -> bool:
    from tracekit.streams.tks import is_tks

    try:
        with Path(path).open("rb") as f:
            return is_tks(f.read(16))
    except OSError:
        return False  # the usual way tells what is wrong


def _recording(args: argparse.Namespace) -> int:
    from tracekit.streams.tks import format_summary
    from tracekit.streams.tks import summary as of_recording

    s = of_recording(args.file)
    print(json.dumps(s, indent=1) if args.json else format_summary(s))
    return 0
