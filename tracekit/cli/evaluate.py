"""``tracekit evaluate MANIFEST``: errors on programs and machines that were not seen, beside the
baselines."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np


def add_parser(sub: Any, help_text: str) -> None:
    p = sub.add_parser("evaluate", help=help_text, description=__doc__)
    p.add_argument("manifest")
    p.add_argument("--work", default="evaluation", help="folder for what was computed once")
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
        "--drawn", type=int, default=0, help="cores beside the known ones, as tune draws them (128)"
    )
    p.add_argument("--ablate", action="store_true", help="what each part of the recipe is worth")
    p.add_argument("--json", action="store_true")
    p.add_argument(
        "--plot", help="a picture of each program's error (.png, .svg; needs matplotlib)"
    )
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
    p.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    if args.model:
        return _instructions(args)
    from tracekit.dataset import load_manifest

    manifest = load_manifest(args.manifest)
    if args.trained:
        from tracekit.perfvec.trained import evaluate_model

        result: Any = [evaluate_model(m, manifest, args.rows, args.threads) for m in args.trained]
        show: Any = _models
    else:
        result = _recipe(args, manifest)
        show = _ablation if args.ablate else _table
    if args.plot and not args.trained and not args.ablate:
        from tracekit.perfvec.plot import error_plot

        error_plot(result, args.plot)
    if args.json:
        print(json.dumps(result, indent=1))
    else:
        show(result)
    return 0


def _instructions(args: argparse.Namespace) -> int:
    from tracekit.dataset import load_manifest
    from tracekit.neuroscalar.evaluate import evaluate
    from tracekit.neuroscalar.metrics import finite
    from tracekit.neuroscalar.model import CycleModel

    model = CycleModel(
        args.model,
        device=args.device,
        dtype=args.dtype,
        threads=args.threads,
        use_history=not args.no_history,
    )
    result = evaluate(
        [model], load_manifest(args.manifest), args.split, Path(args.work), sample=args.sample
    )
    if args.json:
        print(json.dumps(finite(result), indent=1))
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


def _recipe(args: argparse.Namespace, manifest: Any) -> dict[str, Any]:
    from tracekit.perfvec import curves
    from tracekit.perfvec.ablation import ablate
    from tracekit.perfvec.baselines import aggregates
    from tracekit.perfvec.drawn import drawn_cores
    from tracekit.perfvec.evaluate import cross_validate, unseen_machines
    from tracekit.perfvec.fit import Sums, with_columns
    from tracekit.perfvec.model import period
    from tracekit.train.collect import collect
    from tracekit.train.default import priors_of

    work = Path(args.work)
    names = list(manifest.common_machines())
    cores = [{**manifest.machines[m], "name": m} for m in names if manifest.machines.get(m)]

    def report(e: dict[str, Any]) -> None:
        end = "\n" if e["done"] == e["of"] else ""
        print(f"\r{e['done']} of {e['of']} programs", end=end, file=sys.stderr, flush=True)

    def walked(with_cores: Sequence[Mapping[str, Any]]) -> list[Sums]:
        return collect(
            manifest.programs, with_cores, names, work / "sums", report, args.threads, args.rows
        )

    priors = priors_of(cores, names)
    if args.ablate:
        return ablate(cores, priors, walked, args.seed)
    wide = walked([*cores, *drawn_cores(cores, args.drawn)])
    sums = [with_columns(p, range(len(cores))) for p in wide]
    tables = {}
    for p in manifest.programs:
        place = work / "sums" / f"{p.name.replace('/', '_')}-aggregates-{args.rows}.npy"
        if not place.exists() or place.stat().st_mtime < p.data.stat().st_mtime:
            np.save(place, aggregates(p.data, args.threads, args.rows))
        tables[p.name] = np.load(place, allow_pickle=False)
    periods = np.array([period(manifest.machines.get(m, {})) for m in names])
    periods = np.where(np.isfinite(periods), periods, 1.0)
    common: dict[str, Any] = {"count": args.folds, "seed": args.seed}
    result = cross_validate(sums, names, priors, periods, tables, **common)
    result["unseen_machines"] = unseen_machines(
        wide, names, priors, tables, tuning=args.tuning, **common
    )
    result["learning_curve"] = curves.over_instructions(sums, priors, seed=args.seed)
    result["machine_curve"] = curves.over_machines(sums, priors, seed=args.seed)
    return result


_HEAD = (
    f"{'total time':<34}{'mean':>7}{'median':>8}{'bias':>8}{'<25 %':>7}{'worst':>7}"
    f"{'rho':>7}{'min':>7}"
)


def _line(label: str, s: dict[str, Any] | None) -> None:
    if s is None:
        print(f"{label:<34}  needs scikit-learn")
        return
    print(
        f"{label:<34}{s['mean']:7.1%}{s['median']:8.1%}{s['bias']:+8.1%}"
        f"{s['programs_below_25']:7.0%}{s['worst_program']:7.1%}{s['spearman_median']:7.3f}"
        f"{s['spearman_min']:7.3f}"
    )


def _programs(s: dict[str, Any]) -> None:
    for name, p in sorted(s["programs"].items(), key=lambda x: -x[1]["mean"]):
        print(
            f"  {name:<20}{p['mean']:7.1%} max {p['max']:6.1%} bias {p['bias']:+7.1%}"
            f" rho {p['spearman']:.3f}"
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
    _line("reference cores, nothing fitted", result["reference_cores_unfitted"])
    for name, s in result["baselines"].items():
        _line(f"{name} (unseen programs)", s)
        if s is not None:
            _line(f"{name} (seen programs)", result["baselines_on_seen_programs"][name])
    u = result["unseen_machines"]
    print(
        f"unseen machines, from {u['tuning_programs']} programs each, {u['drawn_cores']} drawn "
        "cores; mean (median)"
    )
    for name, v in u["methods"].items():
        seen, unseen = (f"{v[k]['mean']:.1%} ({v[k]['median']:.1%})" for k in ("seen", "unseen"))
        print(f"  {name:<40}{seen:>16} on seen families {unseen:>16} on unseen ones")
    curve = ", ".join(f"{float(k):.0%} {v:.1%}" for k, v in result["learning_curve"].items())
    print(f"share of each program's instructions: {curve}")
    for count, v in result["machine_curve"].items():
        print(
            f"{count} machines' cores: {v['seen']:.1%} on those machines; others, tuned on three "
            f"programs: {v['known']:.1%} parameters known, {v['unknown']:.1%} not known"
        )
    _programs(result["unseen_programs_seen_machines"])
