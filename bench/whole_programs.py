"""Sampling against walks of whole programs: errors, and how often intervals hold.

    python bench/whole_programs.py WORK record        # the programs under QEMU, to features
    python bench/whole_programs.py WORK walk          # every row, on the machines of the X86 model
    python bench/whole_programs.py WORK sample        # a sampled run of each, warm; and from cold
    python bench/whole_programs.py WORK simpoints     # SimPoint's points of the X86 programs
    python bench/whole_programs.py WORK all           # these four of one program after another
    python bench/whole_programs.py WORK report        # the tables, of what is there

WORK has what was made: run again, a command goes on where it was stopped.  The programs are in
whole_program_list.py.  Of each the first `INSTRUCTIONS` are recorded and walked, and cycles are
kept of every `STEP` rows.  Errors of sampling alone are of systematic samples from `STARTS` random
starts, cut out of the walk; what warm starts add is seen in one sampled run a program.  Programs,
machines, seeds and numbers of samples were written before anything was walked.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from warm_starts import prefetches
from whole_program_list import PROGRAMS, SEED, Program, command_of, make_inputs

import tracekit
from tracekit.mixture import load_model
from tracekit.record.qemu import QemuOptions, extract_qemu
from tracekit.sim import RowSource, Samples, sample_sums, totals
from tracekit.simpoint import block_vectors, choose, regions

F64 = npt.NDArray[np.float64]
INSTRUCTIONS = 100_000_000
STEP = 1_000
#: Rows of a sample; how many samples, of which the first number is also run warm; random starts.
LENGTH, COUNTS, STARTS = 10_000, (200, 500, 1_000), 100
#: Instructions of an interval of SimPoint's.
INTERVAL = 1_000_000


def machines() -> list[dict[str, Any]]:
    return list(load_model(None, "x86").cores)


def kept(path: Path, make: Callable[[], dict[str, npt.NDArray[Any]]]) -> None:
    """Writes ``path`` once: what is there is whole."""
    if path.exists():
        return
    began, used = time.monotonic(), time.process_time()
    made = make()
    part = path.with_suffix(".part")
    with part.open("wb") as f:
        made["seconds"] = np.array(time.process_time() - used)
        np.savez(f, allow_pickle=False, **made)
    part.rename(path)
    print(f"{path.name}: {time.monotonic() - began:.0f} s", flush=True)


def record(program: Program, work: Path) -> None:
    """The program's first instructions, as features."""
    out = work / f"{program.name}.zst"
    if out.exists():
        return
    inputs = work / "inputs"
    command = command_of(program, inputs)
    stdin = str(inputs / (program.stdin or "empty"))
    options = QemuOptions(
        insts=INSTRUCTIONS, aslr=False, input=stdin, drop_output=True, env={}, follow_exec=False
    )
    here = Path.cwd()
    os.chdir(inputs)
    try:
        result, session = extract_qemu(command, out, options, force=True)
    finally:
        os.chdir(here)
    print(f"{program.name}: {result.rows:,} rows, status {session.status}", flush=True)


def walk(program: Program, work: Path, threads: int) -> None:
    """Cycles of every STEP rows on each machine: float64 [steps, machines]."""

    def make() -> dict[str, npt.NDArray[Any]]:
        with tracekit.open(work / f"{program.name}.zst") as trace:
            n = len(trace)
            breaks = [*range(0, n, STEP), n]
            return {"cycles": totals(trace, machines(), breaks, threads), "rows": np.array(n)}

    kept(work / f"{program.name}.walk.npz", make)


