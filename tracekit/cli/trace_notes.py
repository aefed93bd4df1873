"""What commands say of a trace before they give its time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.text import note

if TYPE_CHECKING:
    from tracekit import TraceFile

__all__ = ["tell_threads"]


def tell_threads(trace: TraceFile) -> None:
    """A line on standard error where the rows of several threads are walked as one's."""
    from tracekit.prediction import interleaved_threads

    if (threads := interleaved_threads(trace)) > 1:
        note(
            f"{trace.path}: the rows of {threads} threads are walked as one thread's on one core: "
            "shared caches, waiting for each other and the number of cores are not in the figures"
        )
