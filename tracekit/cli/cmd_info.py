"""``tracekit info``: what a file holds, where it came from, and what was wrong with its input."""

from __future__ import annotations

import argparse
from typing import Any

from tracekit.cli.common_options import add_quiet
from tracekit.cli.report import add_json, reported
from tracekit.inputs.tks import format_summary, is_tks
from tracekit.inputs.tks import summary as of_recording
from tracekit.io.files import first_bytes
from tracekit.store.debug_flags import sentences
from tracekit.store.summary import summary
from tracekit.text import counted, shown


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit info``."""
    p = sub.add_parser("info", help=help_text, description=__doc__)
    p.add_argument("file", nargs="+", help="feats.zst files, or recordings (.tks)")
    add_quiet(p)
    add_json(p)
    p.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Run ``tracekit info``; returns the exit code."""
    found = [
        of_recording(path) if is_tks(first_bytes(path, 16)) else summary(path, quiet=args.quiet)
        for path in args.file
    ]
    if reported(args, found[0] if len(found) == 1 else {"files": found}):
        return 0
    for k, (path, s) in enumerate(zip(args.file, found, strict=True)):
        if k:
            print()
        if is_tks(first_bytes(path, 16)):
            print(format_summary(s))
        else:
            _print(s)
    return 0


def _print(s: dict[str, Any]) -> None:
    print(
        f"{s['path']}: {counted(s['rows'], 'row')} ({s['level']}-level), "
        f"{counted(s['instructions'], 'instruction')}, {s['static_instructions']:,} static, "
        f"{s['arch']}"
    )
    print(f"size       {s['bytes']:,} bytes, {s['bytes_per_row']:.2f} a row")
    if s["timed"]:
        print(
            f"time       {s['ticks']:,} ps, {s['cycles']:,.0f} cycles of {s['clock_ps']} ps, "
            f"CPI {s['cpi']:.3f}"
        )
    else:
        print("time       none: no row has times of a pipeline")
    if t := s.get("targets"):
        print(f"targets    {counted(t['rows'], 'row')} on {counted(len(t['machines']), 'machine')}")
    for name in ("squashed", "trapped", "untimed", "taken", "memory_accesses"):
        if s[name] is None and "all_cpus" not in s["source"]:
            continue  # the format has none
        value = "the text does not say which CPU's" if s[name] is None else f"{s[name]:,}"
        print(f"{name.removeprefix('memory_'):<11}{value}")
    if s["trapped_unknown"]:
        print("           O3PipeView alone cannot show trapped instructions")
    for text in sentences(s["source"].get("missing_debug_flags", ())):
        print(f"lacks      {shown(text)}")
    if isinstance(without := s["source"].get("without_accesses"), dict):
        for name, n in without.items():
            print(f"lacks      the accesses of {shown(n)} x {shown(name)}: QEMU does not show them")
    _print_machine(s)
    i = s["input"]
    print(f"input      {shown(i['path'])}, {i['bytes']:,} bytes, xxh3-128 {i['xxh3_128']}")
    print(f"made by    tracekit {shown(s['tracekit'])}, format {s['format']}")
    if s["anomalies"]:
        print(
            "anomalies  "
            + ", ".join(f"{a['count']} x {shown(k)}" for k, a in s["anomalies"].items())
        )
    if s["binary"]:
        print(f"binary     {_binary(s['binary'])}")
    print(
        "mix        "
        + ", ".join(f"{shown(k)} {100 * v:.1f} %" for k, v in list(s["mix"].items())[:10])
    )
    print(
        "columns    "
        + ", ".join(f"{k} {v / s['rows']:.3f}" for k, v in s["column_bytes"].items())
        + " bytes a row"
    )


def _print_machine(s: dict[str, Any]) -> None:
    """The machine that the trace was made on, where it says so."""
    if isinstance(machine := s.get("machine"), dict):
        from tracekit.sim.description import summary_of

        print(f"machine    {shown(machine.get('name'))}: {shown(summary_of(machine))}")
        for text in s.get("machine_notes") or []:
            print(f"           {shown(text)}")
    elif why := s.get("machine_unknown"):
        print(f"machine    none that is simulated: {shown(why)}")


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
