"""When each row of a window is in which stage, by gem5's own ticks and on a simulated core."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tracekit.errors import UsageError
from tracekit.sim import TIMING, event_walk, walk
from tracekit.store.instruction_text import instruction_text
from tracekit.store.reader import TraceFile
from tracekit.view.marks import Mark, of_core, of_ticks

__all__ = ["MOST_ROWS", "View", "beside", "of_simulation", "of_trace"]

I64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]
MOST_ROWS: Final = 1_000_000
#: gem5's stages, as Konata shortens them; X, from issue to completion, is where its arrows begin
#: and end.
_GEM5 = {
    "fetch": "F",
    "decode": "Dc",
    "rename": "Rn",
    "dispatch": "Ds",
    "issue": "X",
    "complete": "Cm",
}
_SIMULATED = ("Ds", "X", "Cm")
_CLAMPED = 4096  # core_timing::most_commit_slack of csrc/sim/core.hpp


@dataclass(frozen=True)
class View:
    """``begin``: the first row.  ``stages``: names, in order.  ``starts``: int64 rows x stages,
    cycles, -1 where a row was not in one.  ``retired``: cycles, -1 where gem5 does not tell.
    ``texts``: pc and disassembly.  ``producers``: of each row the rows of the window (from 0) whose
    results it reads.  ``loads``, ``stores``: which rows are.  ``marks``: what rows met.  ``of``:
    gem5, or the machine's name."""

    title: str
    begin: int
    stages: tuple[str, ...]
    starts: I64
    retired: I64
    texts: list[str]
    producers: list[list[int]]
    loads: Bool
    stores: Bool
    marks: list[Mark]
    of: str

    @property
    def last_cycle(self) -> int:
        """Of the last event."""
        return int(max(self.retired.max(), self.starts.max()))


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
    loads, stores = _kinds(trace, begin, end)
    return View(
        f"gem5, rows {begin:,} to {end:,}",
        begin,
        tuple(_GEM5.values()),
        starts,
        cycle["retire"],
        *_described(trace, begin, end),
        loads,
        stores,
        of_ticks(_branches(trace, begin, end), loads, starts),
        "gem5",
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
    loads, stores = _kinds(trace, begin, end)
    events = event_walk(trace, machine, rows=end)[begin:]
    name = machine.get("name", "machine")
    return View(
        f"{name} (simulated), rows {begin:,} to {end:,}",
        begin,
        _SIMULATED,
        starts - first,
        retired - first,
        *_described(trace, begin, end),
        loads,
        stores,
        of_core(events, loads, starts - first, retired - first),
        str(name),
    )


def beside(a: View, b: View) -> tuple[View, View]:
    """Both on one clock, on which the first row retires in the same cycle; each keeps its own
    cycles.  UsageError where no row retires in both."""
    both = np.flatnonzero((a.retired >= 0) & (b.retired >= 0))
    if a.begin != b.begin or not len(both):
        raise UsageError("no row of the window retires in both")
    by = int(a.retired[both[0]] - b.retired[both[0]])
    return _moved(a, max(0, -by)), _moved(b, max(0, by))


def _moved(view: View, by: int) -> View:
    return replace(
        view,
        starts=np.where(view.starts >= 0, view.starts + by, -1),
        retired=np.where(view.retired >= 0, view.retired + by, -1),
        marks=[replace(m, begin=m.begin + by, end=m.end + by) for m in view.marks],
    )


def _check(trace: TraceFile, begin: int, end: int) -> None:
    if not 0 <= begin < end <= len(trace):
        raise UsageError(f"rows {begin}:{end}: the trace has {len(trace):,}", path=str(trace.path))
    if end - begin > MOST_ROWS:
        raise UsageError(f"{end - begin:,} rows; at most {MOST_ROWS:,}")


def _kinds(trace: TraceFile, begin: int, end: int) -> tuple[Bool, Bool]:
    """Loads and stores of the window."""
    ids = trace.column("static_id", (begin, end))
    load, store = trace.statics.has("IsLoad"), trace.statics.has("IsStore")
    return load[ids] & ~store[ids], store[ids]


def _branches(trace: TraceFile, begin: int, end: int) -> Bool:
    of: Bool = trace.statics.branch[trace.column("static_id", (begin, end))] != 0
    return of


def _described(trace: TraceFile, begin: int, end: int) -> tuple[list[str], list[list[int]]]:
    """Texts, and the rows of the window that each row's registers come from."""
    s = trace.statics
    ids = trace.column("static_id", (begin, end)).tolist()
    known = set(ids)
    texts = {i: f"{int(s.pc[i]):#x}: {instruction_text(trace, i)}" for i in known}
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
