"""``tracekit evaluate MANIFEST --model FOLDER``: errors of trained models, on programs that they
have seen and on programs that they have not."""

from __future__ import annotations

import argparse
from typing import Any

from tracekit.cli.error_tables import HEAD, line, programs
from tracekit.cli.report import add_json, reported
from tracekit.cli.unused import refuse


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit evaluate``."""
    p = sub.add_parser("evaluate", help=help_text, description=__doc__)
    p.add_argument("manifest")
    p.add_argument(
        "--model",
        nargs="+",
        required=True,
        metavar="FOLDER",
        help="models of train perfvec, or one of train neuroscalar",
    )
    p.add_argument("--threads", type=int)
    add_json(p)
    p.add_argument_group("models of whole programs (train perfvec)").add_argument(
        "--rows", type=int, help="only the first N rows of each program"
    )
    n = p.add_argument_group("models of single instructions (train neuroscalar)")
    n.add_argument("--work", help="keep what is computed once in this folder, for the next time")
    n.add_argument(
        "--split",
        choices=("blocks", "families", "validation"),
        default="blocks",
        help="held-out blocks of seen programs, the test's families, or validation blocks",
    )
    n.add_argument("--sample", type=int, default=1, help="families: every Nth block of 5000 rows")
    n.add_argument("--no-history", action="store_true", help="leave the training programs' tables")
    n.add_argument("--dtype", default="auto", help="of the engine")
    n.add_argument("--device", default="auto", help="auto, cpu, cuda or torch (torch on the CPU)")
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
        refuse(args, ("rows",), "for models of single instructions")
        if args.split != "families":
            refuse(args, ("sample",), "without --split families")
        return _instructions(args)
    own = ("work", "split", "sample", "no_history", "dtype", "device")
    refuse(args, own, "without a model of single instructions")
    manifest = load_manifest(args.manifest)
    result = [evaluate_model(m, manifest, args.rows, args.threads) for m in args.model]
    if not reported(args, result):
        _models(result)
    return 0


def _instructions(args: argparse.Namespace) -> int:
    from tracekit.dataset import load_manifest
    from tracekit.io.output import cache_folder
    from tracekit.neuroscalar import CycleModel, evaluate, finite

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
    for name, e in result["programs"].items():
        for m, answers in e["machines"].items():
            s = {**answers["model"], "total_error": answers["model"]["total"]}
            print(f"{name:<16}{m:<8}"[:24].ljust(24) + "".join(f"{s[c]:8.3f}" for c in columns))
    return 0


def _models(result: list[dict[str, Any]]) -> None:
    print(HEAD)
    for m in result:
        for kind in ("unseen", "seen"):
            if m[kind] is not None:
                line(f"{m['model'][-22:]}, {kind}", m[kind])
    for m in result:
        if m["unseen"] is not None:
            print(f"{m['model']}: programs of unseen families")
            programs(m["unseen"])
