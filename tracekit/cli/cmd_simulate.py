"""``tracekit simulate``: a trace's time on machines that are described by their parameters, with
nothing fitted."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tracekit.cli.clustered import add_cluster, run_of, wanted
from tracekit.cli.common_options import add_force, add_quiet, add_threads
from tracekit.cli.intermixed import Traces
from tracekit.cli.report import add_json, reported
from tracekit.cli.sampling_options import OPTIONS, add_sampling, plan_of, print_seed, seed_of
from tracekit.cli.unused import refuse

if TYPE_CHECKING:
    from tracekit import SimulationResult
    from tracekit.sim import SamplePlan, SimulatedMachine


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit simulate``."""
    p = sub.add_parser("simulate", help=help_text, description=__doc__)
    p.__class__ = Traces
    p.add_argument("file", nargs="+", help="feats.zst files, or recordings (.tks)")
    p.add_argument(
        "-m",
        "--machine",
        nargs="+",
        action="extend",
        metavar="NAME|FILE",
        help="machines: names that `tracekit machines` lists, or JSON files (gem5's parameters, or "
        "a real processor's); unless given the one that the trace was made on, which traces of the "
        "gem5 plug-in tell",
    )
    p.add_argument("--by-range", type=int, metavar="N", help="times of N equal ranges of rows, too")
    p.add_argument("--causes", action="store_true", help="what the cycles were spent on")
    p.add_argument(
        "-o", "--output", metavar="FILE.npy", help="cycles of every row, float32 [rows, machines]"
    )
    add_force(p)
    p.add_argument(
        "--segments",
        type=int,
        metavar="ROWS",
        help="walk the trace in pieces of so many rows, each begun warm, at the same time: faster "
        "where machines are fewer than threads, and not to the cycle",
    )
    add_threads(p)
    add_quiet(p)
    add_json(p)
    add_cluster(p)
    add_sampling(p)
    p.set_defaults(func=run, parser=p)


def run(args: argparse.Namespace) -> int:
    """Run ``tracekit simulate``; returns the exit code."""
    import tracekit
    from tracekit.cli.machine_option import any_named_machine, told_apart
    from tracekit.cli.trace_notes import tell_limits
    from tracekit.errors import UsageError
    from tracekit.hardware import form_notes
    from tracekit.io.arrays import npy_name
    from tracekit.io.output import check_output
    from tracekit.sim import simulate_samples, simulate_segments
    from tracekit.text import note

    if args.output is not None:
        if len(args.file) > 1:
            raise UsageError("-o is of one file")
        args.output = npy_name(args.output)
        check_output(args.output, args.force, args.file[0])
    if wanted(args):
        refuse(args, ("output", "force"), "with --cluster or --run: rows' cycles are not kept")
    machines = args.machine
    if machines is not None:
        machines = told_apart(machines, any_named_machine)
    if args.segments is not None:
        whole = ("by_range", "causes", "output", "force", *OPTIONS, "cluster", "run")
        refuse(args, whole, "with --segments")
    plan = plan_of(args)
    if plan is not None:
        refuse(args, ("by_range", "causes", "output", "force"), "of samples")
    if wanted(args):
        return _many(args, machines, plan)
    results = []
    for path in args.file:
        with tracekit.open(path) as trace:
            tell_limits(trace)
            if plan is not None:
                results.append(
                    simulate_samples(trace, machines, plan, threads=args.threads, quiet=args.quiet)
                )
                continue
            if args.segments is not None:
                results.append(
                    simulate_segments(
                        trace, machines, args.segments, threads=args.threads, quiet=args.quiet
                    )
                )
                continue
            results.append(
                tracekit.simulate(
                    trace,
                    machines,
                    ranges=args.by_range,
                    causes=args.causes,
                    output=args.output,
                    force=args.force,
                    threads=args.threads,
                    quiet=args.quiet,
                )
            )
            for line in form_notes(trace, machines or ()):
                note(line)
    _print(args, results, plan)
    return 0


def _many(
    args: argparse.Namespace,
    machines: Sequence[SimulatedMachine] | None,
    plan: SamplePlan | None,
) -> int:
    from tracekit.cluster import simulate_many
    from tracekit.errors import TracekitError
    from tracekit.text import note

    with run_of(args) as tasks:
        found = simulate_many(
            tasks, args.file, machines, ranges=args.by_range, causes=args.causes, samples=plan
        )
    failed = [r for r in found if isinstance(r, TracekitError)]
    _print(args, [r for r in found if not isinstance(r, TracekitError)], plan)
    for e in failed:
        note(e)
    return 1 if failed else 0


def _print(
    args: argparse.Namespace, results: list[SimulationResult], plan: SamplePlan | None
) -> None:
    import numpy as np

    if reported(args, lambda: [{**r.to_dict(), **seed_of(plan)} for r in results]):
        return
    for r in results:
        print(r)
        if args.by_range is not None:
            ranges = [f"{a}:{b}" for a, b in zip(r.breaks, r.breaks[1:], strict=False)]
            _table("cycles by range of rows", r.machines, ranges, r.cycles_by_range.tolist())
        if r.causes is not None:
            used = np.asarray(r.causes.any(axis=0))
            names = [n for n, u in zip(r.cause_names, used.tolist(), strict=True) if u]
            _table("cycles by cause", r.machines, names, r.causes[:, used].T.tolist())
    print_seed(plan)


def _table(
    title: str, machines: Sequence[SimulatedMachine], names: list[str], cycles: list[list[float]]
) -> None:
    """A line for each name, a column for each machine."""
    print(f"{title:<28}" + "".join(f"{m.name:>14}" for m in machines))
    for name, row in zip(names, cycles, strict=True):
        print(f"  {name:<26}" + "".join(f"{c:>14,.0f}" for c in row))
