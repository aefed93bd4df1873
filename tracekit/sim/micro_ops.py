"""Of which traces a row is several micro-ops, and how many."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tracekit.sim.arm_parts import arm_parts
from tracekit.store.reader import TraceFile

__all__ = ["in_parts", "micro_ops"]


def in_parts(trace: TraceFile) -> bool:
    """Whether its rows, instructions of X86 or ARM, are walked in one or more parts each."""
    return trace.level == "macro" and trace.arch in ("arm", "x86")


def micro_ops(trace: TraceFile) -> npt.NDArray[np.int64]:
    """Parts that each static instruction is walked in: int64 [statics]."""
    if not in_parts(trace):
        return np.ones(len(trace.statics), np.int64)
    begin = _begin(trace).astype(np.int64)
    return begin[1:] - begin[:-1]


def _begin(trace: TraceFile) -> npt.NDArray[np.uint32]:
    if trace.arch == "arm":
        return arm_parts(trace.statics).begin
    from tracekit.sim.uop_table import table

    return table(trace.statics).begin
