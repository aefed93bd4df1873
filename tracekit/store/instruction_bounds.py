"""Which rows begin an instruction, and how many instructions a file has."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.store.reader import TraceFile

__all__ = ["begins", "instruction_count", "is_blind"]

_PIECE = 1 << 20  # rows at a time


def is_blind(trace: TraceFile) -> bool:
    """Whether it is of O3PipeView alone, which shows no traps, addresses and ends of
    instructions."""
    return trace.timed and not trace.index["source"].get("exec_lines", 1)


def begins(
    trace: TraceFile, rows: tuple[int, int], before: npt.NDArray[Any] | None = None
) -> npt.NDArray[np.bool_]:
    """Which rows of a file of the micro level begin an instruction (features.md, "The macro
    level"); ``before`` is the row before them, (static_id, fault)."""
    s = trace.statics
    ids = trace.column("static_id", rows).astype(np.int64)
    fault = trace.column("fault", rows).astype(bool)
    if before is not None:
        ids, fault = np.append(before[0], ids), np.append(bool(before[1]), fault)
    closes = np.where(fault, s.has("IsSyscall")[ids], s.ends()[ids])
    out = np.ones(len(ids), bool)
    parts = s.pc[ids[1:]] != s.pc[ids[:-1]]
    again = (s.upc[ids[1:]] == 0) & ~fault[:-1]
    out[1:] = closes[:-1] | parts | again
    return out if before is None else out[1:]


def instruction_count(trace: TraceFile) -> int:
    """Of a file of either level: the rows that end one; where no micro-op is known to be the last
    (O3PipeView alone, no ExecFlags, the trace of PerfVec's authors), those that begin one."""
    if trace.level == "macro":
        return len(trace)
    s = trace.statics
    last_ones = s.has("IsLastMicroop").any() or not s.has("IsMicroop").any()
    if last_ones and not is_blind(trace):
        return int(s.count[s.ends()].sum())
    count, before = 0, None
    for begin in range(0, len(trace), _PIECE):
        rows = (begin, min(begin + _PIECE, len(trace)))
        count += int(begins(trace, rows, before).sum())
        last = (rows[1] - 1, rows[1])
        ends = [trace.column(name, last)[0] for name in ("static_id", "fault")]
        before = np.array(ends, np.int64)
    return count
