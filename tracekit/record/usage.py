"""Processor time of a program with all its threads and children, without what stepping costs."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from tracekit.record import procfs

__all__ = ["Times", "Watch", "thread_times"]

_TICK = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


@dataclass(frozen=True)
class Times:
    """Seconds so far: in the program's own code, in the kernel, and in a run queue."""

    user: float = 0.0
    system: float = 0.0
    queued: float = 0.0

    def __add__(self, other: Times) -> Times:
        return Times(self.user + other.user, self.system + other.system, self.queued + other.queued)

    def since(self, before: Times) -> Times:
        """What came after ``before``."""
        return Times(
            max(0.0, self.user - before.user),
            max(0.0, self.system - before.system),
            max(0.0, self.queued - before.queued),
        )


def thread_times(pid: int, tid: int) -> Times | None:
    """One thread's; None when it is gone."""
    folder = Path(f"/proc/{pid}/task/{tid}")
    try:
        fields = procfs.stat_fields(folder / "stat")
        user, system = int(fields[11]) / _TICK, int(fields[12]) / _TICK
    except (IndexError, ValueError):
        return None
    queued = 0.0
    with contextlib.suppress(OSError, IndexError, ValueError):  # a kernel that does not count it
        queued = int((folder / "schedstat").read_text().split()[1]) / 1e9
    return Times(user, system, queued)


def _process_times(pid: int) -> tuple[Times, Times] | None:
    """User and system seconds of a process and its ended threads, and of children that ended."""
    try:
        own = [int(f) / _TICK for f in procfs.stat_fields(Path(f"/proc/{pid}/stat"))[11:15]]
    except ValueError:
        return None
    return (Times(own[0], own[1]), Times(own[2], own[3])) if len(own) == 4 else None


class Watch:
    """The times of process ``pid`` and its descendants from now on; `look` now and then.

    ``reaped``: what a parent was told of children that ended counts; else they keep what they had
    at the last look.  Copies that we make are children of the program where we did not start it,
    so that such a program's ended children cannot be told from them.
    """

    def __init__(self, pid: int, *, reaped: bool) -> None:
        self.pid, self.threads, self.processes = pid, 0, 0
        self._reaped = reaped
        self._own: dict[int, Times] = {}  # of each process
        self._queued: dict[int, Times] = {}  # of each thread
        self._children = Times()
        self._first = self._first_own = Times()
        self.look()
        self._first, self._first_own = self._sum(), self._own.get(pid, Times())

    def look(self) -> None:
        """Read the clocks of the process and of all its descendants once more."""
        own: dict[int, Times] = {}
        children = Times()
        threads = 0
        for pid in (self.pid, *procfs.descendants(self.pid)):
            times = _process_times(pid)
            if times is None:
                continue
            own[pid], ended = times
            children += ended
            tids = procfs.threads(pid)
            threads += len(tids)
            for tid in tids:
                if (one := thread_times(pid, tid)) is not None:
                    self._queued[tid] = Times(queued=one.queued)
        if self.pid not in own:  # it has ended: what was seen last is all there is
            return
        if self._reaped:
            self._own, self._children = own, children
        else:
            self._own.update(own)
        self.threads, self.processes = max(self.threads, threads), max(self.processes, len(own))

    def _sum(self) -> Times:
        total = self._children
        for times in (*self._own.values(), *self._queued.values()):
            total += times
        return total

    @property
    def times(self) -> Times:
        """Of all of them, since the watch began."""
        return self._sum().since(self._first)

    @property
    def children(self) -> Times:
        """Of all but ``pid`` itself."""
        own = self._own.get(self.pid, Times()).since(self._first_own)
        whole = self.times
        return Times(max(0.0, whole.user - own.user), max(0.0, whole.system - own.system))
