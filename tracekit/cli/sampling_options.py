"""Options of commands that walk samples of a long trace instead of all of it."""

from __future__ import annotations

import argparse
import secrets
from typing import TYPE_CHECKING, Any

from tracekit.cli.numbers import at_least

if TYPE_CHECKING:
    from tracekit.sim import SamplePlan

__all__ = ["OPTIONS", "add_choice", "add_sampling", "plan_of", "print_seed", "seed_of"]

#: Those that make samples of a trace.
OPTIONS = ("every", "insts", "samples", "choose", "seed")


def add_sampling(p: Any) -> Any:
    """All of them, in a group of their own, which is returned."""
    g = p.add_argument_group("samples of a long trace, with warm caches and predictors")
    g.add_argument("--every", type=int, metavar="N", help="one sample per N rows, on average")
    g.add_argument("--insts", type=int, metavar="N", help="rows of a sample (10000)")
    g.add_argument(
        "--seed",
        type=at_least(0),
        help="of what is drawn; printed, and another each time, unless given",
    )
    add_choice(g)
    return g


def add_choice(g: Any) -> None:
    """Those that recordings under QEMU do not have."""
    g.add_argument("--samples", type=int, metavar="K", help="K samples, instead of --every")
    g.add_argument(
        "--choose",
        choices=["stratified", "systematic", "random", "phase"],
        default="stratified",
        help="at random places of stretches that should cost about as much, in each part of the "
        "trace; evenly from a random start; at random places; or at those of each phase "
        "(stratified)",
    )


def plan_of(args: argparse.Namespace) -> SamplePlan | None:
    """What of a trace is walked; None for all of it.

    Raises `UsageError` for options that mean nothing together.
    """
    from tracekit.cli.unused import refuse
    from tracekit.errors import UsageError
    from tracekit.sim import SamplePlan

    if args.every is None and args.samples is None:
        refuse(args, ("insts", "choose", "seed"), "without --every or --samples")
        return None
    if args.every is not None and args.samples is not None:
        raise UsageError("--every and --samples: one of them")
    length = SamplePlan.length if args.insts is None else args.insts
    # Tasks are kept by their options: with a seed drawn here the same command would begin anew.
    tasks = getattr(args, "run", None) is not None or getattr(args, "cluster", None) is not None
    seed = secrets.randbelow(1 << 32) if args.seed is None and not tasks else args.seed
    return SamplePlan(length, args.every, args.samples, args.choose, seed)


def print_seed(plan: SamplePlan | None) -> None:
    """How the same samples are drawn again; nothing where all rows were walked, or where a run's
    tasks drew their own."""
    if plan is not None and plan.seed is not None:
        print(f"samples drawn with --seed {plan.seed}")


def seed_of(plan: SamplePlan | None) -> dict[str, int]:
    """The same for JSON: ``seed`` of samples."""
    return {} if plan is None or plan.seed is None else {"seed": plan.seed}
