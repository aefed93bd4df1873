"""What commands on many traces have in common: ``--cluster`` and ``--run``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from tracekit.errors import UsageError

if TYPE_CHECKING:
    from tracekit.cluster import Run

__all__ = ["add_cluster", "run_of", "wanted"]


def add_cluster(p: Any) -> None:
    """The options."""
    g = p.add_argument_group("many traces (docs/cluster.md)")
    g.add_argument(
        "--cluster",
        metavar="ADDRESS|local[:N]",
        help="Dask's workers do it: those of a scheduler, or N on this computer",
    )
    g.add_argument(
        "--run",
        metavar="FOLDER",
        help="keep what is done there: the same command goes on with what is missing",
    )


def wanted(args: argparse.Namespace) -> bool:
    """Whether tasks are to be done one by one."""
    return args.cluster is not None or args.run is not None


def run_of(args: argparse.Namespace, folder: str | None = None, *, at_once: int = 1) -> Run:
    """The run that the options ask for, to be entered; ``folder``: where its records are kept
    unless ``--run`` says so; ``at_once``: tasks done at once where no cluster does them."""
    from tracekit.cluster import Run
    from tracekit.io.remote import remote_url

    place = args.run if args.run is not None else folder
    if place is not None and remote_url(place) is not None:
        raise UsageError("--run: a folder of this computer, or one that it shares")
    return Run(
        args.cluster,
        place,
        threads=getattr(args, "threads", None) if args.command != "extract" else None,
        at_once=at_once,
        quiet=getattr(args, "quiet", False),
    )
