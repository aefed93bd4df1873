"""Cycles of micro-ops to cycles of instructions: the join of the macro level (csrc/macro), for
targets that stand by micro-op."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tracekit.errors import UsageError
from tracekit.store.instruction_bounds import begins
from tracekit.store.reader import TraceFile

__all__ = ["instruction_starts"]


def instruction_starts(micro: TraceFile, macro: TraceFile) -> npt.NDArray[np.int64]:
    """Where each row of ``macro`` begins among those of ``micro``, two extractions of one trace;
    int64, with the end of the last one behind them.

    UsageError where the files are not such a pair.
    """
    if micro.level != "micro" or macro.level != "macro":
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
