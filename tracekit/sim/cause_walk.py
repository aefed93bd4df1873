"""A trace through simulated cores that know why each row retires when it does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit import _core
from tracekit.cpus import thread_count
from tracekit.errors import UsageError
from tracekit.sim.trace_walk import RowSource, source_of
from tracekit.store.reader import TraceFile

__all__ = ["CauseSums", "cause_walk"]


@dataclass(frozen=True)
class CauseSums:
    """Cycles of the rows [begin, end): ``sums`` float64 [labels, machines, causes] of the labels
    ``present`` (increasing)."""

    begin: int
    end: int
    present: npt.NDArray[np.intp]
    sums: npt.NDArray[np.float64]


def cause_walk(
    trace: TraceFile | RowSource,
    machines: Sequence[Mapping[str, Any]],
    labels: npt.NDArray[np.uint32],
    *,
    breaks: Sequence[int] = (),
    ranges: Sequence[tuple[int, int]] | None = None,
    threads: int | None = None,
) -> Iterator[CauseSums]:
    """Cycles by cause (_core.CAUSES), from cold cores, in pieces that cross none of ``breaks``
    (increasing row numbers).

    ``labels``: uint32 of each static instruction; the pieces' sums are by label.  ``ranges``: rows
    that are walked instead of all, one range after the other.
    """
    if not machines:
        raise UsageError("no machines")
    source = source_of(trace)
    if len(labels) != source.statics:
        raise UsageError(f"labels: one for each of {source.statics:,} static instructions")
    cores = source.cores(machines, causes=True)
    threads = thread_count(threads)
    edges = np.asarray(breaks, np.int64)
    place = np.zeros(int(labels.max(initial=0)) + 1, np.uint32)
    seen = np.zeros(len(place), np.bool_)
    for first, last in ranges or [(0, len(source))]:
        for b in source.blocks(first, last):
            end = b.begin + len(b.ids)
            inside = edges[(edges > b.begin) & (edges < end)] - b.begin
            for i, j in zip([0, *inside.tolist()], [*inside.tolist(), len(b.ids)], strict=True):
                mine = labels[b.ids[i:j]]
                seen[:] = False
                seen[mine] = True
                present = np.flatnonzero(seen)
                place[present] = np.arange(len(present), dtype=np.uint32)
                out = np.zeros((len(present), len(machines), len(_core.CAUSES)))
                p = b.part(i, j)
                cores.cause_sums(p.ids, p.addr, p.bits, p.following, place[mine], out, threads)
                yield CauseSums(b.begin + i, b.begin + j, present, out)
