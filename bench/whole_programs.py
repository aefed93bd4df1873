"""Sampling against walks of whole programs: errors, and how often intervals hold.

    python bench/whole_programs.py WORK record        # the programs under QEMU, to features
    python bench/whole_programs.py WORK walk          # every row, on the machines of the X86 model
    python bench/whole_programs.py WORK sample        # a sampled run of each, warm; and from cold
    python bench/whole_programs.py WORK all           # these three of one program after another
    python bench/whole_programs.py WORK report        # the tables, of what is there

WORK has what was made: run again, a command goes on where it was stopped.  The programs are in
whole_program_list.py.  Of each the first `INSTRUCTIONS` are recorded and walked, and cycles are
kept of every `STEP` rows.  Errors of sampling alone are of systematic and of stratified samples
from `STARTS` random starts or draws, cut out of the walk; what warm starts add is seen in one
sampled run a program.  Programs, machines, seeds and numbers of samples were written before
anything was walked.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from warm_starts import prefetches
from whole_program_list import CHOOSING, PROGRAMS, SEED, Program, command_of, make_inputs

import tracekit
from tracekit.mixture import load_model
from tracekit.record.qemu import QemuOptions, extract_qemu
from tracekit.sim import RowSource, SamplePlan, Samples, sample_sums, totals
from tracekit.sim.stretch_costs import stretch_costs

F64 = npt.NDArray[np.float64]
INSTRUCTIONS = 100_000_000
STEP = 1_000
#: Rows of a sample; how many samples; random starts.  Runs of samples, warm and cold, have `RUN`.
LENGTH, COUNTS, STARTS = 10_000, (200, 500, 1_000), 100
RUN = 500
#: How samples are chosen that are cut out of walks.
CHOICES = ("systematic", "stratified")


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
            samples = stratified(costs_of(trace), len(trace), RUN, SEED)
            warm = sample_sums(trace, machines(), samples.ranges, threads=threads)
            cold = from_cold(trace, samples.ranges, threads)
        own = {k: np.array(getattr(samples, k)) for k in ("ranges", "stratum", "sizes")}
        return {**own, "warm": warm, "cold": cold}

    kept(work / f"{program.name}.stratified.npz", make)


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


def systematic(rows: int, count: int) -> Iterator[Samples]:
    """Samples whole steps apart, from each random start."""
    every = rows // count // STEP * STEP
    for k in np.random.default_rng(SEED).integers(every // STEP, size=STARTS).tolist():
        begins = range(k * STEP, rows - LENGTH + 1, every)
        yield Samples([(b, b + LENGTH) for b in begins], rows, "systematic")


def costs_of(trace: tracekit.TraceFile) -> F64:
    """What the trace's stretches should cost, by which `predict --samples` draws them."""
    return stretch_costs(RowSource(trace), SamplePlan(LENGTH).begins(len(trace)), LENGTH)


