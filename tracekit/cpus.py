"""Which cores there are for this process."""

from __future__ import annotations

import os

from tracekit.errors import UsageError

#: Threads, at most.
MOST_THREADS = 65536


def available_cores() -> int:
    """Cores that this process may run on, where the system tells; else all."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def thread_count(threads: int | None) -> int:
    """The number asked for, or one for each core of this process.

    Raises `UsageError` for what is no number from 1 on.
    """
    if threads is None:
        return available_cores()
    number = isinstance(threads, int) and not isinstance(threads, bool)
    if not number or not 1 <= threads <= MOST_THREADS:
        raise UsageError(f"threads is {threads!r}; a whole number from 1 to {MOST_THREADS}")
    return threads


def check_processor(cpu: int | None) -> None:
    """Raises `UsageError` for a processor that this process cannot be pinned to."""
    allowed = os.sched_getaffinity(0)
    if cpu is not None and cpu not in allowed:
        raise UsageError(f"processor {cpu} is not among those of this process: {sorted(allowed)}")
