"""``tracekit evaluate MANIFEST``: errors on programs and machines that were not seen, beside the
baselines."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np


def add_parser(sub: Any, help_text: str) -> None:
    p = sub.add_parser("evaluate", help=help_text, description=__doc__)
    p.add_argument("manifest")
    p.add_argument("--work", default="evaluation", help="folder for what was computed once")
    p.add_argument("--folds", type=int, default=5, help="folds by family")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--threads", type=int)
    p.add_argument("--json", action="store_true")
    p.add_argument(
        "--plot", help="a picture of each program's error (.png, .svg; needs matplotlib)"
    )
    n = p.add_argument_group("models of single instructions (train neuroscalar)")
    n.add_argument("--model", help="a model's folder; else PerfVec's recipe is cross-validated")
    n.add_argument(
        "--split",
        choices=("blocks", "families"),
        default="blocks",
        help="held-out blocks of seen programs, or the test's families",
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
    from tracekit.perfvec.baselines import aggregates
    from tracekit.perfvec.evaluate import cross_validate, learning_curve, unseen_machines
    from tracekit.perfvec.model import period
    from tracekit.train.collect import collect
    from tracekit.train.default import priors_of

    manifest = load_manifest(args.manifest)
    work = Path(args.work)
    names = list(manifest.common_machines())
    cores = [{**manifest.machines[m], "name": m} for m in names if manifest.machines.get(m)]

    def report(e: dict[str, Any]) -> None:
        print(f"\r{e['done']} of {e['of']} programs", end="", file=sys.stderr, flush=True)

    sums = collect(manifest.programs, cores, names, work / "sums", report, args.threads)
    print(file=sys.stderr)
    tables = {}
    for p in manifest.programs:
        place = work / "sums" / f"{p.name.replace('/', '_')}-aggregates.npy"
        if not place.exists() or place.stat().st_mtime < p.data.stat().st_mtime:
            np.save(place, aggregates(p.data, args.threads))
        tables[p.name] = np.load(place, allow_pickle=False)
    periods = np.array([period(manifest.machines.get(m, {})) for m in names])
    periods = np.where(np.isfinite(periods), periods, 1.0)
    priors = priors_of(cores, names)
    result = cross_validate(sums, names, priors, periods, tables, count=args.folds, seed=args.seed)
    result["unseen_machines"] = unseen_machines(sums, names, priors, periods, seed=args.seed)
    result["learning_curve"] = learning_curve(sums, priors, seed=args.seed)
    if args.plot:
        from tracekit.perfvec.plot import error_plot

        error_plot(result, args.plot)
    if args.json:
        print(json.dumps(result, indent=1))
        return 0
    _table(result)
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
    print("seen programs, held-out blocks" if result["seen"] else "unseen families")
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


def _table(result: dict[str, Any]) -> None:
    print(
        f"{'total time':<34}{'mean':>7}{'median':>8}{'bias':>8}{'<25 %':>7}{'worst':>7}"
        f"{'rho':>7}{'min':>7}"
    )

    def line(label: str, s: dict[str, Any] | None) -> None:
        if s is None:
            print(f"{label:<34}  needs scikit-learn")
            return
        print(
            f"{label:<34}{s['mean']:7.1%}{s['median']:8.1%}{s['bias']:+8.1%}{s['programs_below_25']:7.0%}"
            f"{s['worst_program']:7.1%}{s['spearman_median']:7.3f}{s['spearman_min']:7.3f}"
        )

    line("unseen programs, seen machines", result["unseen_programs_seen_machines"])
    line("seen programs, seen machines", result["seen_programs_seen_machines"])
    line("reference cores, nothing fitted", result["reference_cores_unfitted"])
    for name, s in result["baselines"].items():
        line(f"{name} (unseen programs)", s)
    u = result["unseen_machines"]
    print(
        f"unseen machines, row from {u['tuning_programs']} programs: "
        f"{u['seen']:.1%} on seen families, {u['unseen']:.1%} on unseen ones"
    )
    curve = ", ".join(f"{float(k):.0%} {v:.1%}" for k, v in result["learning_curve"].items())
    print(f"share of each program's instructions: {curve}")
    rows = sorted(
        result["unseen_programs_seen_machines"]["programs"].items(), key=lambda x: -x[1]["mean"]
    )
    for name, s in rows:
        print(
            f"  {name:<20}{s['mean']:7.1%} max {s['max']:6.1%} bias {s['bias']:+7.1%}"
            f" rho {s['spearman']:.3f}"
        )
