"""Walks that somebody else does: many traces, and pieces of the cores of one, at the same time.

A `Spread` is asked questions and answers them in their order; a run on a cluster is one
(tracekit/cluster).  Cores know nothing of each other, so that pieces of them give the same numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tracekit.store.reader import TraceFile

__all__ = ["PIECE", "Question", "Spread", "pieces", "spread_totals"]

#: Rows x cores of a piece: one to two seconds of a thread.
PIECE = 25_000_000

#: A file's address, and options as JSON.
Question = tuple[str, Mapping[str, Any]]


class Spread(Protocol):
    """Answers questions of one ``kind`` (tracekit/cluster/kinds.py has them by name)."""

    def __call__(self, kind: str, questions: Sequence[Question], *, keep: bool = True) -> list[Any]:
        """An answer each, in their order; ``keep``: for the next run of the same.  Raises what the
        first question that fails raises."""


def pieces(rows: int, cores: int, most: int = PIECE) -> list[tuple[int, int]]:
    """Ranges of cores that are walked apart, so that each is ``most`` rows x cores or less; of two
    cores or more where there are as many."""
    count = max(1, min(-(-rows * cores // most), cores // 2))
    edges = [k * cores // count for k in range(count + 1)]
    return list(itertools.pairwise(edges))


def spread_totals(
    spread: Spread,
    traces: Sequence[TraceFile],
    cores: Sequence[Mapping[str, Any]],
    breaks: Sequence[npt.NDArray[np.int64] | None] | None = None,
) -> list[npt.NDArray[np.float64]]:
    """`totals` of each trace: float64 [ranges, cores]."""
    questions: list[Question] = []
    counts = []
    for k, trace in enumerate(traces):
        edges = breaks[k] if breaks is not None else None
        options: dict[str, Any] = {"level": trace.level}
        if edges is not None:
            options["breaks"] = edges.tolist()
        parts = pieces(len(trace), len(cores))
        counts.append(len(parts))
        questions += [(trace.address, {**options, "cores": list(cores[a:b])}) for a, b in parts]
    found = iter(spread("core_totals", questions))
    return [np.hstack([next(found)["x"] for _ in range(n)]) for n in counts]
