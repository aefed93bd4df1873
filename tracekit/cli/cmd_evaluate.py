"""``tracekit evaluate MANIFEST``: errors on programs and machines that were not seen, beside the
baselines."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tracekit.cli.events import Programs
from tracekit.cli.report import add_json, reported
from tracekit.cli.unused import refuse


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit evaluate``."""
    p = sub.add_parser("evaluate", help=help_text, description=__doc__)
    p.add_argument("manifest")
    p.add_argument("--work", help="keep what is computed once in this folder, for the next time")
    p.add_argument("--folds", type=int, default=5, help="folds by family")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--rows", type=int, help="only the first N rows of each program")
    p.add_argument("--threads", type=int)
    p.add_argument(
        "--trained",
        nargs="+",
        metavar="FOLDER",
        help="models of train perfvec instead of the recipe: on families that they have not seen",
    )
    p.add_argument("--tuning", type=int, default=3, help="programs that a new machine is tuned on")
    p.add_argument(
        "--random-designs",
        type=int,
        default=0,
        help="cores beside the known ones, as tune draws them (128)",
    )
    p.add_argument("--ablate", action="store_true", help="what each part of the recipe is worth")
    add_json(p)
    p.add_argument(
        "--plot", help="a picture of each program's error (.png, .svg; needs matplotlib)"
    )
    p.add_argument("--force", action="store_true", help="replace it")
    n = p.add_argument_group("models of single instructions (train neuroscalar)")
    n.add_argument("--model", help="a model's folder; else PerfVec's recipe is cross-validated")
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
    recipe = ("folds", "seed", "tuning", "random_designs", "ablate", "plot")
    if args.model:
        names = (*recipe, "rows", "trained")
        refuse(args, names, "for models of single instructions (--model)")
        if args.split != "families":
            refuse(args, ("sample",), "without --split families")
        return _instructions(args)
    instructions = ("split", "sample", "no_history", "dtype", "device")
    refuse(args, instructions, "without a model of single instructions (--model)")
    if args.trained:
        refuse(args, (*recipe, "work"), "for models that are there (--trained)")
    if args.ablate:
        refuse(args, ("folds", "tuning", "random_designs", "plot"), "with --ablate")
    from tracekit.dataset import load_manifest
    from tracekit.io.output import cache_folder
    from tracekit.plotting import check_picture

    check_picture(args.plot, args.force)
    manifest = load_manifest(args.manifest)
    if args.trained:
        from tracekit.evaluation.trained_models import evaluate_model

        result: Any = [evaluate_model(m, manifest, args.rows, args.threads) for m in args.trained]
        show: Any = _models
    else:
        with cache_folder(args.work) as work:
            result = _recipe(args, manifest, work)
        show = _ablation if args.ablate else _table
    if args.plot and not args.trained and not args.ablate:
        from tracekit.plotting import error_plot

        error_plot(result, args.plot, force=args.force)
    if not reported(args, result):
        show(result)
    return 0


