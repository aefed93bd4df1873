"""Stacks of causes: the cycles of a trace on machines, by cause and by place or phase."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.causes.names import CAUSES, GROUPS, modelled
from tracekit.errors import UsageError
from tracekit.sim import KeptRows, MachineLike, cause_walk
from tracekit.sim.description import one_machine
from tracekit.store.reader import TraceFile

__all__ = ["MOST_PHASES", "Stacks", "parameters_of", "period_ps", "spread", "stacks"]

F64 = npt.NDArray[np.float64]
MOST_PHASES = 10_000
#: Cycles by place, machine and cause that are held at once.
_MOST_SUMS = 1 << 27


@dataclass(frozen=True)
class Stacks:
    """Cycles of a trace by cause.

    ``machines``: as walked.  ``rows``: of the trace, and ``walked`` of them.  ``places``: float64
    [labels, machines, causes].  ``phases``: float64 [phases, machines, causes], of the rows
    between ``breaks``.  Both add up to the machines' cycles, to the cycle.
    """

    machines: list[dict[str, Any]]
    rows: int
    walked: int
    breaks: list[int]
    places: F64
    phases: F64

    @property
    def causes(self) -> F64:
        """Machines x causes."""
        out: F64 = self.places.sum(0)
        return out

    @property
    def cycles(self) -> F64:
        """Of each machine."""
        out: F64 = self.causes.sum(1)
        return out

    def groups(self) -> list[dict[str, float]]:
        """Of each machine: top-down group -> cycles."""
        out: list[dict[str, float]] = []
        for row in self.causes:
            sums = dict.fromkeys(GROUPS.values(), 0.0)
            for name, n in zip(CAUSES, row.tolist(), strict=True):
                sums[GROUPS[name]] += n
            out.append(sums)
        return out

    def of(self, machine: int) -> dict[str, float]:
        """Cause -> cycles, of the causes that the machine can have."""
        can = modelled(self.machines[machine])
        values = self.causes[machine].tolist()
        return {c: n for c, n, k in zip(CAUSES, values, can, strict=True) if k}


def stacks(
    trace: TraceFile | KeptRows,
    machines: Sequence[Mapping[str, Any] | MachineLike],
    *,
    labels: npt.NDArray[np.uint32] | None = None,
    phases: int = 1,
    ranges: Sequence[tuple[int, int]] | None = None,
    threads: int | None = None,
) -> Stacks:
    """Walks the trace through cores with the parameters of ``machines``, from cold.

    ``labels``: uint32 of each static instruction, by which ``places`` adds up; each instruction is
    one of its own unless given.  ``phases``: of equal numbers of rows.  ``ranges``: rows that are
    walked instead of all (`spread`).  Raises `UsageError` where a machine is none, or where places
    x machines would not fit into memory.
    """
    rows, walkable = len(trace), [parameters_of(m) for m in machines]
    if not rows:
        raise UsageError("the trace has no rows")
    if not 1 <= phases <= MOST_PHASES:
        raise UsageError(f"phases: from 1 to {MOST_PHASES:,}")
    if labels is None:
        count = trace.statics if isinstance(trace, KeptRows) else len(trace.statics)
        labels = np.arange(count, dtype=np.uint32)
    count = int(labels.max(initial=0)) + 1
    if max(count, phases) * len(machines) * len(CAUSES) > _MOST_SUMS:
        raise UsageError(
            f"{len(machines)} machines by {count:,} places at once are too many: fewer machines"
        )
    edges = [rows * k // phases for k in range(phases + 1)]
    by_place = np.zeros((count, len(machines), len(CAUSES)))
    by_phase = np.zeros((phases, len(machines), len(CAUSES)))
    walked = 0
    pieces = cause_walk(trace, walkable, labels, breaks=edges[1:-1], ranges=ranges, threads=threads)
    for piece in pieces:
        by_place[piece.present] += piece.sums
        by_phase[np.searchsorted(edges, piece.begin, "right") - 1] += piece.sums.sum(0)
        walked += piece.end - piece.begin
    return Stacks(walkable, rows, walked, edges, by_place, by_phase)


def spread(rows: int, most: int, pieces: int = 16) -> list[tuple[int, int]] | None:
    """``most`` of ``rows`` rows as evenly spread ranges; None where that is all of them."""
    if rows <= most:
        return None
    each, step = most // pieces, rows / pieces
    return [(int(k * step), int(k * step) + each) for k in range(pieces)]


def parameters_of(machine: Mapping[str, Any] | MachineLike) -> dict[str, Any]:
    """What a machine, its name, its file or its parameters say: the parameters."""
    if isinstance(machine, Mapping):
        return dict(machine)
    return dict(one_machine(machine).to_dict())


def period_ps(machine: Mapping[str, Any]) -> int:
    """Picoseconds of a clock period, whole as gem5's are."""
    return round(1000 / float(machine["clock_ghz"]))
