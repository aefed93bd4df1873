"""``tracekit measure``: this computer's row of the table, from the times of programs that run on
it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tracekit.cli.common_options import add_force, add_quiet
from tracekit.cli.events import Events
from tracekit.cli.numbers import at_least
from tracekit.cli.report import add_json, reported
from tracekit.cpus import check_processor
from tracekit.errors import UsageError
from tracekit.text import counted


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit measure``."""
    p = sub.add_parser("measure", help=help_text, description=__doc__)
    p.add_argument("manifest", help="programs to step once and to time (JSON)")
    p.add_argument("--name", required=True, help="of the machine")
    p.add_argument(
        "-o", "--output", required=True, help="the machine's file, for predict --machine"
    )
    add_force(p)
    p.add_argument("--model", help="a model's folder; the shipped one of X86 unless given")
    p.add_argument("--work", help="folder for recordings, which are made once (NAME.measured)")
    p.add_argument("--runs", type=at_least(1), default=15, help="timings of each program (15)")
    p.add_argument("--cpu", type=at_least(0), help="the processor that programs are pinned to")
    add_quiet(p)
    add_json(p)
    p.set_defaults(func=run, parser=p)


def run(args: argparse.Namespace) -> int:
    """Run ``tracekit measure``; returns the exit code."""
    from tracekit.calibration import load_natives, machine_of, measure, write_machine
    from tracekit.io.output import check_output
    from tracekit.mixture import load_model

    check_output(args.output, args.force)
    model = load_model(args.model, "x86")
    programs = load_natives(args.manifest)
    try:
        check_processor(args.cpu)
    except UsageError as e:
        raise UsageError(f"--cpu: {e.message}") from None
    work = Path(args.work or f"{args.name}.measured")
    folder = Path(args.manifest).resolve().parent
    with Events("measure", quiet=args.quiet) as report:
        measured = measure(
            model, programs, folder, work, runs=args.runs, cpu=args.cpu, report=report
        )
    found = machine_of(model, measured, args.name)
    write_machine(args.output, found, force=args.force)
    if not reported(args, found):
        _print_measured(found, args.output)
    return 0


def _print_measured(found: dict[str, Any], output: str) -> None:
    from tracekit.calibration import BASELINES

    out = found["leave_one_out"]
    programs = found["measured_on"]
    spread = sorted(p["spread"] for p in programs)[len(programs) // 2]
    print(
        f"{counted(len(programs), 'program')}, "
        f"{counted(sum(p['instructions'] for p in programs), 'instruction')}; "
        f"timings of one program spread by {spread:.1%} (median)"
        + ("" if found["hardware_counters"] else "; the kernel offers no hardware counters")
    )
    print(f"starting a process costs {1e3 * out['start_seconds']:.2f} ms here")
    mix = sorted(found["mix"].items(), key=lambda kv: -kv[1])
    print(
        "mix: " + (", ".join(f"{v:.2f} {k}" for k, v in mix[:6]) or "none") + " …" * (len(mix) > 6)
    )
    print(f"{'each program by all others':<32}{'mean':>8}{'median':>8}{'without the start':>20}")
    for name in ("mix", *BASELINES):
        e = out[name]
        net = f"{e['net_mean']:>12.1%}{e['net_median']:>8.1%}"
        print(f"  {name:<30}{e['mean']:>8.1%}{e['median']:>8.1%}{net}")
    better = [b for b in BASELINES if out["mix"]["mean"] < out[b]["mean"]]
    worse = [b for b in BASELINES if b not in better]
    if worse:
        print(
            f"note: the mix does not beat {' and '.join(worse)}: do not rely on this machine's row"
        )
    print(f"wrote {output}")