def _instructions(args: argparse.Namespace) -> int:
    from tracekit.dataset import load_manifest
    from tracekit.io.output import cache_folder
    from tracekit.neuroscalar.evaluation import evaluate
    from tracekit.neuroscalar.metrics import finite
    from tracekit.neuroscalar.model import CycleModel

    model = CycleModel(
        args.model,
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


def _recipe(args: argparse.Namespace, manifest: Any, work: Path) -> dict[str, Any]:
    from tracekit.calibration.random_designs import random_designs
    from tracekit.evaluation import learning_curves
    from tracekit.evaluation.ablation import ablate
    from tracekit.evaluation.baselines import aggregates
    from tracekit.evaluation.cross_validation import cross_validate, unseen_machines
    from tracekit.io.arrays import save_array
    from tracekit.mixture.fit import Sums, with_columns
    from tracekit.mixture.program_sums import collect
    from tracekit.mixture.training import priors_of
    from tracekit.sim.clock import period

    names = list(manifest.common_machines())
    cores = [{**manifest.machines[m], "name": m} for m in names if manifest.machines.get(m)]

    def walked(with_cores: Sequence[Mapping[str, Any]]) -> list[Sums]:
        with Programs("evaluate") as report:
            return collect(
                manifest.programs, with_cores, names, work / "sums", report, args.threads, args.rows
            )

    priors = priors_of(cores, names)
    if args.ablate:
        return ablate(cores, priors, walked, args.seed)
    wide = walked([*cores, *random_designs(cores, args.random_designs)])
    sums = [with_columns(p, range(len(cores))) for p in wide]
    tables = {}
    for p in manifest.programs:
        place = work / "sums" / f"{p.name.replace('/', '_')}-aggregates-{args.rows}.npy"
        if not place.exists() or place.stat().st_mtime < p.data.stat().st_mtime:
            save_array(place, aggregates(p.data, args.threads, args.rows), force=True)
        tables[p.name] = np.load(place, allow_pickle=False)
    periods = np.array([period(manifest.machines.get(m, {})) for m in names])
    periods = np.where(np.isfinite(periods), periods, 1.0)
    common: dict[str, Any] = {"count": args.folds, "seed": args.seed}
    result = cross_validate(sums, names, priors, periods, tables, **common)
    result["unseen_machines"] = unseen_machines(
        wide, names, priors, tables, tuning=args.tuning, **common
    )
    result["learning_curve"] = learning_curves.over_instructions(sums, priors, seed=args.seed)
    result["machine_curve"] = learning_curves.over_machines(sums, priors, seed=args.seed)
    return result


_UNSAID = "\N{EN DASH}"
_HEAD = (
    f"{'total time':<34}{'mean':>7}{'median':>8}{'bias':>8}{'<25 %':>7}{'worst':>7}"
    f"{'rho':>7}{'min':>7}"
)


def _number(value: float | None, form: str) -> str:
    """What could not be said is a dash."""
    return _UNSAID if value is None else format(value, form)


def _line(label: str, s: dict[str, Any] | None) -> None:
    if s is None:
        print(f"{label:<34}  needs scikit-learn")
        return
    print(
        f"{label:<34}{s['mean']:7.1%}{s['median']:8.1%}{s['bias']:+8.1%}"
        f"{s['programs_below_25']:7.0%}{s['worst_program']:7.1%}"
        f"{_number(s['spearman_median'], '.3f'):>7}{_number(s['spearman_min'], '.3f'):>7}"
    )


def _programs(s: dict[str, Any]) -> None:
    for name, p in sorted(s["programs"].items(), key=lambda x: -x[1]["mean"]):
        print(
            f"  {name:<20}{p['mean']:7.1%} max {p['max']:6.1%} bias {p['bias']:+7.1%}"
            f" rho {_number(p['spearman'], '.3f')}"
        )


def _models(result: list[dict[str, Any]]) -> None:
    print(_HEAD)
    for m in result:
        for kind in ("unseen", "seen"):
            if m[kind] is not None:
                _line(f"{m['model'][-22:]}, {kind}", m[kind])
    for m in result:
        if m["unseen"] is not None:
            print(f"{m['model']}: programs of unseen families")
            _programs(m["unseen"])


def _ablation(result: dict[str, float]) -> None:
    print("mean error of total time, programs of unseen families, seen machines")
    for name, error in result.items():
        print(f"  {name:<46}{error:7.1%}")


def _table(result: dict[str, Any]) -> None:
    print(_HEAD)
    _line("unseen programs, seen machines", result["unseen_programs_seen_machines"])
    _line("seen programs, seen machines", result["seen_programs_seen_machines"])
    _line("reference cores, nothing fitted", result["simulated_cores_unfitted"])
    for name, s in result["baselines"].items():
        _line(f"{name} (unseen programs)", s)
        if s is not None:
            _line(f"{name} (seen programs)", result["baselines_on_seen_programs"][name])
    u = result["unseen_machines"]
    print(
        f"unseen machines, from {u['tuning_programs']} programs each, {u['random_designs']} drawn "
        "cores; mean (median)"
    )
    for name, v in u["methods"].items():
        seen, unseen = (
            f"{v[k]['mean']:.1%} ({v[k]['median']:.1%})" if v[k]["mean"] is not None else _UNSAID
            for k in ("seen", "unseen")
        )
        print(f"  {name:<40}{seen:>16} on seen families {unseen:>16} on unseen ones")
    curve = ", ".join(f"{float(k):.0%} {v:.1%}" for k, v in result["learning_curve"].items())
    print(f"share of each program's instructions: {curve}")
    for count, v in result["machine_curve"].items():
        print(
            f"{count} machines' cores: {v['seen']:.1%} on those machines; others, tuned on three "
            f"programs: {v['known']:.1%} parameters known, {v['unknown']:.1%} not known"
        )
    _programs(result["unseen_programs_seen_machines"])
