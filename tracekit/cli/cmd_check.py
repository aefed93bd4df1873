"""``tracekit check``: a trace's counts beside the statistics of the gem5 run that it was made by.

Exact counts are what both count in the same way: one that differs is an error of the trace, and the
exit code is 1.  Approximate ones say how far the trace's idea of a thing is from gem5's.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit.cli.common_options import add_threads
from tracekit.cli.report import add_json, reported

if TYPE_CHECKING:
    from tracekit import Machine, TraceFile


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit check``."""
    p = sub.add_parser("check", help=help_text, description=__doc__)
    p.add_argument("file", help="a feats.zst of a gem5 trace")
    p.add_argument("stats", help="gem5's statistics, m5out/stats.txt")
    p.add_argument("--cpu", help="which CPU of the run; the one that the trace names unless given")
    p.add_argument("--section", type=int, metavar="N", help="which of several dumps, from 1")
    p.add_argument(
        "-m",
        "--machine",
        metavar="NAME|FILE",
        help="the run's machine, for misses and simulated cycles; unless given the trace's own, or "
        "that of a config.ini or config.json beside the statistics",
    )
    add_threads(p)
    add_json(p)
    p.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Run ``tracekit check``; returns the exit code."""
    import tracekit
    from tracekit.analysis.gem5_statistics import compared, cpu_of, read_statistics

    statistics = read_statistics(args.stats, args.section)
    with tracekit.open(args.file) as trace:
        cpu = cpu_of(statistics, args.stats, args.cpu or trace.cpu)
        machine, caches = _machine(args, trace, cpu)
        known: dict[str, Any] = {}
        if machine is not None:
            found = tracekit.simulate(trace, machine, threads=args.threads)
            known = {
                "l1i": (machine.l1i_kb, machine.l1i_assoc),
                "l1d": (machine.l1d_kb, machine.l1d_assoc),
                "caches": caches,
                "simulated": float(found.cycles[0]),
            }
        counts = compared(trace, statistics, cpu, **known)
    wrong = [c for c in counts if c.wrong]

    def result() -> dict[str, Any]:
        return {
            "path": args.file,
            "stats": args.stats,
            "cpu": cpu,
            "machine": None if machine is None else machine.to_dict(),
            "equal": not wrong,
            "counts": [
                {
                    "name": c.name,
                    "statistic": c.statistic,
                    "trace": c.trace,
                    "gem5": c.gem5,
                    "difference": c.trace - c.gem5,
                    "exact": c.exact,
                    "why": c.why,
                }
                for c in counts
            ],
        }

    if not reported(args, result):
        width = max(12, *(len(c.name) + 1 for c in counts))
        print(f"{'count':<{width}}{'trace':>16}{'gem5':>16}{'difference':>12}")
        reasons = list(dict.fromkeys(c.why for c in counts if c.why))
        for c in counts:
            kind = "DIFFERS" if c.wrong else "exact"
            if not c.exact:
                kind = f"approximate ({reasons.index(c.why) + 1})"
            print(f"{c.name:<{width}}{c.trace:>16,.0f}{c.gem5:>16,.0f}{_shown(c):>12}  {kind}")
        for number, why in enumerate(reasons, 1):
            print(f"({number}) {why}")
        exact = sum(c.exact for c in counts)
        print(f"{cpu}: {exact - len(wrong)} of {exact} exact counts are equal")
        if machine is None:
            print("misses and simulated cycles need the machine: --machine")
    return 1 if wrong else 0


def _shown(count: Any) -> str:
    return "" if count.trace == count.gem5 else f"{count.difference:+.2%}"


def _machine(
    args: argparse.Namespace, trace: TraceFile, cpu: str
) -> tuple[Machine | None, dict[str, str]]:
    """The run's machine, None where nothing tells it, and gem5's names of its caches."""
    import tracekit
    from tracekit.errors import FormatError
    from tracekit.sim.gem5_config import gem5_caches, gem5_machine, is_gem5_config
    from tracekit.text import note

    folder = Path(args.stats).parent
    beside = [p for n in ("config.ini", "config.json") if (p := folder / n).is_file()]
    given = args.machine
    if given is None and (own := tracekit.Machine.of(trace)) is not None:
        return own, gem5_caches(beside[0], cpu) if beside else {}
    if given is None:
        if not beside:
            return None, {}
        try:
            parameters, notes = gem5_machine(beside[0], cpu)
            machine = tracekit.Machine.from_dict(parameters)
            caches = gem5_caches(beside[0], cpu)
        except FormatError as e:
            note(str(e))
            return None, {}
        for text in notes:
            note(text)
        return machine, caches
    caches = gem5_caches(given, cpu) if is_gem5_config(given) else {}
    return tracekit.Machine.load(given), caches
