"""Which rows begin an instruction, and how many instructions a file has."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.schema import BITS
from tracekit.store.reader import TraceFile

__all__ = ["begins", "instruction_count", "is_blind"]

_PIECE = 1 << 20  # rows at a time
_FAULT = BITS["fault"][0].bit_length() - 1  # its place


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
    """Of a file of either level: as many as the macro level has rows.  A fault and its retry are
    one, and one that the trace ended inside of is none."""
    if trace.level == "macro":
        return len(trace)
    s = trace.statics
    last_ones = s.has("IsLastMicroop").any() or not s.has("IsMicroop").any()
    if last_ones and not is_blind(trace) and not trace.index["bits"][_FAULT]:
        return int(s.count[s.ends()].sum())  # each has one such row, which no retry repeats
    count, before = 0, None
    for begin in range(0, len(trace), _PIECE):
        rows = (begin, min(begin + _PIECE, len(trace)))
        count += int(begins(trace, rows, before).sum())
        last = (rows[1] - 1, rows[1])
        ends = [trace.column(name, last)[0] for name in ("static_id", "fault")]
        before = np.array(ends, np.int64)
    return count - (before is not None and _unfinished(trace, before))


def _unfinished(trace: TraceFile, last: npt.NDArray[np.int64]) -> bool:
    """Whether the trace ends inside an instruction; ``last`` is its last row, (static_id, fault).
    Where no micro-op is known to be the last (O3PipeView alone, no ExecFlags, the trace of
    PerfVec's authors), it does not."""
    s = trace.statics
    sid, faulted = last.tolist()
    closed = s.has("IsSyscall")[sid] if faulted else s.ends()[sid]
    return not closed and bool((s.ends() & (s.upc != 0) & (s.count != 0)).any())
