"""``tracekit cross-validate MANIFEST``: errors of PerfVec's recipe, fitted anew for each fold, on
programs and machines that were not seen, beside the baselines."""

from __future__ import annotations

import argparse
import contextlib
from typing import Any

from tracekit.cli.clustered import add_cluster, run_of, wanted
from tracekit.cli.common_options import add_force, add_quiet, add_threads
from tracekit.cli.error_tables import HEAD, UNSAID, line, programs
from tracekit.cli.events import Events
from tracekit.cli.numbers import at_least
from tracekit.cli.report import add_json, reported
from tracekit.cli.unused import refuse
from tracekit.text import counted, note


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit cross-validate``."""
    p = sub.add_parser("cross-validate", help=help_text, description=__doc__)
    p.add_argument("manifest", help="JSON or TOML: programs, families, machines")
    p.add_argument("--work", help="keep what is computed once in this folder, for the next time")
    p.add_argument("--folds", type=at_least(2), default=5, help="folds by family (5)")
    p.add_argument("--seed", type=at_least(0), default=0, help="of folds and models (0)")
    p.add_argument("--rows", type=at_least(1), help="only the first N rows of each program")
    add_threads(p)
    add_quiet(p)
    p.add_argument(
        "--tuning", type=at_least(1), default=3, help="programs that a new machine is tuned on (3)"
    )
    p.add_argument(
        "--random-designs",
        type=at_least(0),
        default=0,
        help="random designs beside the known cores (0)",
    )
    p.add_argument(
        "--ablate", action="store_true", help="errors without each part of the model in turn"
    )
    add_json(p)
    p.add_argument(
        "--plot", metavar="FILE", help="each program's error as a picture: .png, .svg or .pdf"
    )
    add_force(p)
    add_cluster(p)
    p.set_defaults(func=run, parser=p)


def run(args: argparse.Namespace) -> int:
    """Run ``tracekit cross-validate``; returns the exit code."""
    if args.ablate:
        refuse(args, ("folds", "tuning", "random_designs", "plot"), "with --ablate")
    from tracekit.dataset import load_manifest
    from tracekit.evaluation import ablate_recipe, cross_validate_recipe
    from tracekit.io.output import cache_folder
    from tracekit.plotting import check_picture, error_plot

    check_picture(args.plot, args.force)
    manifest = load_manifest(args.manifest)
    common: dict[str, Any] = {"seed": args.seed, "rows": args.rows, "threads": args.threads}
    with contextlib.ExitStack() as stack:
        work = stack.enter_context(cache_folder(args.work))
        if wanted(args):
            common["spread"] = stack.enter_context(run_of(args)).spread
        report = stack.enter_context(Events("simulate", quiet=args.quiet))
        if args.ablate:
            result: dict[str, Any] = ablate_recipe(manifest, work, report=report, **common)
        else:
            result = cross_validate_recipe(
                manifest,
                work,
                folds=args.folds,
                tuning=args.tuning,
                designs=args.random_designs,
                report=report,
                **common,
            )
    if not args.ablate and (made := len(result["folds"])) < args.folds:
        note(f"{counted(made, 'family', 'families')}: {made} folds instead of {args.folds}")
    if args.plot:
        error_plot(result, args.plot, force=args.force)
    if not reported(args, result):
        (_ablation if args.ablate else _table)(result)
    return 0


def _ablation(result: dict[str, float]) -> None:
    print("mean error of total time, programs of unseen families, seen machines")
    for name, error in result.items():
        print(f"  {name:<46}{error:7.1%}")


def _table(result: dict[str, Any]) -> None:
    print(HEAD)
    line("unseen programs, seen machines", result["unseen_programs_seen_machines"])
    line("seen programs, seen machines", result["seen_programs_seen_machines"])
    line("simulated cores, nothing fitted", result["simulated_cores_unfitted"])
    for name, s in result["baselines"].items():
        line(f"{name} (unseen programs)", s)
        if s is not None:
            line(f"{name} (seen programs)", result["baselines_on_seen_programs"][name])
    u = result["unseen_machines"]
    print(
        f"unseen machines, from {counted(u['tuning_programs'], 'program')} each, "
        f"{u['random_designs']} random "
        "designs; mean (median)"
    )
    for name, v in u["methods"].items():
        seen, unseen = (
            f"{v[k]['mean']:.1%} ({v[k]['median']:.1%})" if v[k]["mean"] is not None else UNSAID
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
    programs(result["unseen_programs_seen_machines"])
