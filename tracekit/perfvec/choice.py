"""Which programs to measure a new machine with: those that told most about the known machines, or
about reference cores that are taken for machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.perfvec.drawn import drawn_cores
from tracekit.perfvec.fit import Sums, mixture_row, segment_breaks, with_columns
from tracekit.reference import totals
from tracekit.store.reader import TraceFile

__all__ = ["choose_programs", "core_sums", "suggested_programs"]

F64 = npt.NDArray[np.float64]

#: Rows of each program that are walked for a suggestion, and cores that are taken for machines.
_ROWS, _MACHINES = 150_000, 12


def choose_programs(
    programs: Sequence[Sums], own: Sequence[int], machines: Sequence[int], count: int
) -> list[int]:
    """``count`` programs, by number, one after another: with each the mean error on all others is
    least when ``machines`` are tuned as if their parameters were not known.

    ``own``: the column of each machine's own core (-1: none), which its row does not use.
    """
    x = np.stack([p.x.sum(axis=0) for p in programs])
    y = np.stack([p.y.sum(axis=0) for p in programs])
    columns = np.arange(x.shape[1])
    chosen: list[int] = []
    while len(chosen) < min(count, len(programs) - 1):
        best, least = -1, np.inf
        for i in range(len(programs)):
            if i in chosen:
                continue
            tuned = [*chosen, i]
            rest = [k for k in range(len(programs)) if k not in tuned]
            errors = []
            for j in machines:
                others = columns[columns != own[j]]
                row = mixture_row([with_columns(programs[k], others) for k in tuned], j)
                errors.append(np.abs(x[np.ix_(rest, others)] @ row / y[rest, j] - 1).mean())
            if np.mean(errors) < least:
                best, least = i, float(np.mean(errors))
        chosen.append(best)
    return chosen


def core_sums(
    trace: TraceFile,
    cores: Sequence[Mapping[str, Any]],
    drawn: int,
    seed: int = 0,
    threads: int | None = None,
) -> Sums:
    """A program for ``suggested_programs``: what the model's cores and ``drawn`` others take for
    its first rows, and the model's as if they were machines."""
    rows = min(len(trace), _ROWS)
    all_cores = [*cores, *drawn_cores(cores, drawn, seed)]
    x = totals(trace, all_cores, segment_breaks(rows), threads)
    return Sums(trace.path, trace.path, rows, x, x[:, : len(cores)])


def suggested_programs(programs: Sequence[Sums], count: int) -> list[int]:
    """``count`` programs (``core_sums``), by number, the most telling first, by reference cores
    alone: some are taken for machines that are known by their times on those programs only, and
    sought as mixtures of the others."""
    own = list(range(programs[0].y.shape[1]))
    return choose_programs(programs, own, own[:: max(1, len(own) // _MACHINES)], count)
