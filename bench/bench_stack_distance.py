"""Exact stack distance on one core: tracekit beside the floor and the two classic algorithms.

``pytest bench/bench_stack_distance.py --benchmark-only`` times each once;
``PYTHONPATH=.:tests python bench/bench_stack_distance.py`` interleaves rounds of all of them and
prints rates, ratios and their geometric means (``--json`` for machines).  All do the same work.
Results are compared with the Fenwick tree's, and with the oracle's at the beginning of each stream.

The floor looks each line up in the table of last accesses that tracekit uses and stores the new
stamp, and nothing else.  It takes the accesses one by one: a filter of repeats lets tracekit pass
it where programs touch one line again and again.  Peers are plain re-implementations (csrc/bench);
the Python package libcachesim computes no stack distances.  Times are of the thread's CPU clock.

The five streams are those of issue 10: zipf (exponent 1) over 1e6 lines and uniform over 1e5, both
in random places; a scan of 1e5; the data and the fetch lines of programs: functional text in the
folder that TRACEKIT_TRACES names (else ../shared/traces, where there is one), a program at a time,
again from the beginning where there are too few; else `program_like`.
"""

from __future__ import annotations

import argparse
import json
import lzma
import math
import os
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import peers
import pytest
from oracles.stack_distance import stack_distance as oracle
from table import done

from tracekit import _core

Lines = npt.NDArray[np.uint64]
ACCESSES = 1_000_000
STREAMS = ("zipf", "uniform", "scan", "data", "fetch")
ISAS = ("portable", "avx2", "avx512")


