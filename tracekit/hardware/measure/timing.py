"""Cycles of kernels: each timing stands beside one of a chain of additions, which is the clock."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from tracekit.errors import TracekitError
from tracekit.hardware.measure.kernels import Kernel, kernel
from tracekit.hardware.measure.library import Call, DataPages, time_calls
from tracekit.hardware.measure.shared_core import SHARED, SharedCore

__all__ = ["Run", "Timer"]

#: Additions in the loop of the reference, and how often it runs: about 4 us at 4 GHz.
CHAIN, CHAIN_LOOPS = 200, 80
#: The same untimed before: what ran between may have pushed its code out of the caches.
CHAIN_LEAD = 8
#: Nanoseconds that one timing of a kernel should take.
ENOUGH = 20_000.0
#: Seconds of a nap while another thread shares the core, and that all repetitions of a timer may
#: take.
_NAP, _PATIENCE = 0.003, 60.0

T = TypeVar("T")


@functools.cache
def chain() -> Kernel:
    """The reference: one addition a cycle."""
    return kernel(["chain_add"] * CHAIN, CHAIN)


@dataclass(frozen=True)
class Run:
    """A kernel with its arguments; ``count``: runs of its loop in one timing (None: by time)."""

    kernel: Kernel
    a: int = 0
    b: int = 0
    scratch: int | None = None
    count: int | None = None


class Timer:
    """Times kernels in cycles a step.

    ``ns_per_cycle`` holds the reference's time of every round so far: the clock; ``waited``:
    seconds that timings waited because another thread shared the core, ``shared``: how many of
    them did so in vain; ``alone``: whether timings wait for that at all.
    """

    def __init__(self) -> None:
        self.data = DataPages(1 << 21, large=True)
        self.ns_per_cycle: list[float] = []
        self.waited, self.shared, self.alone = 0.0, 0, True
        self._lost = 0.0
        self._core: SharedCore | None = None

    def close(self) -> None:
        """Give the memory back."""
        self.data.close()

    def reference(self) -> Call:
        """The chain of additions that is the clock."""
        at = self.data.address
        return Call(chain().entry, at, at, at, CHAIN_LOOPS, CHAIN_LEAD)

    def slower(self) -> float:
        """How many times as long independent additions take as in the best moment so far."""
        if self._core is None:  # the thread is pinned by now
            self._core = SharedCore()
        return self._core.slower()

    def undisturbed(self, measure: Callable[[], T]) -> T:
        """What ``measure`` gives while no other thread shares the core: it is repeated until none
        does, or until patience ends."""
        while True:
            begin = time.perf_counter()
            found = measure()
            if not self.alone or self.slower() <= SHARED:
                return found
            if self._lost > _PATIENCE:
                self.shared += 1
                return found
            asleep = time.perf_counter()
            time.sleep(_NAP)
            self.waited += time.perf_counter() - asleep
            self._lost += time.perf_counter() - begin

    def _call(self, run: Run, count: int) -> Call:
        scratch = self.data.address if run.scratch is None else run.scratch
        return Call(run.kernel.entry, run.a or scratch, run.b or scratch, scratch, count)

    def count_for(self, run: Run, enough: float = ENOUGH) -> int | None:
        """How often the kernel's loop must run to take ``enough`` nanoseconds; None where it
        cannot run here."""
        count = 1
        while True:
            times = time_calls([self._call(run, count)] * 2, 1)
            if times is None:
                return None
            least = float(times.min())
            if least > enough / 4 or count > 1 << 24:
                return max(1, int(count * enough / max(least, 1.0)))
            count *= 4

    def _counted(self, run: Run, enough: float) -> int | None:
        """How often the loop runs in a timing; None where the kernel cannot run here."""
        if run.count is None:
            return self.count_for(run, enough)
        once = time_calls([self._call(run, 1)], 1)
        return None if once is None else run.count

    def cycles(
        self, run: Run, rounds: int = 15, enough: float = ENOUGH, quantile: float = 0.3
    ) -> float | None:
        """Cycles a step: the low quantile over ``rounds`` of the kernel's time over that of the
        additions right before and behind it; None where this processor cannot run it."""
        found = self.cycles_many([run], rounds, enough, quantile)
        return found[0]

    def cycles_many(
        self,
        runs: Sequence[Run],
        rounds: int = 15,
        enough: float = ENOUGH,
        quantile: float = 0.3,
    ) -> list[float | None]:
        """`cycles` of several kernels that take turns."""
        counts = [self._counted(r, enough) for r in runs]
        calls = [self.reference()]
        for run, n in zip(runs, counts, strict=True):
            if n is not None:
                calls += [self._call(run, n), self.reference()]
        times = self.undisturbed(lambda: time_calls(calls, rounds))
        if times is None:
            raise TracekitError("a kernel that ran once failed when it was timed")
        references = times[:, 0::2] / (CHAIN * CHAIN_LOOPS)
        self.ns_per_cycle += [float(x) for x in references.min(axis=1)]
        out: list[float | None] = []
        done = 0
        for run, n in zip(runs, counts, strict=True):
            if n is None:
                out.append(None)
                continue
            clock = np.minimum(references[:, done], references[:, done + 1])
            ratio = times[:, 2 * done + 1] / clock / (n * run.kernel.steps)
            out.append(float(np.quantile(ratio, quantile)))
            done += 1
        return out
