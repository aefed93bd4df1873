"""Cycles of micro-ops to cycles of instructions: the join of the macro level (csrc/macro), for
targets that stand by micro-op."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.errors import UsageError
from tracekit.store.reader import TraceFile

__all__ = ["begins", "instruction_starts"]


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


def instruction_starts(micro: TraceFile, macro: TraceFile) -> npt.NDArray[np.int64]:
    """Where each row of ``macro`` begins among those of ``micro``, two extractions of one trace;
    int64, with the end of the last one behind them.

    UsageError where the files are not such a pair.
    """
    if micro.index.get("level") != "micro" or macro.index.get("level") != "macro":
        raise UsageError("the features are of the macro level, their micro-ops of the micro level")
    starts = np.flatnonzero(begins(micro, (0, len(micro))))
    edges = np.append(starts, len(micro)).astype(np.int64)
    rows = len(macro)
    # The instruction that the trace ends inside of is no row of the macro level.
    left = len(starts) - rows
    unfinished = int(macro.index["source"].get("unfinished", 0))
    if left not in (0, unfinished) or not np.array_equal(
        micro.column("pc")[edges[:rows]], macro.column("pc")
    ):
        raise UsageError(
            f"{len(starts)} instructions; the features have {rows} rows, or others",
            path=micro.path,
            hint="extract both from the same trace, without --start and --count",
        )
    return edges[: rows + 1]
