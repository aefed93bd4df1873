"""``tracekit evaluate MANIFEST --model FOLDER``: errors of trained models, on programs that they
have seen and on programs that they have not."""

from __future__ import annotations

import argparse
import contextlib
from typing import Any

from tracekit.cli.clustered import add_cluster, run_of, wanted
from tracekit.cli.common_options import add_quiet, add_threads
from tracekit.cli.error_tables import HEAD, line, number, print_intervals, programs
from tracekit.cli.instruction_options import add_instruction_options
from tracekit.cli.intermixed import Manifest
from tracekit.cli.numbers import at_least
from tracekit.cli.report import add_json, reported
from tracekit.cli.sampling_options import OPTIONS, add_sampling, plan_of, print_seed, seed_of
from tracekit.cli.unused import refuse


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit evaluate``."""
    p = sub.add_parser("evaluate", help=help_text, description=__doc__)
    p.__class__ = Manifest
    p.add_argument("manifest", help="JSON or TOML: programs, families, machines")
    p.add_argument(
        "--model",
        nargs="+",
        action="extend",
        required=True,
        metavar="FOLDER",
        help="models of train perfvec, or one of train neuroscalar",
    )
    add_threads(p)
    add_quiet(p)
    add_json(p)
    p.add_argument_group("models of whole programs (train perfvec)").add_argument(
        "--rows", type=at_least(1), help="only the first N rows of each program"
    )
    add_sampling(p)
    n = p.add_argument_group("models of single instructions (train neuroscalar)")
    n.add_argument("--work", help="keep what is computed once in this folder, for the next time")
    n.add_argument(
        "--split",
        choices=("blocks", "families", "validation"),
        default="blocks",
        help="held-out blocks of seen programs, the test's families, or validation blocks",
    )
    add_instruction_options(n)
    n.add_argument(
        "--save-residuals",
        action="store_true",
        help="families: keep in the model's folder what it is off by, for the intervals of compare",
    )
    add_cluster(p)
    p.set_defaults(func=run, parser=p)


def run(args: argparse.Namespace) -> int:
    """Run ``tracekit evaluate``; returns the exit code."""
    from tracekit.dataset import load_manifest
    from tracekit.errors import UsageError
    from tracekit.evaluation import evaluate_model
    from tracekit.neuroscalar import is_cycle_model

    cycle_models = [m for m in args.model if is_cycle_model(m)]
    if cycle_models:
        if len(args.model) > 1:
            raise UsageError(
                "a model of single instructions is evaluated alone", path=cycle_models[0]
            )
        refuse(args, ("rows", "cluster", "run", *OPTIONS), "for models of single instructions")
        if args.split != "families":
            refuse(args, ("sample", "save_residuals"), "without --split families")
        return _instructions(args)
    own = ("work", "split", "sample", "no_history", "dtype", "device", "save_residuals")
    refuse(args, own, "without a model of single instructions")
    plan = plan_of(args)
    if plan is not None:
        refuse(args, ("rows", "cluster", "run"), "of samples")
    manifest = load_manifest(args.manifest)
    with contextlib.ExitStack() as stack:
        spread = stack.enter_context(run_of(args)).spread if wanted(args) else None
        result = [
            evaluate_model(m, manifest, args.rows, args.threads, spread, plan) for m in args.model
        ]
    result = [{**r, **seed_of(plan)} for r in result]
    if not reported(args, result):
        _models(result)
        print_seed(plan)
    return 0


def _instructions(args: argparse.Namespace) -> int:
    from tracekit.dataset import load_manifest
    from tracekit.io.output import cache_folder
    from tracekit.neuroscalar import CycleModel, evaluate, finite, save_residuals

    model = CycleModel(
        args.model[0],
        device=args.device,
        dtype=args.dtype,
        threads=args.threads,
        use_history=not args.no_history,
    )
    manifest = load_manifest(args.manifest)
    with cache_folder(args.work) as work:
        result = evaluate([model], manifest, args.split, work, sample=args.sample)
    if args.save_residuals:
        save_residuals(result, args.model[0])
    if reported(args, finite(result)):
        return 0
    blocks = "validation" if result["split"] == "validation" else "held-out"
    print(f"seen programs, {blocks} blocks" if result["seen"] else "unseen families")
    columns = ("acc_round", "within_1", "within_2", "rel5", "mae", "rmse", "rae", "total_error")
    titles = ("Acc", "+-1", "+-2", "rel5", "MAE", "RMSE", "RAE", "total")
    for m, answers in result["machines"].items():
        print(f"{m:<24}" + "".join(f"{t:>8}" for t in titles))
        for name, s in answers.items():
            own = s["mean_of_programs"]
            print(f"  {name:<22}" + "".join(f"{own[c]:8.3f}" for c in columns))
    print_intervals(result["intervals"])
    for name, e in result["programs"].items():
        for m, answers in e["machines"].items():
            s = {**answers["model"], "total_error": answers["model"]["total"]}
            print(f"{name:<16}{m:<8}"[:24].ljust(24) + "".join(f"{s[c]:8.3f}" for c in columns))
    return 0


def _models(result: list[dict[str, Any]]) -> None:
    kinds = [(m, kind) for m in result for kind in ("unseen", "seen") if m[kind] is not None]
    for m, kind in kinds:
        for name, warnings in m[kind]["warnings"].items():
            for warning in warnings:
                print(f"warning: {name}: {warning}")
    print(HEAD)
    for m, kind in kinds:
        line(f"{m['model'][-22:]}, {kind}", m[kind])
        _intervals(m[kind]["intervals"])
    for m in result:
        if m["unseen"] is not None:
            print(f"{m['model']}: programs of unseen families")
            programs(m["unseen"])


def _intervals(i: dict[str, Any] | None) -> None:
    """How often intervals hold, their median half widths, and what they tell apart."""
    if i is None:
        return
    right = number(i["told_right"], ".1%")
    print(
        f"  95 % intervals: {i['held']:.1%} hold, median half width {i['median_half_width']:.1%} "
        f"(model {i['model_median_half_width']:.1%}, "
        f"sampling {i['sampling_median_half_width']:.1%}); "
        f"{i['told']:.0%} of pairs of machines told apart, {right} of these rightly"
    )
