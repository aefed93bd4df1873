"""Classes of rows walked by somebody else (sim/spread.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.sim.spread import Question, Spread

__all__ = ["spread_classes"]

F64 = npt.NDArray[np.float64]

#: Cores of a question: little enough that a generation's are shared among many.
_TOGETHER = 16


def spread_classes(
    spread: Spread, traces: Sequence[Question], cores: Sequence[Mapping[str, Any]]
) -> list[tuple[F64, F64]]:
    """`ClassedRows.totals` of each trace: windows x cores, and classes x cores.  Answers are not
    kept: a search asks thousands of cores once."""
    starts = range(0, len(cores), _TOGETHER)
    questions = [
        (path, {**options, "cores": list(cores[a : a + _TOGETHER])})
        for path, options in traces
        for a in starts
    ]
    found = iter(spread("class_totals", questions, keep=False))
    out = []
    for _ in traces:
        own = [next(found) for _ in starts]
        out.append((np.hstack([f["windows"] for f in own]), np.hstack([f["classes"] for f in own])))
    return out
