"""Which cores there are for this process."""

from __future__ import annotations

import os

from tracekit.errors import UsageError


def available_cores() -> int:
    """Cores that this process may run on, where the system tells; else all."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_processor(cpu: int | None) -> None:
    """Raises `UsageError` for a processor that this process cannot be pinned to."""
    allowed = os.sched_getaffinity(0)
    if cpu is not None and cpu not in allowed:
        raise UsageError(f"processor {cpu} is not among those of this process: {sorted(allowed)}")
