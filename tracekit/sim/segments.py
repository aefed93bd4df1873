"""A long trace in segments that are walked at the same time, each begun warm.

One thread goes ahead with the functional pass over the trace (csrc/sim/functional_pass.hpp), which
takes a part of a walk's time, and begins each segment's cores as samples are begun (samples.py);
whoever has time walks them.  Where segments begin depends on nothing but their length, so that any
number of threads gives the same cycles.  They are not those of one walk, to the cycle: what warm
starts leave out is lost once a segment.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit import _core
from tracekit.cpus import thread_count
from tracekit.errors import UsageError
from tracekit.sim import plugins
from tracekit.sim.samples import APPROACH, WARM, check_warm_start, counted
from tracekit.sim.trace_walk import RowSource, source_of
from tracekit.store.reader import TraceFile

__all__ = ["segment_sums"]

F64 = npt.NDArray[np.float64]


def segment_sums(
    trace: TraceFile | RowSource,
    machines: Sequence[Mapping[str, Any]],
    length: int,
    *,
    approach: int = APPROACH,
    warm: int = WARM,
    threads: int | None = None,
    report: Callable[[int], None] = lambda _: None,
) -> F64:
    """Cycles of each ``length`` rows of a trace on each machine: float64 [segments, machines].

    The first segment is walked from cold, as `totals` does.  ``approach`` and ``warm``: rows before
    each of the others, as in `sample_sums`.  ``report`` is told how many rows are done, by one
    thread at a time.  Raises `UsageError` for segments that are no longer than both.
    """
    check_warm_start(machines, approach, warm)
    if length <= approach + warm:
        raise UsageError(
            f"segments of {length:,} rows; at least {approach + warm + 1:,}, since so many before "
            "each are walked again"
        )
    source = source_of(trace)
    walk = _SegmentWalk(source, machines, length, approach, warm, report)
    walk.run(thread_count(threads))
    return walk.sums


class _SegmentWalk:
    """What the threads of one walk share."""

    def __init__(
        self,
        source: RowSource,
        machines: Sequence[Mapping[str, Any]],
        length: int,
        approach: int,
        warm: int,
        report: Callable[[int], None],
    ) -> None:
        self._source, self._length = source, length
        self._approach, self._warm, self._report = approach, warm, report
        self._count = -(-len(source) // length)
        self.sums = np.zeros((self._count, len(machines)))
        self._observer = source.cores(machines)
        self._observed = 0  # rows, by the pass
        self._done = 0  # rows, by all walks
        # What `_turn` guards.
        self._turn = threading.Condition()
        self._begun: deque[tuple[int, _core.SimulatedCores]] = deque()
        if self._count:
            self._begun.append((0, source.cores(machines)))
        self._next = 1  # segment that the pass begins
        self._passing = False
        self._failure: BaseException | None = None

    def run(self, threads: int) -> None:
        """All segments, by so many threads; raises what one of them raised."""
        others = [
            threading.Thread(target=self._work, args=(threads,), daemon=True)
            for _ in range(min(threads, self._count) - 1)
        ]
        for t in others:
            t.start()
        self._work(threads)
        try:
            for t in others:
                t.join()
        except BaseException as e:
            self._end(e)
            raise
        if self._failure is not None:
            raise self._failure
        plugins.check()

    def _work(self, threads: int) -> None:
        """One thread's part."""
        try:
            while (job := self._job(threads)) is not None:
                job()
        except BaseException as e:
            self._end(e)

    def _end(self, why: BaseException) -> None:
        """All threads end at their next block."""
        with self._turn:
            self._failure = self._failure or why
            self._turn.notify_all()

    def _job(self, ahead: int) -> Callable[[], None] | None:
        """What is to be done next; None where nothing is left.  The pass comes first, since all
        others wait for it, but for when ``ahead`` segments wait for somebody."""
        with self._turn:
            self._turn.wait_for(lambda: self._failure or self._begun or not self._passing)
            if self._failure is not None:
                return None
            left = self._next < self._count
            if left and not self._passing and len(self._begun) < ahead:
                self._passing = True
                return self._pass
            return partial(self._walk, *self._begun.popleft()) if self._begun else None

    def _pass(self) -> None:
        """The functional pass, up to the next segment."""
        walked = self._next * self._length - self._warm
        seen = walked - self._approach
        for b in self._source.blocks(self._observed, seen):
            self._observer.observe(b.ids, b.addr, b.bits, b.following)
            if self._failure is not None:
                return
        b = self._source.block(seen, walked)
        cores = self._observer.begun_behind(b.ids, b.addr, b.bits, b.following)
        self._observed = walked
        with self._turn:
            self._begun.append((self._next, cores))
            self._next += 1
            self._passing = False
            self._turn.notify_all()

    def _walk(self, number: int, cores: _core.SimulatedCores) -> None:
        first = number * self._length
        end = min(first + self._length, len(self._source))
        for b in self._source.blocks(max(first - self._warm, 0), end):
            self.sums[number] += counted(cores, b, first, 1)
            with self._turn:
                if self._failure is not None:
                    return
                self._done += max(b.begin + len(b.ids) - max(first, b.begin), 0)
                self._report(self._done)
