"""``tracekit neutrino``: a model on NeuroScalar's accelerator: cycles, buffers, speed."""

from __future__ import annotations

import argparse
from typing import Any

from tracekit.cli.report import add_json, reported


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit neutrino``."""
    p = sub.add_parser("neutrino", help=help_text, description=__doc__)
    p.add_argument("model", help="a model folder")
    p.add_argument(
        "--clock-mhz",
        type=float,
        default=325.0,
        help="the paper gives none; its speed asks for 325",
    )
    p.add_argument("--tiles", type=int, default=1, help="1 to 8")
    p.add_argument(
        "--batch", type=int, default=1, help="instructions of separate streams side by side (1)"
    )
    p.add_argument(
        "--port",
        type=int,
        default=0,
        help="bytes of weights a cycle from the global buffer; 0: no limit (0)",
    )
    p.add_argument(
        "--table3",
        action="store_true",
        help="also the paper's own numbers, held against each other",
    )
    add_json(p)
    p.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Run ``tracekit neutrino``; returns the exit code."""
    # imported late: the other commands need no Numba
    from tracekit.infer import neutrino
    from tracekit.model import load_card

    machine = neutrino.Machine(
        clock_hz=args.clock_mhz * 1e6, tiles=args.tiles, batch=args.batch, port=args.port
    )
    found = neutrino.schedule(load_card(args.model), machine)
    rows = neutrino.layers(found.steps, machine)
    out = found.to_dict()
    out["layers"] = rows
    if args.table3:
        out["table3"] = neutrino.table3()
    if reported(args, out):
        return 0
    for row in rows:
        name, macs, cycles, used = (row[k] for k in ("layer", "macs", "cycles", "utilisation"))
        print(f"{name:<40} {macs:>9,} MACs {cycles:>8,} cycles, lanes in use {used:.1%}")
    cycles, used = out["cycles_per_instruction"], found.utilisation
    print(f"an instruction: {cycles:,.0f} cycles, lanes in use {used:.1%}")
    for name, part in out["buffers"].items():
        fits = "" if part["fits"] else ": does not fit"
        print(f"{name.replace('_', ' ')}: {part['bytes']:,} of {part['of']:,} bytes{fits}")
    print(
        f"{machine.tiles} tile(s) at {args.clock_mhz:g} MHz: "
        f"{found.instructions_per_s:,.0f} instructions/s, an epoch in {out['epoch_s']:.2f} s, "
        f"1 instruction of {out['host_instructions_per_predicted']:,.0f} at 3000 MIPS"
    )
    for note in found.notes:
        print(f"note: {note}")
    for row in out.get("table3", ()):
        mark = "agrees" if row["consistent"] else "DIFFERS"
        claim, paper, derived = row["claim"], row["paper"], row["derived"]
        print(f"{mark}: {claim}: paper {paper}, derived {derived} ({row['note']})")
    return 0
