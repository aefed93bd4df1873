"""Basic-block vectors: how often each basic block ran in each interval of a program (Sherwood et
al., ASPLOS 2002), as gem5's SimPoint probe counts them (src/cpu/simple/probes/simpoint.cc)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tracekit.errors import UsageError
from tracekit.progress import Progress
from tracekit.store.reader import TraceFile

__all__ = ["BlockVectors", "block_vectors"]

I64 = npt.NDArray[np.int64]
_ROWS = 1 << 18  # at a time


@dataclass(frozen=True, eq=False)
class BlockVectors:
    """Vectors of the intervals of a program, each as the blocks that ran in it.

    Interval k has the blocks ``block[begin[k] : begin[k + 1]]`` (int64, numbered from 1 in the
    order in which they ran first), with ``count`` (int64) instructions each.  ``length``: the
    instructions of an interval, which ends with the block in which they are reached.
    ``rows``: int64 [intervals + 1], the first row of each interval and the end of the last; None
    where only the vectors are known.  ``left_out``: instructions behind the last whole interval.
    """

    block: I64
    count: I64
    begin: I64
    length: int
    rows: I64 | None = None
    left_out: int = 0

    def __len__(self) -> int:
        return len(self.begin) - 1

    @property
    def instructions(self) -> I64:
        """Of each interval: int64 [intervals]."""
        ends = np.concatenate([[0], np.cumsum(self.count)])[self.begin]
        return np.diff(ends).astype(np.int64)


class _Counter:
    """Blocks as they end, one after another."""

    def __init__(self, length: int) -> None:
        self._length, self._total = length, 0
        self._known: dict[int, int] = {}
        self._open: list[tuple[I64, I64]] = []  # of the interval that has not ended
        self.done: list[tuple[I64, I64]] = []
        self.rows = [0]

    @property
    def left_out(self) -> int:
        return sum(int(count.sum()) for _, count in self._open)

    def put(self, keys: I64, lengths: I64, ends: I64) -> None:
        """Blocks by what names them, their instructions, and the row behind each."""
        found, first, which = np.unique(keys, return_index=True, return_inverse=True)
        numbers = np.empty(len(found), np.int64)
        for k in np.argsort(first).tolist():
            numbers[k] = self._known.setdefault(int(found[k]), len(self._known) + 1)
        number = numbers[which.ravel()]
        reached = self._total + np.cumsum(lengths)
        self._total = int(reached[-1])
        at = 0
        while True:
            goal = self._length * (len(self.done) + 1)
            last = max(at, int(np.searchsorted(reached, goal)))
            if last >= len(reached):
                break
            self._open.append(_summed(number[at : last + 1], lengths[at : last + 1]))
            self.close(int(ends[last]))
            at = last + 1
        if at < len(number):
            self._open.append(_summed(number[at:], lengths[at:]))

    def close(self, row: int) -> None:
        """An interval ends before ``row``."""
        blocks, counts = (np.concatenate(parts) for parts in zip(*self._open, strict=True))
        self.done.append(_summed(blocks, counts))
        self._open = []
        self.rows.append(row)


def _summed(block: I64, count: I64) -> tuple[I64, I64]:
    """Each block once, in order, with all its instructions."""
    found, which = np.unique(block, return_inverse=True)
    sums = np.zeros(len(found), np.int64)
    np.add.at(sums, which.ravel(), count)
    return found, sums


def block_vectors(trace: TraceFile, length: int, *, quiet: bool = True) -> BlockVectors:
    """The vectors of a trace in intervals of ``length`` instructions.

    As in gem5's probe a block ends with a control instruction, and an interval with the first block
    that reaches a multiple of ``length``; what follows the last whole interval is left out.  A
    program shorter than one interval is one interval.

    Raises `UsageError` for a trace without instructions, and for a length below 1.
    """
    if length < 1:
        raise UsageError(f"an interval of {length} instructions; at least 1")
    statics = trace.statics
    ends, control = statics.ends(), statics.branch != 0
    pcs, pc = np.unique(statics.pc, return_inverse=True)
    pc = pc.ravel().astype(np.int64)
    counter = _Counter(length)
    first, before, last = -1, 0, 0  # of the block that has not ended
    n = len(trace)
    with Progress(Path(trace.path).name, n, quiet=quiet) as progress:
        for begin in range(0, n, _ROWS):
            ids = trace.column("static_id", (begin, min(begin + _ROWS, n)))
            at = np.flatnonzero(ends[ids])
            insts = ids[at]
            stop = np.flatnonzero(control[insts])
            if len(stop):
                lengths = np.diff(stop, prepend=-1)
                firsts = pc[insts[np.concatenate([[0], stop[:-1] + 1])]]
                lengths[0] += before
                if before:
                    firsts[0] = first
                counter.put(firsts * len(pcs) + pc[insts[stop]], lengths, begin + at[stop] + 1)
                before = 0
            rest = insts[int(stop[-1]) + 1 :] if len(stop) else insts
            if len(rest):
                first = first if before else int(pc[rest[0]])
                before, last = before + len(rest), int(pc[rest[-1]])
            progress.update(begin + len(ids))
    if not counter.done:  # walked whole
        if before:
            counter.put(*(np.array([v]) for v in (first * len(pcs) + last, before, n)))
            before = 0
        if not counter.done:
            if not counter.left_out:
                raise UsageError("the trace has no instructions", path=trace.path)
            counter.close(n)
    begins = np.cumsum([0, *(len(b) for b, _ in counter.done)], dtype=np.int64)
    block, count = (np.concatenate(parts) for parts in zip(*counter.done, strict=True))
    rows = np.array(counter.rows, np.int64)
    return BlockVectors(block, count, begins, length, rows, counter.left_out + before)
