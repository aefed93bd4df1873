"""A trace in one line, and in a notebook."""

from __future__ import annotations

from typing import Protocol

from tracekit import text
from tracekit.store.index_types import Index
from tracekit.text import counted

__all__ = ["html_table", "line"]


class Trace(Protocol):
    """What is needed of a file (tracekit.store.reader.TraceFile)."""

    path: str
    size: int
    index: Index
    timed: bool

    @property
    def columns(self) -> tuple[str, ...]: ...
    @property
    def arch(self) -> str: ...
    @property
    def level(self) -> str: ...
    def __len__(self) -> int: ...


def line(trace: Trace) -> str:
    """Path, rows, level, instruction set, static instructions."""
    timed = "timed" if trace.timed else "not timed"
    return (
        f"{ascii(trace.path)[1:-1]}: {counted(len(trace), 'row')} ({trace.level}, {trace.arch}, "
        f"{timed}), "
        f"{counted(trace.index['statics']['count'], 'static instruction')}"
    )


def html_table(trace: Trace) -> str:
    """What the file holds."""
    facts = {
        "rows": f"{len(trace):,} ({trace.level})",
        "static instructions": f"{trace.index['statics']['count']:,}",
        "instruction set": trace.arch,
        "stage ticks": "yes" if trace.timed else "no",
        "bytes": f"{trace.size:,}",
        "columns": ", ".join(trace.columns),
    }
    return text.html_table(trace.path, facts.items())
