"""What commands say of a trace before they give its time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.text import note

if TYPE_CHECKING:
    from tracekit import TraceFile

__all__ = ["tell_limits", "tell_missing_flags"]


def tell_limits(trace: TraceFile) -> None:
    """A line on standard error for each thing that times of the trace leave out: the rows of
    several threads are walked as one's, gem5 was not asked for addresses."""
    from tracekit.prediction import interleaved_threads

    tell_missing_flags(trace)
    if (threads := interleaved_threads(trace)) > 1:
        note(
            f"{trace.path}: the rows of {threads} threads are walked as one thread's on one core: "
            "shared caches, waiting for each other and the number of cores are not in the figures"
        )


def tell_missing_flags(trace: TraceFile) -> None:
    """A line on standard error for each of gem5's debug flags that the trace was written
    without."""
    from tracekit.store.debug_flags import without_debug_flags

    for text in without_debug_flags(trace):
        note(f"{trace.path}: {text}")
