"""The sizes of what instructions wait in: two loads that miss, with others between them.

Where all of them fit, both misses proceed at a time; where they do not, one waits for the other,
and the time doubles (Henry Wong, "Measuring reorder buffer capacity", 2013).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tracekit.hardware.measure.bench import Bench, Experiment, Offsets, family
from tracekit.hardware.measure.front_end import mixture
from tracekit.hardware.measure.kernels import kernel
from tracekit.hardware.measure.library import Call, snippets, time_calls
from tracekit.hardware.measure.timing import CHAIN, CHAIN_LOOPS

__all__ = ["EXPERIMENTS", "window"]

#: Numbers of instructions between the misses that are tried first.
_SIZES = (
    *(8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    *(448, 512, 640, 768, 896, 1024),
)
_STARTS, _LOOPS = 12, 40


def _rings(bench: Bench) -> tuple[Offsets, Offsets]:
    """Two rings in memory that no cache holds, apart from one another."""
    half = bench.data.size // 2
    first = bench.lines(half, 128)[: 1 << 18]
    bench.ring(first)
    second = first + half
    after = np.roll(second, -1).astype(np.uint64) + np.uint64(bench.data.address)
    bench.data.words[second // 8] = after
    return first, second


class _Misses:
    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.first, self.second = _rings(bench)
        self.drain = [
            n
            for pair in zip(family("result", 450), family("vector", 450), strict=True)
            for n in pair
        ]

    def time(self, body: Sequence[str]) -> float:
        """Cycles of a turn of this loop, whose misses begin anywhere."""
        bench, k = self.bench, kernel(body)
        calls = [bench.timer.reference()]
        for start in bench.rng.integers(0, len(self.first), _STARTS):
            a = bench.data.address + int(self.first[start])
            b = bench.data.address + int(self.second[start])
            calls += [Call(k.entry, a, b, bench.scratch, _LOOPS), bench.timer.reference()]
        times = bench.timer.undisturbed(lambda: time_calls(calls, 1))
        if times is None:
            return float("nan")
        clock = times[0, 0::2] / (CHAIN * CHAIN_LOOPS)
        bench.timer.ns_per_cycle.append(float(clock.min()))
        ratio = times[0, 1::2] / np.minimum(clock[:-1], clock[1:]) / _LOOPS
        return float(np.quantile(ratio, 0.3))


def window(time: Callable[[int], float], most: int = 1024) -> int | None:
    """The most instructions that leave the misses at a time: where ``time`` of a number of
    instructions passes from one miss's to two; None where it does not up to ``most``."""
    sizes = [n for n in _SIZES if n <= most]
    least = float(np.median([time(n) for n in sizes[:3]]))
    fits, full = 0, None
    for n in sizes:
        if time(n) < 1.45 * least:
            fits = n
        elif time(n) >= 1.45 * least:
            full = n
            break
    if full is None:
        return None
    while full - fits > 1:
        middle = (full + fits) // 2
        if float(np.median([time(middle) for _ in range(3)])) < 1.45 * least:
            fits = middle
        else:
            full = middle
    return fits


def _between(misses: _Misses, filler: Callable[[int], list[str]]) -> int | None:
    def time(n: int) -> float:
        return misses.time(["chase_a", *filler(n), "chase_b", *filler(n)])

    return window(time)


def paired_nops(bench: Bench) -> int:
    """How many instructions that do nothing are one slot: Zen 4 allocates twelve of them a cycle,
    and six of any others."""
    plain = bench.cycles(["wide_nop"] * 240, 240)
    return 2 if bench.cycles(mixture(), len(mixture())) > 1.8 * plain else 1


def in_flight(bench: Bench) -> dict[str, float]:
    """Reorder buffer, register files and queues: what is done, but cannot retire."""
    misses = _Misses(bench)

    def mixed(n: int) -> list[str]:
        return [m for p in zip(family("result", n), family("vector", n), strict=True) for m in p][
            :n
        ]

    tried = {
        "nop": _between(misses, lambda n: ["wide_nop"] * n),
        "move": _between(misses, lambda n: family("move", n)),
        "mixed": _between(misses, mixed),
        "int_registers": _between(misses, lambda n: family("result", n)),
        "vector_registers": _between(misses, lambda n: family("vector", n)),
        "load_queue": _between(misses, lambda n: family("vector_load", n)),
        "store_queue": _between(misses, lambda n: family("store", n)),
    }
    found = {k: float(v) for k, v in tried.items() if v is not None}
    if "nop" in found:  # where two of them are one slot
        found["nop"] /= paired_nops(bench)
    whole = [found.pop(k) for k in ("nop", "move", "mixed") if k in found]
    if whole:
        found["rob"] = max(whole) + 2  # with the misses
    return found


def waiting(bench: Bench) -> dict[str, float]:
    """Schedulers: what waits for the first miss, before the second can begin."""
    misses = _Misses(bench)
    found = {}
    for name in ("add", "load", "store", "vector", "branch"):
        if not family_exists(f"wait_{name}"):
            continue

        def time(n: int, name: str = name) -> float:
            waits = family(f"wait_{name}", n)
            return misses.time(["chase_a", "wait_begin", *waits, "chase_b", *misses.drain])

        size = window(time, 512)
        if size is not None:
            found[f"waiting_{name}"] = float(size)
    return found


def family_exists(prefix: str) -> bool:
    """Whether there are snippets of this family."""
    return f"{prefix}0" in snippets()


EXPERIMENTS = (
    Experiment("in flight", "reorder buffer, registers, queues", in_flight, 0.04, 2.0),
    Experiment("waiting", "schedulers", waiting, 0.08, 3.0),
)