def program_like(seed: int, fetch: bool, n: int) -> Lines:
    """Loops in loops over arrays, a stack, and calls of a few hundred functions."""
    rng = np.random.default_rng(seed)
    parts: list[Lines] = []
    count = 0
    starts = rng.integers(0, 40_000, 400) * 5  # arrays, or functions
    while count < min(n, 500_000):
        start = int(starts[min(rng.zipf(1.3), 400) - 1])
        if fetch:
            # A loop's body of some lines, four instructions or so a line.
            body = np.repeat(np.arange(start, start + rng.integers(1, 12)), rng.integers(2, 9))
        else:
            span = int(min(rng.pareto(0.8) * 8 + 1, 4000))
            body = np.repeat(np.arange(start, start + span), rng.integers(1, 5))
            stack = 1 << 40 | rng.integers(0, 6, len(body))
            body = np.where(rng.random(len(body)) < 0.3, stack, body)
        part = np.tile(body, int(min(rng.geometric(0.1), 1 + 20_000 // len(body))))
        parts.append(part.astype(np.uint64))
        count += len(part)
    once = np.concatenate(parts)
    return np.tile(once, -(-n // len(once)))[:n]


def traces() -> Path | None:
    named = os.environ.get("TRACEKIT_TRACES")
    folder = Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "traces"
    return folder / "exec" if (folder / "exec").is_dir() else None


def program_lines(fetch: bool, n: int) -> Lines:
    folder = traces()
    if folder is None:
        return program_like(1, fetch, n)
    pattern = re.compile(rb"cpu: 0x([0-9a-f]+)" if fetch else rb" A=0x([0-9a-f]+)")
    parts: list[Lines] = []
    count = 0
    for path in sorted(folder.glob("*.xz"))[::2]:
        with lzma.open(path) as f:
            found = pattern.findall(f.read())
        parts.append(np.array([int(x, 16) for x in found], np.uint64) >> np.uint64(6))
        count += len(parts[-1])
        if count >= n:
            break
    all_lines = np.concatenate(parts)
    return np.tile(all_lines, -(-n // len(all_lines)))[:n]


@lru_cache(maxsize=len(STREAMS))
def stream(name: str, n: int = ACCESSES) -> Lines:
    rng = np.random.default_rng(1)
    if name == "zipf":
        lines = 1_000_000
        edges = np.cumsum(1 / np.arange(1, lines + 1))
        picked = np.searchsorted(edges, rng.random(n) * edges[-1])
        return rng.permutation(lines)[np.minimum(picked, lines - 1)].astype(np.uint64)
    if name == "uniform":
        return rng.integers(0, 100_000, n, dtype=np.uint64)
    if name == "scan":
        return np.arange(n, dtype=np.uint64) % np.uint64(100_000)
    return program_lines(name == "fetch", n)


@lru_cache(maxsize=1)
def _out(n: int) -> npt.NDArray[np.uint32]:
    return np.zeros(n, np.uint32)  # the kernel's handing out of pages is not timed


def run(lines: Lines, isa: str | None = None) -> npt.NDArray[np.uint32]:
    return _core.StackDistance(isa=isa).access(lines, out=_out(len(lines)))


PEERS: dict[str, Callable[[Lines], npt.NDArray[np.uint32]]] = {
    "splay": peers.splay_stack_distance,
    "fenwick": peers.fenwick_stack_distance,
}


def check(lines: Lines) -> None:
    want = peers.fenwick_stack_distance(lines)
    assert want[:1500].tolist() == oracle(lines[:1500].tolist())
    np.testing.assert_array_equal(run(lines), want)


# ---- pytest

needs_peers = pytest.mark.skipif(peers.why_not() is not None, reason=str(peers.why_not()))


@pytest.fixture(params=STREAMS)
def lines(request: pytest.FixtureRequest, benchmark: Any) -> Lines:
    benchmark.group = f"stack distance, {request.param}"
    done(benchmark, ACCESSES, "accesses")
    return stream(request.param)


def test_tracekit(benchmark: Any, lines: Lines) -> None:
    got = benchmark.pedantic(run, (lines,), rounds=3, warmup_rounds=1)
    assert got[:1500].tolist() == oracle(lines[:1500].tolist())


@needs_peers
def test_floor(benchmark: Any, lines: Lines) -> None:
    total = benchmark.pedantic(peers.last_access_floor, (lines,), rounds=3, warmup_rounds=1)
    assert total > 0


@needs_peers
@pytest.mark.parametrize("peer", PEERS)
def test_peer(benchmark: Any, lines: Lines, peer: str) -> None:
    got = benchmark.pedantic(PEERS[peer], (lines,), rounds=1)
    np.testing.assert_array_equal(got, run(lines))


# ---- as a program


def seconds(call: Callable[[], Any]) -> float:
    start = time.thread_time()
    call()
    return time.thread_time() - start


def measure(lines: Lines, rounds: int) -> dict[str, float]:
    """Millions of accesses a second of each, medians of interleaved rounds; of peers one round."""
    isas = ISAS[: ISAS.index(_core.active_isa()) + 1]
    calls: dict[str, Callable[[], Any]] = {
        "floor": lambda: peers.last_access_floor(lines),
        **{isa: (lambda isa=isa: run(lines, isa)) for isa in isas},  # type: ignore[misc]
    }
    times: dict[str, list[float]] = {k: [] for k in [*calls, *PEERS]}
    for r in range(rounds):
        for k, call in calls.items():
            times[k].append(seconds(call))
        for k, peer in PEERS.items() if r == 0 else ():
            times[k].append(seconds(lambda peer=peer: peer(lines)))  # type: ignore[misc]
    return {k: len(lines) / statistics.median(t) / 1e6 for k, t in times.items()}


def geometric_mean(values: Iterator[float]) -> float:
    logs = [math.log(v) for v in values]
    return math.exp(sum(logs) / len(logs))


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--accesses", type=int, default=ACCESSES)
    p.add_argument("--streams", nargs="+", choices=STREAMS, default=STREAMS)
    p.add_argument("--json", action="store_true")
    args = p.parse_args()
    rates: dict[str, dict[str, float]] = {}
    for name in args.streams:
        lines = stream(name, args.accesses)
        check(lines)
        rates[name] = measure(lines, args.rounds)
    best = _core.active_isa()
    means = {
        k: geometric_mean(r[best] / r[k] for r in rates.values()) for k in rates[args.streams[0]]
    }
    if args.json:
        print(json.dumps({"million_accesses_per_second": rates, "times_over": means}, indent=1))
        return 0
    source = "traces" if traces() else "synthetic"
    print(f"million accesses a second, {best}; program lines: {source}")
    print(
        f"{'':9}"
        + "".join(f"{k:>10}" for k in means)
        + f"{'of floor':>10}{'x splay':>9}{'x fenwick':>11}"
    )
    for name, r in rates.items():
        print(
            f"{name:9}"
            + "".join(f"{v:10.1f}" for v in r.values())
            + f"{100 * r[best] / r['floor']:9.0f}%"
            + f"{r[best] / r['splay']:9.1f}{r[best] / r['fenwick']:11.1f}"
        )
    print("geometric means: " + ", ".join(f"{v:.2f} x {k}" for k, v in means.items() if k != best))
    return 0


if __name__ == "__main__":
    sys.exit(main())
