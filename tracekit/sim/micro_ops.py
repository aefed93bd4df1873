"""Of which traces a row is several micro-ops, and how many."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tracekit.sim.arm_parts import part_counts
from tracekit.store.reader import TraceFile

__all__ = ["in_parts", "micro_ops"]


def in_parts(trace: TraceFile) -> bool:
    """Whether its rows, instructions of X86 or ARM, are walked in one or more parts each."""
    return trace.level == "macro" and trace.arch in ("arm", "x86")


def micro_ops(trace: TraceFile) -> npt.NDArray[np.int64]:
    """Parts that each static instruction is walked in: int64 [statics]."""
    if not in_parts(trace):
        return np.ones(len(trace.statics), np.int64)
    if trace.arch == "arm":
        return part_counts(trace.statics)
    from tracekit.sim.uop_table import uop_counts

    return uop_counts(trace.statics)
