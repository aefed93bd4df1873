"""``tracekit dse SPACE FEATS…``: every design of a grid, ranked by an objective."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tracekit.cli.clustered import add_cluster, run_of, wanted
from tracekit.cli.common_options import add_force, add_quiet, add_threads, check_once
from tracekit.cli.report import add_json, reported
from tracekit.cli.sampling_options import OPTIONS, add_sampling, plan_of, print_seed, seed_of
from tracekit.cli.unused import refuse


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit dse``."""
    p = sub.add_parser("dse", help=help_text, description=__doc__)
    p.add_argument("space", help='JSON: {"base": machine, "vary": {"l1d_kb": [4, 8, …]}}')
    p.add_argument("files", nargs="+", help="feats.zst files or recordings of the programs")
    p.add_argument(
        "--objective",
        default="time",
        help="what to minimise: an expression of time, cycles and parameters (time)",
    )
    p.add_argument("--cost", help="an expression; a picture shows it against time")
    p.add_argument(
        "--known",
        metavar="FILE",
        help="JSON: {program: {number of a design, as the table has it: cycles}}; three at least",
    )
    p.add_argument("--top", type=int, default=5, metavar="N", help="designs shown (5)")
    p.add_argument("--plot", metavar="FILE", help="a picture: .png, .svg or .pdf")
    add_force(p)
    add_threads(p)
    add_quiet(p)
    add_json(p)
    add_cluster(p)
    add_sampling(p)
    p.set_defaults(func=run, parser=p)


def run(args: argparse.Namespace) -> int:
    """Run ``tracekit dse``; returns the exit code."""
    import tracekit
    from tracekit.cli.trace_notes import tell_limits
    from tracekit.errors import UsageError
    from tracekit.exploration import explore, load_known, load_space
    from tracekit.plotting import check_picture

    if args.top < 0:
        raise UsageError(f"--top {args.top}: 0 or more")
    if args.cost and not args.plot:
        raise UsageError("--cost is drawn against time: give --plot too")
    check_picture(args.plot, args.force)
    space = load_space(args.space)
    if args.cost:
        space.values(args.cost)  # told before the work
    known = load_known(args.known) if args.known else {}
    traces = {n: tracekit.open(f) for n, f in zip(_names(args.files), args.files, strict=True)}
    for trace in traces.values():
        tell_limits(trace)
    how = (space, traces, args.objective, known, args.threads)
    plan = plan_of(args)
    if wanted(args):
        refuse(args, OPTIONS, "with --cluster or --run")
        with run_of(args) as tasks:
            result = explore(*how, spread=tasks.spread)
    else:
        result = explore(*how, quiet=args.quiet, samples=plan)
    if args.plot:
        from tracekit.exploration import dse_plot

        dse_plot(result, space, args.cost, args.plot, force=args.force)
    if reported(args, {**result, **seed_of(plan)}):
        return 0
    for note in result["notes"]:
        print(f"note: {note}")
    for name, p in result["programs"].items():
        _print(f"{name}: {args.objective}", space.points, p, args.top)
    print_seed(plan)
    return 0


def _names(files: Sequence[str]) -> list[str]:
    """Programs' names: those of their files up to the first dot; where files share one, up to
    .zst, and where they share that, too, with their folders."""
    check_once(files)
    names = [Path(f).name.split(".")[0] for f in files]
    for longer in (lambda f: Path(f).name.removesuffix(".zst"), str):
        names = [longer(f) if names.count(n) > 1 else n for f, n in zip(files, names, strict=True)]
    return names


def _print(title: str, points: Sequence[Mapping[str, Any]], p: dict[str, Any], top: int) -> None:
    """The first designs of a program's ranking, with their intervals."""
    print(title)
    for warning in p["warnings"]:
        print(f"warning: {warning}")
    for rank, k in enumerate(p["ranking"][:top], 1):
        design = ", ".join(f"{a} {b}" for a, b in points[k].items())
        half, cycles = p["half_interval"][k], p["cycles"][k]
        wide = f"{half / cycles:>7.1%}" if half is not None and cycles else f"{'?':>7}"
        wide += "~" if rank > 1 and p["tied_with_best"][k] else " "
        value = f"{p['objective'][k]:.6g}"
        print(f"  {rank}. {design:<32}{cycles:>14,.0f} cycles  ±{wide} {value}  #{k}")
    tied = sum(p["tied_with_best"]) - 1
    of = f"the model, and of {p['samples']} samples" if p["samples"] else "the model"
    if p["half_interval"][p["ranking"][0]] is None:
        print("  ±: cores of this kind were never compared with machines of this instruction set")
    else:
        print(f"  ±: 95 %, of {of}; ~: perhaps as good as the best ({tied} of {len(points)})")
