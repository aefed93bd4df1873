"""How far each interval of a program reaches back in memory: histograms of LRU stack distances
(the LDVs of BarrierPoint: Carlson et al., ISPASS 2014), and the misses that follow."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from tracekit.progress import Progress
from tracekit.schema import NEVER
from tracekit.store.reader import TraceFile

__all__ = ["BUCKETS", "STACKS", "memory_vectors", "misses"]

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
#: The columns that know the distances: of lines of data, and of code.
STACKS: Final = ("data_distance", "fetch_distance")
#: Bucket k has the distances that a cache of 2**k lines holds and one of half as many does not;
#: the last one has first touches, too.
BUCKETS: Final = (NEVER - 1).bit_length() + 1
_ROWS = 1 << 18  # at a time


def memory_vectors(trace: TraceFile, rows: I64, *, quiet: bool = True) -> I64:
    """How many accesses of each interval have a stack distance of each bucket: int64 [intervals,
    stacks, buckets].

    ``rows``: int64 [intervals + 1], where intervals begin and the last one ends, as `BlockVectors`
    has them.  Stacks are empty at the first row of the trace.
    """
    out = np.zeros((len(rows) - 1, len(STACKS), BUCKETS), np.int64)
    start, stop = int(rows[0]), int(rows[-1])
    with Progress(f"{Path(trace.path).name}, memory", stop - start, quiet=quiet) as progress:
        for begin in range(start, stop, _ROWS):
            end = min(begin + _ROWS, stop)
            first = int(np.searchsorted(rows, begin, side="right")) - 1
            last = int(np.searchsorted(rows, end))
            edges = np.clip(rows[first : last + 1], begin, end)
            interval = np.repeat(np.arange(last - first), np.diff(edges))
            for stack, column in enumerate(STACKS):
                distance = trace.column(column, (begin, end))
                accessed = distance != 0
                cell = interval[accessed] * BUCKETS + _bucket(distance[accessed])
                counts = np.bincount(cell, minlength=(last - first) * BUCKETS)
                out[first:last, stack] += counts.reshape(-1, BUCKETS)
            progress.update(end - start)
    return out


def misses(vectors: I64, instructions: I64) -> F64:
    """What fully associative LRU caches of 0, 1, 2, 4, … lines, a data and a code cache of each
    size, miss an instruction: float64 [intervals, stacks * buckets].

    ``vectors``: as from `memory_vectors`.  ``instructions``: int64 [intervals].
    """
    behind = vectors[..., ::-1].cumsum(axis=-1)[..., ::-1]
    out: F64 = behind.reshape(len(vectors), -1) / instructions[:, None]
    return out


def _bucket(distance: npt.NDArray[np.uint32]) -> I64:
    """The least k with distance <= 2**k, but the last bucket for first touches."""
    power: I64 = np.frexp(distance - 0.5)[1].astype(np.int64)
    power[distance >= NEVER] = BUCKETS - 1
    return power
