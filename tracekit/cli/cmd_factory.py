"""``tracekit factory PLAN``: ground truth for a dataset: gem5 runs a plan's programs on its
machines, each row's cycles are checked and joined, and a manifest for ``train`` is written."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

from tracekit.cli.clustered import add_cluster, run_of
from tracekit.cli.common_options import add_quiet
from tracekit.cli.report import add_json, reported
from tracekit.text import counted, note


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit factory``."""
    p = sub.add_parser("factory", help=help_text, description=__doc__)
    p.add_argument("plan", nargs="?", help="TOML or JSON (docs/factory.md)")
    p.add_argument("--gem5", metavar="PATH", help="gem5.opt, built with the plug-in")
    p.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        help="folder of the dataset; the same command goes on with what is missing",
    )
    p.add_argument("-j", "--jobs", type=int, metavar="N", help="simulations at once (1)")
    p.add_argument(
        "--dry-run", action="store_true", help="check the plan and show its machines; run nothing"
    )
    p.add_argument(
        "--write-patches",
        metavar="DIR",
        help="write the plug-in's sources and the scripts for gem5 there, and nothing else",
    )
    p.add_argument(
        "--force", action="store_true", help="replace what another plan, or --write-patches, wrote"
    )
    add_quiet(p)
    add_json(p)
    add_cluster(p)
    p.set_defaults(func=run, parser=p)


def run(args: argparse.Namespace) -> int:
    """Run ``tracekit factory``; returns the exit code."""
    from tracekit.errors import UsageError
    from tracekit.factory import load_plan

    if args.write_patches is not None:
        return _patches(args)
    if args.plan is None:
        raise UsageError("a plan is missing")
    if args.jobs is not None and (not 1 <= args.jobs <= 4096 or args.cluster is not None):
        raise UsageError(f"--jobs {args.jobs}: from 1 to 4096, and not with --cluster")
    if not args.dry_run and (args.gem5 is None or args.output is None):
        raise UsageError("--gem5 and --output say what runs the plan, and where it goes")
    plan = load_plan(args.plan)
    for name, told in plan.notes.items():
        for line in told:
            note(f"{name}: {line}")
    if args.dry_run:
        return _shown(args, plan)
    return _made(args, plan)


def _patches(args: argparse.Namespace) -> int:
    from tracekit.errors import UsageError
    from tracekit.plugin import write_plugin

    given = (args.plan, args.gem5, args.output, args.jobs, args.cluster, args.run)
    if any(g is not None for g in given) or args.dry_run:
        raise UsageError("--write-patches stands alone")
    folder = str(write_plugin(args.write_patches, force=args.force))
    if not reported(args, {"folder": folder}):
        print(f"scons build/RISCV/gem5.opt EXTRAS={folder}")
    return 0


def _shown(args: argparse.Namespace, plan: Any) -> int:
    from tracekit.sim import summary_of

    result = {
        "arch": plan.arch,
        "machines": [dict(m) for m in plan.machines],
        "programs": [
            {"name": p.name, "family": p.family, "instructions": p.instructions}
            for p in plan.programs
        ],
        "runs": len(plan.programs) * (len(plan.machines) + 1),
        "notes": [{"machine": m, "note": n} for m, told in plan.notes.items() for n in told],
    }
    if reported(args, result):
        return 0
    for m in plan.machines:
        print(f"{m['name']}: {summary_of(m)}")
    total = sum(p.skip + (p.warm + p.instructions) for p in plan.programs)
    print(
        f"{counted(len(plan.programs), 'program')}, {counted(len(plan.machines), 'machine')} of "
        f"{plan.arch}: "
        f"{counted(result['runs'], 'run')} of gem5, {counted(total, 'instruction')} each machine"
    )
    return 0


def _made(args: argparse.Namespace, plan: Any) -> int:
    from tracekit.cluster import make_ground_truth
    from tracekit.errors import TracekitError
    from tracekit.io.output import check_output, kept_folder
    from tracekit.progress import clock

    gem5 = shutil.which(args.gem5)
    if gem5 is None:
        raise TracekitError("is no program that can be run", path=args.gem5)
    place = Path(args.output)
    records = Path(args.run) if args.run is not None else place / "run"
    if not (records / "run.json").exists():
        check_output(place / "manifest.json", args.force)
    with kept_folder(place), run_of(args, str(records), at_once=args.jobs or 1) as tasks:
        gem5 = str(Path(gem5).resolve())
        made = make_ground_truth(tasks, plan, gem5, place, force=args.force)
    for program, machine, why in made.failed:
        note(f"{program}{f' on {machine}' if machine else ''} failed: {why}")
    for name, why in made.left_out:
        note(f"{name} is left out: {why}")
    if not reported(args, made.to_dict) and made.manifest is not None:
        print(
            f"{made.manifest}: {counted(len(made.programs), 'program')}, "
            f"{counted(len(made.machines), 'machine')}, "
            f"{counted(made.rows, 'row')}; {counted(made.runs, 'run')} of gem5, "
            f"{clock(made.seconds)} one after another"
        )
    return 1 if made.failed else 0
