"""``tracekit compare MODEL... FEATS...``: which design retires each instruction first, which is the
best, and how they rank by total time; with ``--manifest`` beside the truth."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tracekit.cli.common_options import add_force, add_quiet, add_threads
from tracekit.cli.error_tables import print_intervals
from tracekit.cli.events import Events
from tracekit.cli.instruction_options import add_instruction_options
from tracekit.cli.report import add_json, reported
from tracekit.cli.unused import refuse
from tracekit.text import counted


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit compare``."""
    p = sub.add_parser("compare", help=help_text, description=__doc__)
    p.add_argument("items", nargs="+", metavar="MODEL|FEATS", help="model folders, feats.zst files")
    p.add_argument("--manifest", help="programs with cycles on the models' machines")
    p.add_argument(
        "--split",
        choices=("blocks", "families"),
        default="blocks",
        help="--manifest: held-out blocks of seen programs, or the test's families",
    )
    p.add_argument(
        "--without", nargs=2, action="append", default=[], metavar=("A", "B"),
        help="a pair that is not pooled",
    )  # fmt: skip
    add_instruction_options(p)
    p.add_argument(
        "--cache", help="--manifest: keep the programs' arrays in this folder, for the next time"
    )
    add_threads(p)
    add_quiet(p)
    p.add_argument("--plot", metavar="FILE", help="a picture: .png, .svg or .pdf")
    add_force(p)
    add_json(p)
    p.set_defaults(func=run, parser=p)


def run(args: argparse.Namespace) -> int:
    """Run ``tracekit compare``; returns the exit code."""
    from tracekit.errors import UsageError
    from tracekit.neuroscalar import CycleModel
    from tracekit.plotting import check_picture

    check_picture(args.plot, args.force)
    if args.plot and not args.manifest:
        raise UsageError("--plot shows predictions beside the truth: --manifest")
    folders = [i for i in args.items if Path(i).is_dir()]
    files = [i for i in args.items if i not in folders]
    if not folders:
        raise UsageError("no model folder is named")
    if bool(files) == bool(args.manifest):
        raise UsageError("name feats.zst files, or a manifest of programs with --manifest")
    if not args.manifest:
        refuse(args, ("split", "sample", "without", "cache", "force"), "without --manifest")
    elif args.split != "families":
        refuse(args, ("sample",), "without --split families")
    if not args.plot:
        refuse(args, ("force",), "without --plot")
    models = [
        CycleModel(
            f,
            device=args.device,
            dtype=args.dtype,
            threads=args.threads,
            use_history=not args.no_history,
        )
        for f in folders
    ]
    machines = [m for model in models for m in model.machines]
    if len(set(machines)) != len(machines) or len(machines) < 2:
        raise UsageError("two or more different machines are needed to compare")
    result = _truth(args, models) if args.manifest else _files(models, files)
    if args.plot:
        from tracekit.neuroscalar import compare_plot

        compare_plot(result, args.plot, force=args.force)
    from tracekit.neuroscalar import finite

    if reported(args, lambda: finite(result)):
        return 0
    if args.manifest:
        _print_truth(result)
    else:
        _print_files(result)
    return 0


def _truth(args: argparse.Namespace, models: Any) -> dict[str, Any]:
    from tracekit.dataset import load_manifest
    from tracekit.io.output import cache_folder
    from tracekit.neuroscalar import evaluate

    with cache_folder(args.cache) as cache, Events("compare", quiet=args.quiet) as report:
        return evaluate(
            models,
            load_manifest(args.manifest),
            args.split,
            cache,
            sample=args.sample,
            without=[tuple(w) for w in args.without],
            report=report,
        )


def _files(models: Any, files: list[str]) -> dict[str, Any]:
    import numpy as np

    from tracekit import TraceFile
    from tracekit.neuroscalar import CYCLES, MEAN, ab, known_residuals, program_intervals

    out: dict[str, Any] = {"machines": [m for model in models for m in model.machines]}
    residuals = known_residuals([model.folder for model in models])
    programs: dict[str, Any] = {}
    for path in files:
        with TraceFile(path) as trace:
            found = [model.predict(trace) for model in models]
        cycles, mean = (np.hstack([f[o] for f in found]) for o in (CYCLES, MEAN))
        programs[path] = found_of = ab.predictions(out["machines"], cycles, mean)
        found_of |= program_intervals(out["machines"], found_of["cycles"], residuals)
    return {**out, "programs": programs}


