"""SimPoint's points against walks of whole programs: by code, and by code and memory.

    python bench/whole_programs.py WORK record --only python lua perl tree sqlite xz cc1
    python bench/whole_programs.py WORK walk --only python lua perl tree sqlite xz cc1
    python bench/whole_program_points.py WORK choose      # points, from each of `SEEDS` seeds
    python bench/whole_program_points.py WORK simulate    # those of the first seed, warm and cold
    python bench/whole_program_points.py WORK report      # the tables, of what is there

WORK is that of whole_programs.py.  Errors of the choice alone are those of points that are cut out
of the walk.  How memory counts was chosen on `CHOSEN_ON`; the others were read once.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from whole_program_list import CHOOSING, Program
from whole_programs import Walked, from_cold, kept, machines, named

import tracekit
from tracekit.sim import sample_sums
from tracekit.simpoint import block_vectors, choose, memory_vectors, regions

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
#: Instructions of an interval: as many as published, and a quarter.  Points of the first are run.
INTERVALS = (1_000_000, 250_000)
#: Of projection and k-means.
SEEDS = range(1, 11)
#: What tells intervals apart.
VECTORS = ("code", "code+memory")
CHOSEN_ON = ("python", "lua", *(p.name for p in CHOOSING))
READ_ONCE = ("sqlite", "xz", "cc1")


class Points:
    """The points of one program: of each seed and kind of vectors the rows, and their weights."""

    def __init__(self, path: Path) -> None:
        with np.load(path) as f:
            self._of, self._ranges, self._weights = f["of"], f["ranges"], f["weights"]

    def of(self, by: str, seed: int) -> tuple[I64, F64]:
        """Ranges int64 [points, 2], weights float64 [points]."""
        mine = (self._of == (VECTORS.index(by), seed)).all(axis=1)
        return self._ranges[mine], self._weights[mine]


def points_path(program: Program, work: Path, interval: int) -> Path:
    return work / f"{program.name}.points.{interval}.npz"


def runs_path(program: Program, work: Path, by: str) -> Path:
    return work / f"{program.name}.points.{by}.runs.npz"


def choose_points(program: Program, work: Path, interval: int) -> None:
    """The points of each seed and kind of vectors."""

    def make() -> dict[str, npt.NDArray[Any]]:
        with tracekit.open(work / f"{program.name}.zst") as trace:
            vectors = block_vectors(trace, interval)
            assert vectors.rows is not None
            memory = memory_vectors(trace, vectors.rows)
        of, ranges, weights = [], [], []
        for seed in SEEDS:
            for number, by in enumerate(VECTORS):
                points = choose(vectors, memory if "memory" in by else None, seed=seed)
                for p, r in zip(points, regions(vectors, points), strict=True):
                    of.append((number, seed))
                    ranges.append((int(r["first_row"]), int(r["first_row"] + r["rows"])))
                    weights.append(p.weight)
        return {"of": np.array(of), "ranges": np.array(ranges), "weights": np.array(weights)}

    kept(points_path(program, work, interval), make)


def simulate(program: Program, work: Path, threads: int, by: str) -> None:
    """Cycles of the first seed's points, warm and from cold: float64 [points, machines] each."""

    def make() -> dict[str, npt.NDArray[Any]]:
        found, _ = Points(points_path(program, work, INTERVALS[0])).of(by, SEEDS[0])
        ranges = [(a, b) for a, b in found.tolist()]
        with tracekit.open(work / f"{program.name}.zst") as trace:
            warm = sample_sums(trace, machines(), ranges, threads=threads)
            return {"warm": warm, "cold": from_cold(trace, ranges, threads)}

    kept(runs_path(program, work, by), make)


def errors(cycles: F64, ranges: I64, weights: F64, walk: Walked) -> F64:
    """Of weighted cycles against the walk's, by machine."""
    cpi = (cycles / np.diff(ranges, axis=1) * weights[:, None]).sum(axis=0) / weights.sum()
    off: F64 = np.abs(cpi * walk.rows / walk.truth - 1)
    return off


def choice_table(programs: list[Program], work: Path, interval: int) -> None:
    """Errors of points that are cut out of the walk: means over seeds, and the worst machine's."""
    names = [m["name"] for m in machines()]
    print(
        f"\nPoints cut out of the walk, intervals of {interval:,} instructions, {len(SEEDS)} seeds"
    )
    print("| program | vectors | points | rows | mean | worst machine, mean of seeds | worst |")
    print("|---" * 7 + "|")
    for p in programs:
        walk, points = Walked(p.name, work), Points(points_path(p, work, interval))
        for by in VECTORS:
            chosen = [points.of(by, seed) for seed in SEEDS]
            off = np.array([errors(walk.of(r), r, w, walk) for r, w in chosen])
            count = np.mean([len(w) for _, w in chosen])
            share = np.mean([np.diff(r, axis=1).sum() for r, _ in chosen]) / walk.rows
            worst = int(off.max(axis=0).argmax())
            print(
                f"| {p.name} | {by} | {count:.1f} | {share:.1%} | {off.mean():.2%} | "
                f"{off.max(axis=1).mean():.2%} | {off.max():.2%} ({names[worst]}) |"
            )


def run_table(programs: list[Program], work: Path, by: str) -> None:
    """Errors of the first seed's points, walked warm and from cold."""
    names = [m["name"] for m in machines()]
    print(f"\nPoints by {by}, intervals of {INTERVALS[0]:,} instructions, seed {SEEDS[0]}")
    print("| program | points | rows | warm | worst | cut out of the walk | worst | cold | worst |")
    print("|---" * 9 + "|")
    every = []
    for p in programs:
        walk = Walked(p.name, work)
        ranges, weights = Points(points_path(p, work, INTERVALS[0])).of(by, SEEDS[0])
        with np.load(runs_path(p, work, by)) as f:
            warm, cold = f["warm"], f["cold"]
        offs = [errors(c, ranges, weights, walk) for c in (warm, walk.of(ranges), cold)]
        told = [f"{o.mean():.2%} | {o.max():.2%} ({names[int(o.argmax())]})" for o in offs]
        share = np.diff(ranges, axis=1).sum() / walk.rows
        every.append(offs)
        print(f"| {p.name} | {len(weights)} | {share:.1%} | {' | '.join(told)} |")
    for kind, found in zip(("warm", "cut", "cold"), np.array(every).swapaxes(0, 1), strict=True):
        print(f"{kind}: mean {found.mean():.2%}, worst {found.max():.2%}")


def report(programs: list[Program], work: Path) -> None:
    """All tables."""
    for interval in INTERVALS:
        there = [p for p in programs if points_path(p, work, interval).exists()]
        if there:
            choice_table(there, work, interval)
    for by in VECTORS:
        there = [p for p in programs if runs_path(p, work, by).exists()]
        if there:
            run_table(there, work, by)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("what", choices=("choose", "simulate", "report"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", nargs="+", help="programs")
    args = parser.parse_args()
    work = args.work.resolve()
    programs = [
        program
        for name in (*CHOSEN_ON, *READ_ONCE)
        for program in named([name])
        if args.only is None or name in args.only
        if (work / f"{name}.walk.npz").exists()
    ]
    if args.what == "report":
        report(programs, work)
        return 0
    for p in programs:
        if args.what == "choose":
            for interval in INTERVALS:
                choose_points(p, work, interval)
        else:
            for by in VECTORS:
                simulate(p, work, args.threads, by)
    return 0


if __name__ == "__main__":
    sys.exit(main())