def stratified(costs: F64, rows: int, count: int, seed: int) -> Samples:
    """As `predict --samples` draws them, but for that they begin with the step that they are in."""
    plan = SamplePlan(LENGTH, count=count, seed=seed)
    found = plan.draw(rows, lambda _: np.zeros(0, np.intp), lambda _: costs)
    begins = [a // STEP * STEP for a, _ in found.ranges]
    return replace(found, ranges=[(a, a + LENGTH) for a in begins])


class Walked:
    """A program's whole walk: cycles of any whole steps, and of any rows about."""

    def __init__(self, name: str, work: Path) -> None:
        with np.load(work / f"{name}.walk.npz") as f:
            self.rows, self.seconds = int(f["rows"]), float(f["seconds"])
            cycles = f["cycles"]
        self._trace = work / f"{name}.zst"
        self._sums = np.vstack([np.zeros(cycles.shape[1]), cycles.cumsum(axis=0)])
        self.truth: F64 = self._sums[-1]

    @cached_property
    def costs(self) -> F64:
        """Of `costs_of`."""
        with tracekit.open(self._trace) as trace:
            return costs_of(trace)

    def of(self, ranges: npt.NDArray[np.int64] | list[tuple[int, int]]) -> F64:
        """Cycles of ranges of rows, float64 [ranges, machines]; a step's rows count alike."""
        at = np.array(ranges, float) / STEP
        whole = np.minimum(at.astype(int), len(self._sums) - 2)
        part = (at - whole)[..., None]
        found = self._sums[whole] * (1 - part) + self._sums[whole + 1] * part
        out: F64 = found[:, 1] - found[:, 0]
        return out

    def draws(self, count: int, choice: str) -> Iterator[tuple[F64, F64]]:
        """Estimates and half their intervals of each start or draw, by machine."""
        of_seeds = (stratified(self.costs, self.rows, count, SEED + k) for k in range(STARTS))
        for samples in systematic(self.rows, count) if choice == "systematic" else of_seeds:
            yield samples.estimate(self.of(samples.ranges))


class Drawn(NamedTuple):
    """Of a program, float64 [draws, machines]: relative errors, half widths, whether they hold."""

    off: F64
    half: F64
    inside: F64

    def line(self, names: list[str]) -> str:
        """Columns of the table."""
        mean, inside = self.off.mean(axis=0), self.inside.mean(axis=0)
        worst, least = int(mean.argmax()), int(inside.argmin())
        return (
            f"{mean.mean():.2%} | {mean[worst]:.2%} ({names[worst]}) | {self.half.mean():.2%} | "
            f"{inside.mean():.1%} | {inside[least]:.0%} ({names[least]})"
        )


def drawn(walk: Walked, count: int, choice: str) -> Drawn:
    found, half = (np.array(x) for x in zip(*walk.draws(count, choice), strict=True))
    inside = (np.abs(found - walk.truth) <= half).astype(float)
    return Drawn(np.abs(found / walk.truth - 1), half / found, inside)


def sampling_table(programs: list[Program], work: Path) -> None:
    """Of samples cut out of the walks: a line a program, then what holds by machine."""
    walks = {p.name: Walked(p.name, work) for p in programs}
    names = [m["name"] for m in machines()]
    for count in COUNTS:
        print(f"\n{count} samples of {LENGTH:,} rows, {STARTS} draws, cut out of the walk")
        heads = [f"{c}: error | worst machine | half width | held | least" for c in CHOICES]
        print(f"| program | rows | {' | '.join(heads)} |")
        print("|---" * (2 + 5 * len(CHOICES)) + "|")
        found: dict[str, list[Drawn]] = {c: [] for c in CHOICES}
        for name, w in walks.items():
            own = [drawn(w, count, c) for c in CHOICES]
            for c, d in zip(CHOICES, own, strict=True):
                found[c].append(d)
            print(f"| {name} | {w.rows:,} | {' | '.join(d.line(names) for d in own)} |")
        for c in CHOICES:
            off, half, inside = (np.array([d[k] for d in found[c]]) for k in range(3))
            by_machine, by_program = inside.mean(axis=(0, 1)), inside.mean(axis=(1, 2))
            least = list(walks)[int(by_program.argmin())]
            print(
                f"{c}: mean {off.mean():.2%}, worst program x machine "
                f"{off.mean(axis=1).max():.2%}, 95th of 100 {np.quantile(off, 0.95):.2%}, largest "
                f"{off.max():.2%}; half width {half.mean():.2%}, median {np.median(half):.2%}; "
                f"held {inside.mean():.1%}, by machine {by_machine.min():.1%} to "
                f"{by_machine.max():.1%}, least program {by_program.min():.1%} ({least})"
            )


def run_table(programs: list[Program], work: Path) -> None:
    """Of the sampled runs: what warm starts add, the whole error, and cold baselines."""
    with_prefetcher = np.array([prefetches(m) for m in machines()])
    names = [m["name"] for m in machines()]
    print(f"\nsampled runs, {RUN} samples of {LENGTH:,} rows")
    print(
        "| program | bias of warm starts | without prefetchers | with | worst | error | worst "
        "| held | cold samples | first hundredth | walk, s | run, s |"
    )
    print("|---" * 12 + "|")
    every: list[list[float]] = []
    sizes: list[F64] = []
    for p in programs:
        w = Walked(p.name, work)
        with np.load(work / f"{p.name}.stratified.npz") as f:
            ranges, warm, cold, seconds = f["ranges"], f["warm"], f["cold"], float(f["seconds"])
            lists = [tuple(f[k].tolist()) for k in ("stratum", "sizes")]
        of_rows = [(a, b) for a, b in ranges.tolist()]
        estimate = Samples(of_rows, w.rows, "stratified", *lists).estimate
        found, half = estimate(warm)
        bias = found / estimate(w.of(ranges))[0] - 1
        off = np.abs(found / w.truth - 1)
        of_cold = np.abs(estimate(cold)[0] / w.truth - 1)
        hundredth = w.rows // 100 // STEP * STEP
        beginning = np.abs(w.of([(0, hundredth)])[0] * w.rows / hundredth / w.truth - 1)
        k, j = int(np.abs(bias).argmax()), int(off.argmax())
        inside = (np.abs(found - w.truth) <= half).mean()
        size = np.abs(bias)
        sizes.append(size)
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
    by_machine = np.mean(sizes, axis=0)
    for kind, which in (("without", ~with_prefetcher), ("with", with_prefetcher)):
        own = ", ".join(f"{names[j]} {by_machine[j]:.2%}" for j in np.flatnonzero(which))
        print(f"bias {kind} prefetchers {by_machine[which].mean():.2%}: {own}")


def named(only: list[str] | None) -> list[Program]:
    """The study's programs, or of all that there are those that are asked for."""
    if only is None:
        return list(PROGRAMS)
    return [p for p in (*PROGRAMS, *CHOOSING) if p.name in only]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("what", choices=("record", "walk", "sample", "all", "report"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", nargs="+", help="programs")
    args = parser.parse_args()
    work = args.work.resolve()
    chosen = named(args.only)
    if args.what == "report":
        there = [p for p in chosen if (work / f"{p.name}.walk.npz").exists()]
        sampling_table(there, work)
        run_table([p for p in there if (work / f"{p.name}.stratified.npz").exists()], work)
        return 0
    make_inputs(work / "inputs")
    for p in chosen:
        if args.what in ("record", "all"):
            record(p, work)
        if args.what in ("walk", "all"):
            walk(p, work, args.threads)
        if args.what in ("sample", "all"):
            sample(p, work, args.threads)
    return 0


if __name__ == "__main__":
    sys.exit(main())
