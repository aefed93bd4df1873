"""`tracekit.open`: a feats.zst as it is, a recording by way of its features."""

from __future__ import annotations

import contextlib
import os
from typing import Literal

from tracekit.errors import UsageError
from tracekit.extraction import extract
from tracekit.inputs.tks import is_tks
from tracekit.io.files import first_bytes
from tracekit.io.output import scratch
from tracekit.io.remote import public_name
from tracekit.store.reader import TraceFile

__all__ = ["at_level", "open_trace"]

Level = Literal["micro", "macro"]


class _Recording(TraceFile):
    """The features of a recording.  Their file is gone from its folder once it is open."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        with scratch() as folder:
            features = folder / "features.zst"
            extract(path, features, level="macro", threads="interleaved")
            super().__init__(features)
        self.path, self.address = public_name(path), os.fspath(path)

    def __reduce__(self) -> tuple[type[TraceFile], tuple[str]]:
        return _Recording, (self.address,)


class _Joined(TraceFile):
    """The instructions of a file of micro-ops, extracted from it.  Their file is gone from its
    folder once it is open."""

    def __init__(self, path: str) -> None:
        with TraceFile(path) as micro, scratch() as folder:
            o = micro.index["options"]
            features = folder / "features.zst"
            extract(
                path,
                features,
                level="macro",
                history=o.get("history", 8),
                line_bytes=1 << o["line_bits"],
                clock_ps=o.get("clock_ps"),
            )
            super().__init__(features)
        self.path, self.address = public_name(path), path

    def __reduce__(self) -> tuple[type[TraceFile], tuple[str]]:
        return _Joined, (self.address,)


def at_level(trace: TraceFile, level: Level) -> TraceFile:
    """``trace`` where it is of that level; else its instructions, which are to be closed, too.

    Micro-ops are joined as ``tracekit extract --level macro`` joins those of the trace that the
    file was made of: the rows are the same, and so are all features where the file begins with the
    trace.

    Raises `UsageError` where the rows are instructions, which have no micro-ops, or the level is
    neither.
    """
    if level not in ("micro", "macro"):
        raise UsageError(f"level: 'micro' or 'macro', not {level!r}", path=trace.path)
    if trace.level == level:
        return trace
    if level == "micro":
        raise UsageError(
            "its rows are instructions; their micro-ops are not in it",
            path=trace.path,
            hint="extract the trace that it was made of with --level micro",
        )
    return _Joined(trace.address)


def open_trace(path: str | os.PathLike[str], *, level: Level | None = None) -> TraceFile:
    """Open a trace for reading: a feats.zst, or a recording (.tks).

    The features of a recording are extracted first, at the macro level, all its threads' epochs in
    the order in which they were taken; that takes time and room in the temporary folder for as long
    as it is open.  ``tracekit extract`` makes a file that opens at once.

    path: of a file; its kind is recognised by content.
    level: what a row is to be; as in the file unless given.  "macro" joins the micro-ops of a file
        that has them to instructions, which takes about as long as a recording's features.

    Raises `TracekitError` where the file cannot be opened, `FormatError` where it is damaged or
    another file, and `UsageError` where "micro" is asked for and the file has no micro-ops, or
    where the level is neither.

    >>> import tracekit
    >>> with tracekit.open("feats.zst") as trace:
    ...     print(trace)
    ...     trace["pc"][:2]
    feats.zst: 6,134 rows (micro, arm, timed), 2,799 static instructions
    array([4196096, 4196100], dtype=uint64)
    >>> with tracekit.open("feats.zst", level="macro") as trace:
    ...     print(trace)
    feats.zst: 5,096 rows (macro, arm, timed), 2,323 static instructions
    """
    trace = _Recording(path) if is_tks(first_bytes(path, 16)) else TraceFile(path)
    if level is None:
        return trace
    with contextlib.ExitStack() as stack:
        stack.callback(trace.close)
        found = at_level(trace, level)
        if found is trace:
            stack.pop_all()
    return found
