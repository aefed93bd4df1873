"""What samples of a long trace leave out: bias of warm starts, and how often intervals hold.

    python bench/warm_starts.py TRACE.zst ... [--machines u007 o3_small] [--starts 200]

For each trace (features, of the model's level) and each machine of the shipped model: by how much
the cycles of samples that begin warm differ from the same rows of a walk of the whole trace, for
machines without and with prefetchers, and the machines that differ most; and of systematic samples
from ``--starts`` random starts, cut out of the whole walk, how often the 95 % interval holds the
whole trace's cycles.  ``--samples``, ``--insts``, ``--approach`` and ``--warm`` change the samples.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import tracekit
from tracekit.mixture import load_model
from tracekit.sim import KeptRows, Samples, sample_sums, totals
from tracekit.sim.samples import APPROACH, WARM

F64 = npt.NDArray[np.float64]


def prefetches(machine: Mapping[str, Any]) -> bool:
    """Whether it has a prefetcher that brings lines (gem5's BOP finds nothing)."""
    return machine["l1d_pf"] != "none" or machine["l2_pf"] not in ("none", "bop")


def held(cycles: F64, length: int, every: int, starts: int, seed: int = 0) -> F64:
    """How often intervals hold, by machine: ``cycles`` float64 [rows / length, machines]."""
    n, apart = len(cycles), every // length
    truth = cycles.sum(axis=0)
    out = np.zeros(cycles.shape[1])
    for start in np.random.default_rng(seed).integers(apart, size=starts).tolist():
        at = np.arange(start, n, apart)
        places = [(int(a) * length, (int(a) + 1) * length) for a in at]
        found, half = Samples(places, n * length, "systematic").estimate(cycles[at])
        out += np.abs(found - truth) <= half
    return out / starts


def measured(path: str, names: list[str] | None, args: argparse.Namespace) -> None:
    """One trace: prints."""
    with tracekit.open(path) as trace:
        cores = load_model(None, trace.arch).cores
        kept = KeptRows(trace)
    if names:
        cores = [c for c in cores if c["name"] in names]
    n, length = len(kept), args.insts
    every = max(2 * length, n // args.samples)
    samples = [(a, a + length) for a in range(every // 2, n - length, every)]
    windows = n // length
    began = time.process_time()
    whole = totals(kept, cores, [k * length for k in range(windows + 1)], threads=1)
    walked = time.process_time()
    # Samples begin where windows do, so that both are sums of the same rows.
    at = [a // length for a, _ in samples]
    samples = [(k * length, (k + 1) * length) for k in at]
    found = sample_sums(
        kept, cores, samples, approach=args.approach, warm=args.warm, threads=1
    ).sum(axis=0)
    sampled = time.process_time()
    bias = found / whole[at].sum(axis=0) - 1
    print(
        f"{Path(path).name}: {n:,} rows, {len(cores)} machines, {len(samples)} samples of "
        f"{length:,}; whole {walked - began:.1f} s, samples {sampled - walked:.1f} s of CPU"
    )
    with_prefetcher = np.array([prefetches(c) for c in cores])
    for kind, which in (("without", ~with_prefetcher), ("with", with_prefetcher)):
        if which.any():
            own = bias[which]
            print(
                f"  {kind} prefetchers: bias {own.mean():+.2%}, mean of sizes "
                f"{np.abs(own).mean():.2%}, worst {np.abs(own).max():.2%}"
            )
    worst = np.argsort(-np.abs(bias))[: args.worst]
    print("  " + ", ".join(f"{cores[j]['name']} {bias[j]:+.2%}" for j in worst))
    share = held(whole, length, every, args.starts)
    print(
        f"  intervals hold: {share.mean():.1%} of starts, by machine {share.min():.1%} to "
        f"{share.max():.1%}",
        flush=True,
    )


def main() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", nargs="+")
    parser.add_argument("--machines", nargs="+")
    parser.add_argument("--samples", type=int, default=40)
    parser.add_argument("--insts", type=int, default=10_000)
    parser.add_argument("--approach", type=int, default=APPROACH)
    parser.add_argument("--warm", type=int, default=WARM)
    parser.add_argument("--starts", type=int, default=200)
    parser.add_argument("--worst", type=int, default=5)
    args = parser.parse_args()
    for path in args.traces:
        measured(path, args.machines, args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