def sample(program: Program, work: Path, threads: int) -> None:
    """One sampled run as `predict --samples` makes it, and its samples from cold cores."""

    def make() -> dict[str, npt.NDArray[Any]]:
        with tracekit.open(work / f"{program.name}.zst") as trace:
            every = apart(len(trace), COUNTS[0])
            start = int(np.random.default_rng(SEED).integers(every // STEP)) * STEP
            ranges = ranges_of(len(trace), start, every)
            warm = sample_sums(trace, machines(), ranges, threads=threads)
            cold = from_cold(trace, ranges, threads)
        return {"ranges": np.array(ranges), "warm": warm, "cold": cold}

    kept(work / f"{program.name}.sample.npz", make)


def simpoints(program: Program, work: Path, threads: int) -> None:
    """SimPoint's points, each walked warm and from cold."""

    def make() -> dict[str, npt.NDArray[Any]]:
        with tracekit.open(work / f"{program.name}.zst") as trace:
            vectors = block_vectors(trace, INTERVAL)
            points = choose(vectors)
            found = regions(vectors, points)
            ranges = [(int(r["first_row"]), int(r["first_row"] + r["rows"])) for r in found]
            warm = sample_sums(trace, machines(), ranges, threads=threads)
            cold = from_cold(trace, ranges, threads)
        weights = np.array([p.weight for p in points])
        return {"ranges": np.array(ranges), "weights": weights, "warm": warm, "cold": cold}

    kept(work / f"{program.name}.simpoints.npz", make)


def from_cold(trace: tracekit.TraceFile, ranges: list[tuple[int, int]], threads: int) -> F64:
    """Cycles of each range on cores that know nothing: float64 [ranges, machines]."""
    source = RowSource(trace)
    out = np.zeros((len(ranges), len(machines())))
    for k, (first, end) in enumerate(ranges):
        cores = source.cores(machines())
        for b in source.blocks(first, end):
            edges = np.array([0, len(b.ids)], np.uint32)
            out[k] += cores.sums(b.ids, b.addr, b.bits, b.following, edges, threads)[0]
    return out


def apart(rows: int, count: int) -> int:
    """How far so many samples are apart: whole steps."""
    return rows // count // STEP * STEP


def ranges_of(rows: int, start: int, every: int) -> list[tuple[int, int]]:
    return [(b, b + LENGTH) for b in range(start, rows - LENGTH + 1, every)]


class Walked:
    """A program's whole walk: cycles of any whole steps, and of any rows about."""

    def __init__(self, path: Path) -> None:
        with np.load(path) as f:
            self.rows, self.seconds = int(f["rows"]), float(f["seconds"])
            cycles = f["cycles"]
        self._sums = np.vstack([np.zeros(cycles.shape[1]), cycles.cumsum(axis=0)])
        self.truth: F64 = self._sums[-1]

    def of(self, ranges: npt.NDArray[np.int64] | list[tuple[int, int]]) -> F64:
        """Cycles of ranges of rows, float64 [ranges, machines]; a step's rows count alike."""
        at = np.array(ranges, float) / STEP
        whole = np.minimum(at.astype(int), len(self._sums) - 2)
        part = (at - whole)[..., None]
        found = self._sums[whole] * (1 - part) + self._sums[whole + 1] * part
        out: F64 = found[:, 1] - found[:, 0]
        return out

    def starts(self, count: int) -> Iterator[tuple[F64, F64]]:
        """Estimates and half their intervals from each random start, by machine."""
        every = apart(self.rows, count)
        for k in np.random.default_rng(SEED).integers(every // STEP, size=STARTS).tolist():
            ranges = ranges_of(self.rows, k * STEP, every)
            yield Samples(ranges, self.rows, "systematic").estimate(self.of(ranges))


def sampling_table(programs: list[Program], work: Path) -> None:
    """Of samples cut out of the walks: a line a program, then what holds by machine."""
    walks = {p.name: Walked(work / f"{p.name}.walk.npz") for p in programs}
    names = [m["name"] for m in machines()]
    for count in COUNTS:
        print(f"\n{count} samples of {LENGTH:,} rows, {STARTS} starts, cut out of the walk")
        print("| program | rows | error | worst machine | half width | held | least |")
        print("|---|---|---|---|---|---|---|")
        held, errors = [], []
        for name, w in walks.items():
            found, half = (np.array(x) for x in zip(*w.starts(count), strict=True))
            off = np.abs(found / w.truth - 1)
            inside = (np.abs(found - w.truth) <= half).mean(axis=0)
            mean, wide = off.mean(axis=0), (half / found).mean()
            worst, least = int(mean.argmax()), int(inside.argmin())
            held.append(inside)
            errors.append(off)
            print(
                f"| {name} | {w.rows:,} | {mean.mean():.2%} | {mean[worst]:.2%} ({names[worst]}) | "
                f"{wide:.2%} | {inside.mean():.1%} | {inside[least]:.0%} ({names[least]}) |"
            )
        by_machine, all_errors = np.mean(held, axis=0), np.array(errors)
        of_starts = np.sort(all_errors.ravel())
        print(
            f"mean {all_errors.mean():.2%}, worst program x machine "
            f"{all_errors.mean(axis=1).max():.2%}, 95th of 100 starts "
            f"{of_starts[int(0.95 * len(of_starts))]:.2%}, largest {of_starts[-1]:.2%}; held "
            f"{by_machine.mean():.1%}, by machine {by_machine.min():.1%} to {by_machine.max():.1%}"
        )


def run_table(programs: list[Program], work: Path) -> None:
    """Of the sampled runs: what warm starts add, the whole error, and cold baselines."""
    with_prefetcher = np.array([prefetches(m) for m in machines()])
    names = [m["name"] for m in machines()]
    print(f"\nsampled runs, {COUNTS[0]} samples of {LENGTH:,} rows")
    print(
        "| program | bias of warm starts | without prefetchers | with | worst | error | worst "
        "| held | cold samples | first hundredth | walk, s | run, s |"
    )
    print("|---" * 12 + "|")
    every: list[list[float]] = []
    for p in programs:
        w = Walked(work / f"{p.name}.walk.npz")
        with np.load(work / f"{p.name}.sample.npz") as f:
            ranges, warm, cold, seconds = f["ranges"], f["warm"], f["cold"], float(f["seconds"])
        bias = warm.sum(axis=0) / w.of(ranges).sum(axis=0) - 1
        estimate = Samples([tuple(r) for r in ranges.tolist()], w.rows, "systematic").estimate
        found, half = estimate(warm)
        off = np.abs(found / w.truth - 1)
        of_cold = np.abs(estimate(cold)[0] / w.truth - 1)
        hundredth = w.rows // 100 // STEP * STEP
        beginning = np.abs(w.of([(0, hundredth)])[0] * w.rows / hundredth / w.truth - 1)
        k, j = int(np.abs(bias).argmax()), int(off.argmax())
        inside = (np.abs(found - w.truth) <= half).mean()
        size = np.abs(bias)
        every.append([size.mean(), off.mean(), off.max(), of_cold.mean(), beginning.mean(), inside])
        print(
            f"| {p.name} | {bias.mean():+.2%} | {size[~with_prefetcher].mean():.2%} | "
            f"{size[with_prefetcher].mean():.2%} | {bias[k]:+.2%} ({names[k]}) | "
            f"{off.mean():.2%} | {off[j]:.2%} ({names[j]}) | {inside:.0%} | {of_cold.mean():.1%} | "
            f"{beginning.mean():.1%} | {w.seconds:.0f} | {seconds:.0f} |"
        )
    mean = np.mean(every, axis=0)
    print(
        f"bias {mean[0]:.2%}, error {mean[1]:.2%}, worst {max(e[2] for e in every):.2%}, held "
        f"{mean[5]:.1%}; cold samples {mean[3]:.1%}, first hundredth {mean[4]:.1%}"
    )


def simpoint_table(programs: list[Program], work: Path) -> None:
    """Errors of the points' weighted cycles against the walks."""
    names = [m["name"] for m in machines()]
    print(f"\nSimPoint's points, intervals of {INTERVAL:,} instructions, all machines")
    print("| program | points | warm | worst | cut out of the walk | worst | cold | worst |")
    print("|---" * 8 + "|")
    every = []
    for p in programs:
        w = Walked(work / f"{p.name}.walk.npz")
        with np.load(work / f"{p.name}.simpoints.npz") as f:
            ranges, weights, warm, cold = (f[k] for k in ("ranges", "weights", "warm", "cold"))
        told, offs = [], []
        for sums in (warm, w.of(ranges), cold):
            cpi = (sums / np.diff(ranges, axis=1) * weights[:, None]).sum(axis=0) / weights.sum()
            off = np.abs(cpi * w.rows / w.truth - 1)
            offs.append(off)
            told.append(f"{off.mean():.2%} | {off.max():.2%} ({names[int(off.argmax())]})")
        every.append(offs)
        print(f"| {p.name} | {len(weights)} | {' | '.join(told)} |")
    all_off = np.array(every)
    for k, kind in enumerate(("warm", "cut out of the walk", "cold")):
        print(f"{kind}: mean {all_off[:, k].mean():.2%}, worst {all_off[:, k].max():.2%}")


def of_x86(program: Program) -> bool:
    return "." not in program.name


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("what", choices=("record", "walk", "sample", "simpoints", "all", "report"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", nargs="+", help="programs")
    args = parser.parse_args()
    work = args.work.resolve()
    chosen = [p for p in PROGRAMS if args.only is None or p.name in args.only]
    if args.what == "report":
        there = [p for p in chosen if (work / f"{p.name}.walk.npz").exists()]
        sampling_table(there, work)
        run_table([p for p in there if (work / f"{p.name}.sample.npz").exists()], work)
        pointed = [p for p in there if (work / f"{p.name}.simpoints.npz").exists()]
        simpoint_table(pointed, work)
        return 0
    make_inputs(work / "inputs")
    for p in chosen:
        if args.what in ("record", "all"):
            record(p, work)
        if args.what in ("walk", "all"):
            walk(p, work, args.threads)
        if args.what in ("sample", "all"):
            sample(p, work, args.threads)
        if args.what in ("simpoints", "all") and of_x86(p):
            simpoints(p, work, args.threads)
    return 0


if __name__ == "__main__":
    sys.exit(main())
