"""Perfetto's (and chrome://tracing's) trace-event JSON."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np

from tracekit.view.stages import View

__all__ = ["perfetto"]


def perfetto(view: View) -> dict[str, Any]:
    """One microsecond of the viewer is one cycle.

    A process a stage, whose threads are as many as rows are in it at once; counters of the rows
    that are between dispatch and retirement (``window``), and between dispatch and issue
    (``waiting``).
    """
    events: list[dict[str, Any]] = []
    stages = view.stages
    for k, stage in enumerate(stages):
        events.append(_meta("process_name", k + 1, 0, stage))
        lanes: list[tuple[int, int]] = []  # (free from, lane)
        count = 0
        order = np.argsort(view.starts[:, k], kind="stable").tolist()
        for row in order:
            begin = int(view.starts[row, k])
            if begin < 0:
                continue
            later = [int(c) for c in view.starts[row, k + 1 :].tolist() if c >= 0]
            end = max(begin, later[0] if later else int(view.retired[row]))
            if lanes and lanes[0][0] <= begin:
                _, lane = heapq.heappop(lanes)
            else:
                lane, count = count, count + 1
                events.append(_meta("thread_name", k + 1, lane, f"{stage} {lane}"))
            heapq.heappush(lanes, (max(end, begin + 1), lane))
            events.append(
                {
                    "name": view.texts[row],
                    "cat": stage,
                    "ph": "X",
                    "ts": begin,
                    "dur": end - begin,
                    "pid": k + 1,
                    "tid": lane,
                    "args": {"row": view.begin + row},
                }
            )
    dispatched = stages.index("Ds")
    events.append(_meta("process_name", len(stages) + 1, 0, "occupancy"))
    for name, until in (
        ("window", view.retired),
        ("waiting", view.starts[:, dispatched + 1]),
    ):
        events += _occupancy(name, len(stages) + 1, view.starts[:, dispatched], until)
    return {
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {"title": view.title, "unit": "1 us is 1 cycle"},
    }


def _meta(name: str, pid: int, tid: int, value: str) -> dict[str, Any]:
    return {"name": name, "ph": "M", "ts": 0, "pid": pid, "tid": tid, "args": {"name": value}}


def _occupancy(name: str, pid: int, begin: Any, end: Any) -> list[dict[str, Any]]:
    known = (begin >= 0) & (end >= begin)
    at = np.concatenate([begin[known], end[known]])
    step = np.repeat([1, -1], known.sum())
    cycles, index = np.unique(at, return_inverse=True)
    level = np.cumsum(np.bincount(index, step, len(cycles))).astype(int)
    return [
        {"name": name, "ph": "C", "ts": c, "pid": pid, "tid": 0, "args": {"rows": n}}
        for c, n in zip(cycles.tolist(), level.tolist(), strict=True)
    ]
