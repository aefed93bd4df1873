"""When each row of a window is in which stage: by gem5's own ticks, or on a simulated core."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tracekit.errors import UsageError
from tracekit.sim import TIMING, walk
from tracekit.store.reader import TraceFile

__all__ = ["MOST_ROWS", "View", "of_simulation", "of_trace"]

I64 = npt.NDArray[np.int64]
MOST_ROWS: Final = 1_000_000
#: gem5's stages, as Konata shortens them.
_GEM5 = {
    "fetch": "F",
    "decode": "Dc",
    "rename": "Rn",
    "dispatch": "Ds",
    "issue": "Is",
    "complete": "Cm",
}
_SIMULATED = ("Ds", "Is", "Cm")
_CLAMPED = 4096  # core_timing::most_commit_slack of csrc/sim/out_of_order_core.hpp


@dataclass(frozen=True)
class View:
    """``begin``: the first row.  ``stages``: names, in order.  ``starts``: int64 rows x stages,
    cycles, -1 where a row was not in one.  ``retired``: cycles, -1 where gem5 does not tell.
    ``texts``: pc and disassembly.  ``producers``: of each row the rows of the window (from 0) whose
    results it reads."""

    title: str
    begin: int
    stages: tuple[str, ...]
    starts: I64
    retired: I64
    texts: list[str]
    producers: list[list[int]]


def of_trace(trace: TraceFile, begin: int, end: int) -> View:
    """By the stage ticks that gem5 wrote.  UsageError where the trace has none."""
    _check(trace, begin, end)
    if not trace.timed:
        raise UsageError(
            "the rows have no times",
            path=str(trace.path),
            hint="--machine M shows a simulated core",
        )
    period = int(trace.clock_ps)
    ticks = {n: trace.column(n, (begin, end)).astype(np.int64) for n in (*_GEM5, "retire")}
    some = np.stack([ticks[n] for n in ticks])
    first = int(some[some > 0].min(initial=np.iinfo(np.int64).max))
    cycle = {n: np.where(t > 0, (t - first) // period, -1) for n, t in ticks.items()}
    starts = np.stack([cycle[n] for n in _GEM5], 1)
    return View(
        f"gem5, rows {begin:,} to {end:,}",
        begin,
        tuple(_GEM5.values()),
        starts,
        cycle["retire"],
        *_described(trace, begin, end),
    )


def of_simulation(
    trace: TraceFile, machine: Mapping[str, Any], begin: int, end: int, threads: int | None = None
) -> View:
    """On a core with the parameters of ``machine``, which has walked all rows before: dispatched,
    issued, complete, retired.  Of an instruction of several micro-ops those of the last one."""
    _check(trace, begin, end)
    cycles, slack, delay, latency, gap = [], [], [], [], []
    for w in walk(trace, [machine], threads, timed=True, rows=end):
        t = {name: w.cycles[:, 0, k].astype(np.int64) for k, name in enumerate(TIMING)}
        cycles.append(t["cycles"])
        slack.append(t["commit_slack"])
        gap.append(t["dispatch_gap"])
        delay.append(t["issue_delay"])
        latency.append(t["latency"])
    retired = np.cumsum(np.concatenate(cycles))[:end]
    before = np.concatenate([[0], retired[:-1]])
    slacks, delays = np.concatenate(slack)[:end], np.concatenate(delay)[:end]
    latencies, gaps = np.concatenate(latency)[:end], np.concatenate(gap)[:end]
    done = before + slacks - 1
    dispatched = done - latencies - delays
    # Where the slack is not told exactly, from the dispatch of the row before.
    for i in np.flatnonzero(np.abs(slacks) >= _CLAMPED).tolist():
        dispatched[i] = (dispatched[i - 1] if i else 0) + gaps[i]
        done[i] = dispatched[i] + delays[i] + latencies[i]
    starts = np.stack([dispatched, done - latencies, done], 1)[begin:]
    retired = np.maximum(retired[begin:], starts[:, 2])
    first = int(starts.min())
    name = machine.get("name", "machine")
    return View(
        f"{name} (simulated), rows {begin:,} to {end:,}",
        begin,
        _SIMULATED,
        starts - first,
        retired - first,
        *_described(trace, begin, end),
    )


def _check(trace: TraceFile, begin: int, end: int) -> None:
    if not 0 <= begin < end <= len(trace):
        raise UsageError(f"rows {begin}:{end}: the trace has {len(trace):,}", path=str(trace.path))
    if end - begin > MOST_ROWS:
        raise UsageError(f"{end - begin:,} rows; at most {MOST_ROWS:,}")


def _described(trace: TraceFile, begin: int, end: int) -> tuple[list[str], list[list[int]]]:
    """Texts, and the rows of the window that each row's registers come from."""
    s = trace.statics
    ids = trace.column("static_id", (begin, end)).tolist()
    known = set(ids)
    texts = {i: f"{int(s.pc[i]):#x}: {s.disassembly[i].strip()}" for i in known}
    reads = {i: _registers(s, i, "src") for i in known}
    writes = {i: _registers(s, i, "dst") for i in known}
    last: dict[tuple[int, int], int] = {}
    producers = []
    for row, i in enumerate(ids):
        producers.append(sorted({last[r] for r in reads[i] if r in last}))
        for r in writes[i]:
            last[r] = row
    return [texts[i] for i in ids], producers


def _registers(statics: Any, i: int, kind: str) -> list[tuple[int, int]]:
    classes = statics.arrays[f"{kind}_class"][i].tolist()
    numbers = statics.arrays[f"{kind}_index"][i].tolist()
    return [(c, n) for c, n in zip(classes, numbers, strict=True) if c != 255]