def _print_files(result: dict[str, Any]) -> None:
    for path, p in result["programs"].items():
        print(f"{path}: {counted(p['rows'], 'instruction')}")
        for m in p["ranking"]:
            best, half = p["best"][m], p["half_interval"][m]
            wide = f"±{half / p['cycles'][m]:>6.1%}" if half is not None else "±     ?"
            wide += "~" if p["tied_with_fastest"][m] and m != p["ranking"][0] else " "
            print(f"  {m:<16}{p['cycles'][m]:>16,.0f} cycles {wide} fastest on {best:6.1%}")
        for pair in p["pairs"]:
            a, b = pair["pair"]
            print(
                f"  {a} : {b}  {pair['fewer']:.1%} fewer cycles, {pair['equal']:.1%} equal, "
                f"{pair['more']:.1%} more"
            )
        if any(h is None for h in p["half_interval"].values()):
            print("  ±: not known; tracekit evaluate --save-residuals keeps what models are off by")
        else:
            print("  ±: 95 %, of the model; ~: perhaps as fast as the fastest")


def _print_truth(result: dict[str, Any]) -> None:
    c = result["ab"]
    kind = "seen programs, held-out blocks" if result["seen"] else "unseen families"
    print(
        f"{kind}: {counted(c['rows'], 'instruction')} of "
        f"{counted(len(result['programs']), 'program')}"
    )
    print(f"{'pair':<26}{'differ':>8}{'match':>8}{'major.':>8}{'strict':>8}{'major.':>8}")
    for p in c["pairs"]:
        name = " : ".join(p["pair"])
        print(
            f"{name:<26}{p['differ']:8.1%}{p['match']:8.1%}{p['match_majority']:8.1%}"
            f"{p['strict']:8.1%}{p['strict_majority']:8.1%}"
        )
    q = c["pooled"]
    left = ", ".join(" : ".join(w) for w in q["without"])
    print(
        f"{'pooled':<34}{q['match']:8.1%}{q['match_majority']:8.1%}{q['strict']:8.1%}"
        f"{q['strict_majority']:8.1%}" + (f"  without {left}" if left else "")
    )
    print(
        f"an instruction's ranking: Kendall {c['kendall']:.3f}, all pairs right {c['full']:.1%}, "
        f"best design {c['best']:.1%} (always {c['best_constant_machine']}: "
        f"{c['best_constant']:.1%})"
    )
    print(
        f"designs by a program's total time: Kendall tau {c['program_kendall_mean']:.3f} (mean); "
        "programs by time an instruction: "
        + ", ".join(f"{m} {v:.3f}" for m, v in c["time_kendall"].items())
    )
    print(
        "pairs of designs whose totals are apart by more than "
        + ", ".join(
            f"{g['above']:.1%} ({g['share']:.0%} of them): {g['kendall']:.3f}"
            for g in c["program_kendall_by_difference"]
        )
    )
    print_intervals(result["intervals"])
    if "ab_of_cores" in result:
        c = result["ab_of_cores"]
        q = c["pooled"]
        print(
            f"simulated cores alone: match {q['match']:.1%}, strict {q['strict']:.1%}, Kendall "
            f"{c['kendall']:.3f}, all pairs right {c['full']:.1%}, best design {c['best']:.1%}; "
            f"designs by total time {c['program_kendall_mean']:.3f}, by gap "
            + ", ".join(
                f"{g['above']:.1%}: {g['kendall']:.3f}" for g in c["program_kendall_by_difference"]
            )
        )
    for name, e in result["programs"].items():
        p = e["ab"]
        print(
            f"  {name:<18} strict {p['pooled']['strict']:6.1%} Kendall {p['kendall']:.3f} full "
            f"{p['full']:6.1%} best {p['best']:6.1%} tau {p['program_kendall']:6.3f}"
        )
