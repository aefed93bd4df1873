"""`tracekit.open`: a feats.zst as it is, a recording by way of its features."""

from __future__ import annotations

import os

from tracekit.extraction import extract
from tracekit.inputs.tks import is_tks
from tracekit.io.files import first_bytes
from tracekit.io.output import scratch
from tracekit.store.reader import TraceFile

__all__ = ["open_trace"]


class _Recording(TraceFile):
    """The features of a recording.  Their file is gone from its folder once it is open."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        with scratch() as folder:
            features = folder / "features.zst"
            extract(path, features, level="macro", threads="interleaved")
            super().__init__(features)
        self.path = os.fspath(path)

    def __reduce__(self) -> tuple[type[TraceFile], tuple[str]]:
        return _Recording, (self.path,)


def open_trace(path: str | os.PathLike[str]) -> TraceFile:
    """Open a trace for reading: a feats.zst, or a recording (.tks).

    The features of a recording are extracted first, at the macro level, all its threads' epochs in
    the order in which they were taken; that takes time and room in the temporary folder for as long
    as it is open.  ``tracekit extract`` makes a file that opens at once.

    path: of a file; its kind is recognised by content.

    Raises `TracekitError` where the file cannot be opened, and `FormatError` where it is damaged or
    another file.

    >>> import tracekit
    >>> with tracekit.open("feats.zst") as trace:
    ...     print(trace)
    ...     trace["pc"][:2]
    feats.zst: 6,134 rows (micro, arm, timed), 2,799 static instructions
    array([4196096, 4196100], dtype=uint64)
    """
    if is_tks(first_bytes(path, 16)):
        return _Recording(path)
    return TraceFile(path)
