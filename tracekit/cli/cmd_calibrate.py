"""``tracekit calibrate``: measures the computer that it runs on, as a machine for predictions."""

from __future__ import annotations

import argparse
import contextlib
from typing import TYPE_CHECKING, Any

from tracekit.cli.common_options import add_force, add_quiet
from tracekit.cli.report import add_json, reported

if TYPE_CHECKING:
    from tracekit.hardware import Calibration


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit calibrate``."""
    p = sub.add_parser("calibrate", help=help_text, description=__doc__)
    p.add_argument("-o", "--output", required=True, metavar="FILE.json", help="the machine's file")
    add_force(p)
    p.add_argument("--name", default="here", help="of the machine (here)")
    p.add_argument(
        "--base",
        metavar="NAME|FILE",
        help="the real processor whose parameters stand for what cannot be measured; the known one "
        "that this computer has, unless given",
    )
    p.add_argument("--cpu", type=int, help="the processor to measure; the freest unless given")
    p.add_argument(
        "--seconds", type=float, default=180.0, help="to repeat what disagrees, at the most (180)"
    )
    p.add_argument("--plot", metavar="FILE", help="a picture: .png, .svg or .pdf")
    p.add_argument(
        "--no-cache",
        action="store_true",
        help="do not keep it as this computer's ($XDG_CACHE_HOME/tracekit/machines)",
    )
    add_quiet(p)
    add_json(p)
    p.set_defaults(func=run, parser=p)


def run(args: argparse.Namespace) -> int:
    """Run ``tracekit calibrate``; returns the exit code."""
    from tracekit.errors import UsageError
    from tracekit.hardware import HardwareMachine, calibrate, keep_machine
    from tracekit.io.output import check_output, write_json
    from tracekit.plotting import check_picture
    from tracekit.progress import Progress

    if not args.seconds > 0:
        raise UsageError(f"--seconds is {args.seconds:g}; more than 0")
    check_output(args.output, args.force)
    check_picture(args.plot, args.force)
    base = None if args.base is None else HardwareMachine.load(args.base)
    with contextlib.closing(Progress("calibrate", None, "steps", quiet=args.quiet)) as progress:
        found = calibrate(
            seconds=args.seconds,
            name=args.name,
            base=base,
            cpu=args.cpu,
            report=lambda done, of, label: progress.update(done, label),
        )
    write_json(args.output, found.machine.to_dict(), force=args.force)
    kept = None if args.no_cache else keep_machine(found.machine)
    if args.plot:
        found.plot(args.plot, force=args.force)
    if not reported(args, found.to_dict):
        _print(found)
        print(f"wrote {args.output}")
        if kept is not None:
            print(f"and {kept}, which tracekit predict finds by itself")
    return 0


def _print(found: Calibration) -> None:
    m, v = found.machine, found.machine.calibration or {}
    print(f"{m.cpu}: {m.summary}")
    print(
        f"  loads: {m.load_latency:g} cycles, L2 {m.l2_latency:g}, L3 {m.l3_latency:g}, "
        f"memory {m.memory_ns:.0f} ns at {m.memory_gb_s:.0f} GB/s"
    )
    print(
        f"  in flight: {m.rob} instructions, {m.int_registers} general and {m.vector_registers} "
        f"vector results, {m.store_queue} stores, {m.l1d_misses} misses"
    )
    if "mispredict_cycles" in v:
        print(
            f"  branches: {v['mispredict_cycles']:.1f} cycles a misprediction, "
            f"return stack {m.return_stack}"
        )
    print(
        f"  {len(m.measured)} instruction forms, {len(found.forms.unknown)} that this processor "
        f"does not have; {len(v)} other values; {found.seconds:.0f} s"
    )
    for note in found.notes:
        print(f"note: {note}")
