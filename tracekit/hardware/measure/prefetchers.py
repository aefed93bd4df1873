"""Prefetchers: what a load costs whose place follows from those before it."""

from __future__ import annotations

import numpy as np

from tracekit.hardware.measure.bench import PAGE, Bench, Experiment
from tracekit.hardware.measure.kernels import kernel
from tracekit.hardware.measure.timing import Run

__all__ = ["EXPERIMENTS", "STRIDES"]

#: Bytes between successive loads.
STRIDES = (64, 128, 192, 256, 512, 1024, 2048, 4096, 8192, -64, -256, -1024)
_LOADS = 320


def strides(bench: Bench) -> dict[str, float]:
    """Cycles of a load in a chain of steady stride through memory that no cache holds."""
    k = kernel(["stride_chain"] * 10, 10)
    found = {}
    bench.data.words[::8] = 0
    for stride in STRIDES:
        bench.flush()
        span = _LOADS * abs(stride)
        times = []
        for place in bench.rng.permutation(bench.data.size // span - 1)[:6]:
            start = int(place) * span + (span if stride < 0 else 0)
            run = Run(k, bench.data.address + start, stride % 2**64, count=_LOADS // 10)
            times.append(bench.timer.cycles(run, 1) or np.nan)
        found[f"stride_{stride}_cycles"] = float(np.median(times))
    return found


def neighbours(bench: Bench) -> dict[str, float]:
    """Cycles of a second load in a page that was not touched before, by its distance in lines; the
    first is on an even line."""
    found = {}
    pages = bench.rng.permutation(bench.data.size // PAGE)
    distances = (1, -1, 2, -2, 3, 5, 8, 20)
    each = len(pages) // (2 * len(distances))
    for i, distance in enumerate(distances):
        times = []
        for part in (2 * i, 2 * i + 1):
            chosen = pages[part * each : (part + 1) * each].astype(np.int64)
            first = chosen * PAGE + (22 + 2 * bench.rng.integers(0, 9, each)) * 64
            places = np.stack((first, first + distance * 64), axis=1).ravel()
            steps = 2 * (each // 10)
            ring = first if part % 2 else places
            bench.ring(ring)
            bench.flush()
            walk = bench.walk(ring, warm=False, steps=steps, rounds=9, chase=bench.pair, link=False)
            times.append(float(np.median(walk)))
        found[f"neighbour_{distance}_cycles"] = max(2 * times[0] - times[1], 0.0)
    return found


EXPERIMENTS = (
    Experiment("strides", "prefetchers by stride", strides, 0.35, 8.0, alone=False),
    Experiment("neighbours", "prefetchers by place", neighbours, 0.3, 60.0, alone=False),
)
