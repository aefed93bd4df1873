"""Perfetto's (and chrome://tracing's) trace-event JSON."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.view.marks import TRACKS
from tracekit.view.stages import View

__all__ = ["perfetto"]

_NAMES = {
    "F": "fetch",
    "Dc": "decode",
    "Rn": "rename",
    "Ds": "dispatch",
    "X": "execute",
    "Cm": "complete",
}
I64 = npt.NDArray[np.int64]


def perfetto(view: View, other: View | None = None) -> dict[str, Any]:
    """One microsecond of the viewer is one cycle.

    A process a stage, whose threads are as many as rows are in it at once; one of what rows met
    (mispredictions, misses); counters of the rows in the reorder buffer, waiting to issue,
    executing, and in the load and the store queue (from dispatch to retirement), and of the load
    misses on their way.

    ``other``: the same rows elsewhere, on the same clock (`beside`): the same once more, and a
    counter of the cycles by which it retires each row later.
    """
    events: list[dict[str, Any]] = []
    views = (view,) if other is None else (view, other)
    for v in views:
        of = f"{v.of}: " if other is not None else ""
        events += _stages(v, of, _processes(events))
        events += _marks(v, of, _processes(events))
        events += _queues(v, of, _processes(events))
    if other is not None:
        events += _difference(view, other, _processes(events))
    title = view.title if other is None else f"{view.title}; {other.title}"
    return {
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {"title": title, "unit": "1 us is 1 cycle"},
    }


def _processes(events: list[dict[str, Any]]) -> int:
    """The last process so far."""
    return max((int(e["pid"]) for e in events), default=0)


def _stages(view: View, of: str, before: int) -> list[dict[str, Any]]:
    events = []
    for k, stage in enumerate(view.stages):
        pid = before + k + 1
        events.append(_meta("process_name", pid, 0, f"{of}{_NAMES[stage]}"))
        lanes = _Lanes(pid, _NAMES[stage])
        order = np.argsort(view.starts[:, k], kind="stable").tolist()
        for row in order:
            begin = int(view.starts[row, k])
            if begin < 0:
                continue
            later = [int(c) for c in view.starts[row, k + 1 :].tolist() if c >= 0]
            end = max(begin, later[0] if later else int(view.retired[row]))
            events += lanes.slice(view, row, begin, end, view.texts[row], stage)
    return events


class _Lanes:
    """Threads of a process; slices of one never overlap."""

    def __init__(self, pid: int, name: str) -> None:
        self.pid, self.name, self.count = pid, name, 0
        self.free: list[tuple[int, int]] = []  # (from, lane)

    def slice(
        self, view: View, row: int, begin: int, end: int, text: str, category: str, **args: Any
    ) -> list[dict[str, Any]]:
        """A slice of a row, and the thread's name where it is a new one; in the order of begins."""
        out = []
        if self.free and self.free[0][0] <= begin:
            _, lane = heapq.heappop(self.free)
        else:
            lane, self.count = self.count, self.count + 1
            out.append(_meta("thread_name", self.pid, lane, f"{self.name} {lane}"))
        heapq.heappush(self.free, (max(end, begin + 1), lane))
        out.append(
            {
                "name": text,
                "cat": category,
                "ph": "X",
                "ts": begin,
                "dur": end - begin,
                "pid": self.pid,
                "tid": lane,
                "args": {"row": view.begin + row, **args},
            }
        )
        return out


def _marks(view: View, of: str, before: int) -> list[dict[str, Any]]:
    """A process a kind."""
    events = []
    for k, track in enumerate(TRACKS):
        pid = before + k + 1
        mine = sorted((m for m in view.marks if m.track == track), key=lambda m: m.begin)
        if not mine:
            continue
        events.append(_meta("process_name", pid, 0, f"{of}{track}"))
        lanes = _Lanes(pid, track)
        for m in mine:
            events += lanes.slice(
                view, m.row, m.begin, m.end, view.texts[m.row], track, what=m.what
            )
    return events


def _queues(view: View, of: str, before: int) -> list[dict[str, Any]]:
    at = {name: view.starts[:, k] for k, name in enumerate(view.stages)}
    pid = before + 1
    events = [_meta("process_name", pid, 0, f"{of}occupancy")]
    every = np.ones(len(view.texts), np.bool_)
    misses = [m for m in view.marks if m.track == "load misses"]
    for name, which, begin, end in (
        ("reorder buffer", every, at["Ds"], view.retired),
        ("waiting to issue", every, at["Ds"], at["X"]),
        ("executing", every, at["X"], at["Cm"]),
        ("load queue", view.loads, at["Ds"], view.retired),
        ("store queue", view.stores, at["Ds"], view.retired),
    ):
        events += _occupancy(name, pid, begin[which], end[which])
    begin = np.array([m.begin for m in misses], np.int64)
    events += _occupancy("load misses", pid, begin, np.array([m.end for m in misses], np.int64))
    return events


def _occupancy(name: str, pid: int, begin: I64, end: I64) -> list[dict[str, Any]]:
    known = (begin >= 0) & (end >= begin)
    at = np.concatenate([begin[known], end[known]])
    step = np.repeat([1, -1], known.sum())
    cycles, index = np.unique(at, return_inverse=True)
    level = np.cumsum(np.bincount(index, step, len(cycles))).astype(int)
    both = zip(cycles.tolist(), level.tolist(), strict=True)
    return [_counter(name, pid, cycle, "rows", n) for cycle, n in both]


def _difference(a: View, b: View, before: int) -> list[dict[str, Any]]:
    """How much later ``b`` retires each row, at the time of ``a``."""
    pid = before + 1
    events = [_meta("process_name", pid, 0, f"{b.of} later than {a.of}")]
    both = np.flatnonzero((a.retired >= 0) & (b.retired >= 0))
    by = (b.retired - a.retired)[both]
    new = np.flatnonzero(np.diff(by, prepend=by[:1] - 1))
    for k in new.tolist():
        cycle = int(a.retired[both[k]])
        events.append(_counter("retires later by", pid, cycle, "cycles", int(by[k])))
    return events


def _counter(name: str, pid: int, cycle: int, unit: str, value: int) -> dict[str, Any]:
    return {"name": name, "ph": "C", "ts": cycle, "pid": pid, "tid": 0, "args": {unit: value}}


def _meta(name: str, pid: int, tid: int, value: str) -> dict[str, Any]:
    return {"name": name, "ph": "M", "ts": 0, "pid": pid, "tid": tid, "args": {"name": value}}
