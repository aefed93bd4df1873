"""``tracekit simpoints TRACE -o PREFIX``: the intervals that stand for a program, by SimPoint's
method and in SimPoint's files, and what gem5 and ChampSim are told to run them.

Intervals are told apart by the code that they run and by the memory that they reach.

From any trace that `extract` reads, a feats.zst, a recording, or another tool's vectors (.bb).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tracekit.cli.common_options import add_force, add_quiet
from tracekit.cli.numbers import at_least
from tracekit.cli.report import add_json, reported
from tracekit.cli.unused import refuse
from tracekit.text import counted

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from tracekit.simpoint import BlockVectors

_LENGTH = 10_000_000
_CODE: Final = "code"
_MEMORY: Final = "code+memory"


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit simpoints``."""
    p = sub.add_parser("simpoints", help=help_text, description=__doc__)
    p.add_argument("file", help="a trace, a feats.zst, a recording (.tks), or vectors (.bb)")
    p.add_argument(
        "-o", "--output", metavar="PREFIX", help="the files PREFIX.simpoints, .weights and .bb"
    )
    p.add_argument("--interval", type=int, metavar="N", help=f"instructions ({_LENGTH:,})")
    p.add_argument(
        "--vectors",
        choices=(_CODE, _MEMORY),
        help=f"what tells intervals apart ({_MEMORY}; of a .bb, which knows no memory, {_CODE})",
    )
    p.add_argument("--max-k", type=int, default=30, metavar="K", help="most clusters (30)")
    p.add_argument("--dims", type=int, default=15, help="dimensions of the projection (15)")
    p.add_argument("--seed", type=at_least(0), default=1, help="of projection and k-means (1)")
    p.add_argument(
        "--points", metavar="FILE.simpoints", help="these points instead, with --weights"
    )
    p.add_argument("--weights", metavar="FILE.weights", help="of --points")
    p.add_argument("--warmup", type=int, default=0, help="instructions before a region (0)")
    p.add_argument("--level", choices=("auto", "micro", "macro"), default="auto", help="of rows")
    p.add_argument("--cpu", help="of a trace of several CPUs, the one to look at")
    add_force(p)
    add_quiet(p)
    add_json(p)
    p.set_defaults(func=run, parser=p)


def run(args: argparse.Namespace) -> int:
    """Run ``tracekit simpoints``; returns the exit code."""
    from tracekit.errors import UsageError
    from tracekit.io.output import check_output
    from tracekit.simpoint import (
        arguments,
        choose,
        read_points,
        regions,
        write_points,
        write_vectors,
    )

    if (args.points is None) != (args.weights is None):
        raise UsageError("--points and --weights go together")
    if args.points is not None:
        refuse(args, ("vectors", "max_k", "dims", "seed"), "with --points")
    if args.warmup < 0 or (args.interval is not None and args.interval < 1):
        raise UsageError("--warmup: from 0 on; --interval: from 1 on")
    names = {k: f"{args.output}.{k}" for k in ("simpoints", "weights", "bb")}
    if args.output is not None:
        for name in names.values():
            check_output(name, args.force, args.file)
    vectors, memory = _vectors(args)
    if args.points is not None:
        points = read_points(args.points, args.weights, len(vectors))
    else:
        points = choose(vectors, memory, most=args.max_k, dimensions=args.dims, seed=args.seed)
    if args.output is not None:
        write_vectors(names["bb"], vectors, force=args.force)
        write_points(names["simpoints"], names["weights"], points, force=args.force)
    found = regions(vectors, points)
    told = arguments(found, vectors.length, args.warmup, args.output or "PREFIX")
    told_apart = None if args.points is not None else _CODE if memory is None else _MEMORY
    notes = []
    if len(vectors) == 1:
        notes.append("one interval: the program is walked whole")
    if vectors.left_out:
        notes.append(f"left out at the end: {counted(vectors.left_out, 'instruction')}")
    blocks = int(vectors.block.max())

    def result() -> dict[str, Any]:
        return {
            "path": args.file,
            "intervals": len(vectors),
            "interval": vectors.length,
            "blocks": blocks,
            "left_out": vectors.left_out,
            "vectors": told_apart,
            "points": found,
            "arguments": told,
            "files": list(names.values()) if args.output is not None else [],
            "notes": notes,
        }

    if reported(args, result):
        return 0
    print(
        f"{args.file}: {counted(len(vectors), 'interval')} of "
        f"{counted(vectors.length, 'instruction')}, "
        f"{counted(blocks, 'basic block')}, {counted(len(points), 'simulation point')}"
    )
    for note in notes:
        print(note)
    print(f"{'interval':>10}{'weight':>10}{'from instruction':>20}{'instructions':>16}")
    for r in found:
        print(
            f"{r['interval']:>10,}{r['weight']:>10.4f}{r['begin']:>20,}{r['instructions']:>16,}"
            + (
                f"  rows {r['first_row']:,} to {r['first_row'] + r['rows']:,}"
                if "rows" in r
                else ""
            )
        )
    for simulator, lines in told.items():
        print(f"{simulator}:")
        for line in lines:
            print(f"  {line}")
    return 0


def _vectors(args: argparse.Namespace) -> tuple[BlockVectors, npt.NDArray[np.int64] | None]:
    """Of blocks, and of memory where points are to be chosen by it."""
    from tracekit.errors import UsageError
    from tracekit.io.files import first_bytes
    from tracekit.simpoint import block_vectors, memory_vectors, opened, read_vectors

    if args.file != "-" and Path(args.file).is_file() and first_bytes(args.file, 2) == b"T:":
        refuse(args, ("level", "cpu"), "of vectors")
        if args.vectors == _MEMORY:
            raise UsageError(
                f"--vectors {_MEMORY}: vectors of blocks know no memory",
                path=args.file,
                hint="give the trace that they were made of",
            )
        return read_vectors(args.file, args.interval), None
    with opened(args.file, level=args.level, cpu=args.cpu, quiet=args.quiet) as trace:
        vectors = block_vectors(trace, args.interval or _LENGTH, quiet=args.quiet)
        if args.points is not None or args.vectors == _CODE or vectors.rows is None:
            return vectors, None
        return vectors, memory_vectors(trace, vectors.rows, quiet=args.quiet)
