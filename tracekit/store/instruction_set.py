"""Which instruction set the rows of a file are of."""

from __future__ import annotations

from tracekit.errors import UsageError
from tracekit.store.reader import TraceFile

__all__ = ["check_arch"]


def check_arch(arch: str, trace: TraceFile) -> None:
    """UsageError where a model of ``arch`` is given rows of another instruction set; either may be
    unknown ("")."""
    found = trace.arch
    if arch and found and arch != found:
        raise UsageError(
            f"the features are of {found}, the model of {arch}",
            path=trace.path,
            hint="give --model",
        )
