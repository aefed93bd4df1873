"""Caches, TLBs and memory: walks along random rings of pointers, and streams."""

from __future__ import annotations

import numpy as np

from tracekit.hardware.measure.bench import PAGE, Bench, Experiment, Offsets, first_above
from tracekit.hardware.measure.kernels import kernel
from tracekit.hardware.measure.library import snippets
from tracekit.hardware.measure.timing import Run

__all__ = ["EXPERIMENTS", "latency_curve"]

#: Of 64 bytes in a page.
_LINES = PAGE // 64


def latency_curve(bench: Bench, most: int = 128 << 20) -> dict[int, float]:
    """Cycles of a load along a random ring, by the bytes of the ring."""
    sizes = [int(2 ** (k / 4)) // 4096 * 4096 for k in range(48, 200)]
    return {
        n: bench.latency(bench.lines(n), steps=16_000, rounds=5, warm=n <= 16 << 20)
        for n in sizes
        if n <= most
    }


def _pages_held(bench: Bench, pool: int, hit: float, miss: float) -> int:
    """How many pages a cache can hold whole; ``hit`` and ``miss``: cycles of a load that finds its
    line there or does not.

    Which of a cache's sets a page belongs to depends on where the page really is, which a program
    cannot see, so a walk along any pages misses here and there long before the cache is full.
    Pages are taken one by one instead, and one that makes others miss is left out: what was taken
    in the end fills every set.
    """
    pages = bench.rng.permutation(bench.small.size // PAGE)[:pool].astype(np.int64)
    start = int(bench.found["l1d_kb"]) * 1024 // PAGE + 4  # behind the data cache's own misses
    taken, refused = list(pages[:start]), 0
    lap, limit = _lap(bench, taken), _LINES * (hit + 2 * (miss - hit))
    for page in pages[start:]:
        time = _lap(bench, [*taken, page])
        if time - lap > limit:
            time = _lap(bench, [*taken, page])
        if time - lap <= limit:
            taken, lap, refused = [*taken, page], time, 0
        else:
            refused += 1
            if refused % 16 == 0:  # it may have been measured in a good moment
                lap = _lap(bench, taken)
            if refused > max(24, len(taken) // 4):
                break
    found = hit + bench.found.get("tlb_l2_latency", 0.0) + 2
    if min(_lap(bench, taken) for _ in range(3)) <= found * _LINES * len(taken):
        return len(taken)
    return _conflict_free(bench, taken, _LINES * (found + 0.4 * (miss - hit)))


def _conflict_free(bench: Bench, taken: list[np.int64], limit: float) -> int:
    """How many of these pages are left without those that were taken in a bad moment: without one
    of them the others are faster by more than ``limit``, which is below what a miss of each of its
    own lines costs."""
    lap = min(_lap(bench, taken) for _ in range(3))
    for page in list(taken):
        fewer = [t for t in taken if t != page]
        if lap - _lap(bench, fewer) > limit and lap - (time := _lap(bench, fewer)) > limit:
            taken, lap = fewer, time
    return len(taken)


def _lap(bench: Bench, pages: list[np.int64]) -> float:
    """Cycles of a walk along all lines of these pages."""
    places = (np.array(pages)[:, None] * PAGE + np.arange(_LINES) * 64).ravel()
    order = bench.rng.permutation(places)
    walks = bench.walk(order, bench.small, steps=len(order), rounds=5)
    return len(order) * float(np.median(walks))


def first_cache(bench: Bench) -> dict[str, float]:
    """Latency, size and ways of the data cache, and the size of a line."""
    found = {"load_latency": bench.latency(bench.lines(PAGE))}
    least = found["load_latency"] + 2.0

    def time(pages: int) -> float:
        return bench.latency(bench.lines(pages * PAGE))

    full = first_above(time, [2**k for k in range(1, 9)], least)
    if full is None:
        return found
    # the first size that misses in each of its sets, or in some of them
    found["l1d_kb"] = (full - 1) * PAGE / 1024
    found["l2_latency_raw"] = bench.latency(bench.lines(int(found["l1d_kb"]) * 1024 * 2))
    found["line_bytes"] = _line(bench, int(found["l1d_kb"]) << 10)
    return found


def _line(bench: Bench, size: int) -> float:
    """Bytes from a place to the nearest that has to be fetched separately: where a second load
    costs nearer to one of another line than to one of the same line, whose line may still be on
    its way into the cache."""
    block = 1024
    blocks = bench.rng.permutation(8 * size // block).astype(np.int64) * block
    alone = bench.latency(blocks)

    def second(distance: int) -> float:
        pairs = np.stack((blocks, blocks + distance), axis=1).ravel()
        return 2 * bench.latency(pairs) - alone

    same, other = second(8), second(block // 2)
    for distance in (16, 32, 64, 128, 256):
        if second(distance) > (same + other) / 2:
            return float(distance)
    return float(block // 2)


def second_cache(bench: Bench) -> dict[str, float]:
    """Latency and size of the second cache."""
    l1 = int(bench.found["l1d_kb"]) << 10
    latency = bench.latency(bench.lines(3 * l1 // 2), rounds=11)
    # roughly: where a walk takes half as long again
    rough = first_above(
        lambda n: bench.latency(bench.lines(n * PAGE), rounds=5),
        [l1 // PAGE * 2**k for k in range(1, 13)],
        1.9 * latency,
        step=16,
    )
    found = {"l2_latency": latency}
    if rough is not None:
        behind = bench.latency(bench.lines(2 * rough * PAGE))
        most = min(4 * rough, bench.small.size // PAGE)
        held = _pages_held(bench, most, latency, min(behind, latency + 30))
        found["l2_kb"] = held * PAGE / 1024
    return found


def _first_above_pages(bench: Bench, threshold: float, sizes: list[int], step: int) -> int | None:
    return first_above(lambda n: _page_cost(bench, n), sizes, threshold, step)


def _page_cost(bench: Bench, pages: int) -> float:
    """Cycles that a line in each of so many pages takes more than the same lines side by side."""
    order = bench.rng.permutation(pages).astype(np.int64)
    spread = order * PAGE + (order * 7919 % 64) * 64
    apart = bench.latency(spread, bench.small, rounds=5)
    return apart - bench.latency(order * 64, bench.small, rounds=5)


def tlb(bench: Bench) -> dict[str, float]:
    """Reach and cost of the TLBs, for small pages."""
    found: dict[str, float] = {}
    first = _first_above_pages(bench, 2.0, [2**k for k in range(3, 11)], 1)
    if first is None:
        return found
    found["dtlb"] = first - 1
    cost = float(np.median([_page_cost(bench, 2 * first) for _ in range(5)]))
    found["tlb_l2_latency"] = cost
    far = min(1 << 14, bench.small.size // PAGE // 2)
    walks = float(np.median([_page_cost(bench, far) for _ in range(3)]))
    second = _first_above_pages(
        bench,
        cost + 0.15 * (walks - cost),
        [n for k in range(2, 12) if (n := first * 2**k) <= far],
        max(32, first),
    )
    if second is not None:
        found["tlb_l2"] = second
    found["page_walk"] = walks - cost
    return found


def third_cache(bench: Bench) -> dict[str, float]:
    """Latency and usable size of the third cache, latency of memory."""
    l2 = int(bench.found["l2_kb"]) << 10
    second_tlb = bench.found.get("tlb_l2_latency", 0.0)
    reach = bench.found.get("dtlb", 64.0) * PAGE
    memory = memory_latency(bench)
    # a walk along three times the second cache leaves nothing for it
    sizes = [2 * l2, 5 * l2 // 2, 3 * l2]
    l3 = min(
        bench.latency(bench.lines(n), rounds=9) - second_tlb * max(0.0, 1 - reach / n)
        for n in sizes
    )
    found = {"memory_cycles": memory, "l3_there": float(l3 <= 0.8 * memory)}
    if not found["l3_there"]:
        return found
    found["l3_latency"] = l3
    half = first_above(
        lambda n: bench.latency(bench.lines(n * l2), steps=40_000, rounds=5),
        [3 * 2**k for k in range(7)],
        (l3 + memory) / 2,
    )
    if half is not None:
        found["l3_kb"] = half * l2 / 1024
    return found


def memory_latency(bench: Bench) -> float:
    """Cycles of a load that no cache has, whose page the TLB knows: within blocks of 48 pages, one
    in eight lines in random order."""
    bench.flush()
    return bench.latency(_blocks(bench, 48, 8), warm=False, steps=16_000, rounds=9)


def _blocks(bench: Bench, pages: int, lines: int) -> Offsets:
    """Places in the whole memory, ``lines`` of each page, in blocks of ``pages`` pages."""
    total = bench.data.size // PAGE // pages
    first = np.arange(pages * lines)
    out = []
    for block in bench.rng.permutation(total)[:400]:
        inside = bench.rng.permutation(first)
        line = (inside % lines) * (64 // lines) + bench.rng.integers(0, 64 // lines, len(first))
        out.append((int(block) * pages + inside // lines) * PAGE + line * 64)
    return np.concatenate(out).astype(np.int64)


def _streams() -> list[tuple[str, str]]:
    known = snippets()
    return [
        (kind, f"stream_{kind}64{wide}")
        for kind in ("read", "write")
        for wide in ("", "_wide", "_wider")
        if f"stream_{kind}64{wide}" in known
    ]


def bandwidth(bench: Bench) -> dict[str, float]:
    """Bytes a cycle from and to each cache and memory, by the widest vectors there are."""
    l1 = int(bench.found["l1d_kb"]) << 10
    l2 = int(bench.found["l2_kb"]) << 10
    sizes = {"l1": _power(l1 // 2), "l2": _power(l2 // 4), "l3": _power(2 * l2)}
    sizes["memory"] = bench.data.size
    if "l3_latency" not in bench.found:
        del sizes["l3"]
    found: dict[str, float] = {}
    for kind, name in _streams():
        k = kernel([name, "stream_wrap"], 256)
        for level, size in sizes.items():
            laps = 1 if size > 64 << 20 else max(2, (1 << 18) // size)
            run = Run(k, bench.data.address, size - 1, count=laps * size // 256)
            cycles = bench.timer.cycles(run, 5 if laps == 1 else 11)
            if cycles is not None:
                key = f"{level}_{kind}_bytes"
                found[key] = max(found.get(key, 0.0), 1 / cycles)
    return found


def _power(size: int) -> int:
    return 1 << (size.bit_length() - 1)


def parallel_misses(bench: Bench) -> dict[str, float]:
    """How many misses proceed at a time: the latency over the time of an independent one."""
    found = {}
    l2 = int(bench.found["l2_kb"]) << 10
    indices = bench.small.words.view(np.uint32)
    for level, size, latency in (
        ("l2", l2 // 2, bench.found["l2_latency"]),
        ("memory", bench.data.size, bench.found["memory_cycles"]),
    ):
        n = 1 << 14
        k = kernel(["random_load"] * 16, 16)
        best = 1e9
        for _ in range(5):
            if level == "l2":
                places = bench.rng.permutation(size // 64)[:n] * 64
            else:
                places = _blocks(bench, 48, 8)[:n]
            indices[: len(places)] = places
            run = Run(k, bench.data.address, bench.small.address, count=len(places) // 16)
            rounds = 5 if level == "l2" else 1
            best = min(best, bench.timer.cycles(run, rounds) or 1e9)
        found[f"{level}_misses"] = latency / best
    return found


EXPERIMENTS = (
    Experiment("first cache", "data cache", first_cache, 0.03, alone=False),
    Experiment("tlb", "TLBs", tlb, 0.15, 2.0, {"dtlb": 0.02, "tlb_l2": 0.25}, alone=False),
    Experiment("second cache", "second cache", second_cache, 0.04, own={"l2_kb": 0.0}, alone=False),
    Experiment(
        "third cache", "third cache and memory", third_cache, 0.1, 2.0, {"l3_kb": 0.35}, alone=False
    ),
    Experiment("bandwidth", "bandwidths", bandwidth, 0.12, alone=False),
    Experiment("parallel misses", "misses at a time", parallel_misses, 0.15, alone=False),
)
