"""A trace in segments that begin warm: how far off its cycles are, and what it takes.

    python bench/segments.py TRACE.zst ... [--rows 1000000 4000000] [--machines u007 o3_small]

For each trace (features, of the model's level) and each length of segments: by how much the cycles
of the shipped model's machines differ from those of one walk, without and with prefetchers, and the
machines that differ most.  Then seconds by the clock and of the processor, of the machine of
``--one`` alone: the pass that segments begin from, one walk, and segments, by 1 and 2 threads, the
best of ``--rounds``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from warm_starts import F64, prefetches

import tracekit
from tracekit.mixture import load_model
from tracekit.sim import RowSource, segment_sums, totals


def told(bias: F64, cores: list[dict[str, object]], which: F64, kind: str) -> None:
    if which.any():
        own = bias[which]
        worst = np.flatnonzero(which)[np.argsort(-np.abs(own))[:3]]
        print(
            f"    {kind} prefetchers: bias {own.mean():+.3%}, mean of sizes "
            f"{np.abs(own).mean():.3%}, worst "
            + ", ".join(f"{cores[j]['name']} {bias[j]:+.3%}" for j in worst)
        )


def bias(path: str, names: list[str] | None, lengths: list[int]) -> None:
    with tracekit.open(path) as trace:
        cores = load_model(None, trace.arch).cores
        if names:
            cores = [c for c in cores if c["name"] in names]
        source = RowSource(trace)
        began = time.process_time()
        whole = totals(trace, cores)[0]
        used = time.process_time() - began
        said = f"{len(trace):,} rows, {len(cores)} machines; {used:.1f} s of CPU"
        print(f"{Path(path).name}: {said}", flush=True)
        with_prefetcher = np.array([prefetches(c) for c in cores])
        for length in lengths:
            began = time.process_time()
            found = segment_sums(source, cores, length).sum(axis=0)
            used = time.process_time() - began
            print(f"  segments of {length:,} rows: {used:.1f} s of CPU")
            told(found / whole - 1, cores, ~with_prefetcher, "without")
            told(found / whole - 1, cores, with_prefetcher, "with")


def seconds(call: Callable[[], object]) -> tuple[float, float]:
    clock, processor = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - clock, time.process_time() - processor


def passed(trace: tracekit.TraceFile, core: list[dict[str, object]]) -> None:
    """What no number of threads makes shorter: rows decoded and observed, none walked."""
    source = RowSource(trace)
    cores = source.cores(core)
    for b in source.blocks(0, len(source)):
        cores.observe(b.ids, b.addr, b.bits, b.following)


def speed(path: str, one: str, lengths: list[int], rounds: int) -> None:
    with tracekit.open(path) as trace:
        core = [c for c in load_model(None, trace.arch).cores if c["name"] == one]
        calls: dict[str, Callable[[], object]] = {"the pass alone": lambda: passed(trace, core)}
        for n in (1, 2):
            calls[f"one walk, {n} threads"] = lambda n=n: totals(trace, core, threads=n)
            for r in lengths:
                calls[f"segments of {r:,}, {n} threads"] = lambda n=n, r=r: segment_sums(
                    trace, core, r, threads=n
                )
        found: dict[str, list[tuple[float, float]]] = {k: [] for k in calls}
        for _ in range(rounds):
            for name, call in calls.items():
                found[name].append(seconds(call))
    for name, times in found.items():
        clock, processor = (min(t) for t in zip(*times, strict=True))
        told = f"{clock:.2f} s, {processor:.2f} s of CPU"
        print(f"  {Path(path).name}, {one}, {name}: {told}", flush=True)


def main() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", nargs="+")
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 4_000_000])
    parser.add_argument("--machines", nargs="+")
    parser.add_argument("--one", nargs="*", default=["o3_small", "u007"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-bias", action="store_true")
    args = parser.parse_args()
    for path in args.traces:
        if not args.no_bias:
            bias(path, args.machines, args.rows)
        for one in args.one:
            speed(path, one, args.rows, args.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
