"""Windows of a trace's rows, for training."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from tracekit.errors import UsageError
from tracekit.text import counted

__all__ = ["check_longest", "row_windows"]

F32 = npt.NDArray[np.float32]
Targets = npt.NDArray[np.float64] | npt.NDArray[np.int64]
Range = tuple[int, int]


class Trace(Protocol):
    """What is needed of a file (tracekit.store.reader.TraceFile)."""

    @property
    def chunks(self) -> int: ...
    @property
    def starts(self) -> npt.NDArray[np.int64]: ...
    def features(self, name: str, rows: Range) -> F32: ...
    def targets(
        self, unit: Literal["cycles", "ticks"], rows: Range, *, writable: bool
    ) -> Targets: ...


def row_windows(
    trace: Trace,
    name: str,
    length: int,
    target: Literal["cycles", "ticks"] | None,
    shuffle: int | None,
    stride: int,
) -> Iterator[F32] | Iterator[tuple[F32, Targets]]:
    """As `TraceFile.windows`; with a ``target`` its values, too."""
    if length < 1 or stride < 1:
        raise UsageError("windows: length and stride are at least 1")
    check_longest(int(np.diff(trace.starts).max(initial=0)), length)
    if shuffle is not None and shuffle < 0:
        raise UsageError("windows: shuffle is a seed, 0 or more")
    places = _places(trace, length, shuffle, stride)
    if target is None:
        return _features(trace, name, length, places)
    return _with_targets(trace, name, length, target, places)


def check_longest(longest: int, length: int, path: str | None = None) -> None:
    """Raises UsageError where no chunk has the rows of a window: ``longest`` is the longest one's.
    Silence would look like an empty file."""
    if longest < length:
        raise UsageError(
            f"no window of {counted(length, 'row')}: the longest chunk has {longest:,}",
            path=path,
            hint="tracekit extract --chunk-rows makes longer ones",
        )


def _features(
    trace: Trace, name: str, length: int, places: Iterator[tuple[Range, list[int]]]
) -> Iterator[F32]:
    for rows, starts in places:
        x = trace.features(name, rows)
        yield from (x[i : i + length] for i in starts)


def _with_targets(
    trace: Trace,
    name: str,
    length: int,
    target: Literal["cycles", "ticks"],
    places: Iterator[tuple[Range, list[int]]],
) -> Iterator[tuple[F32, Targets]]:
    for rows, starts in places:
        x, y = trace.features(name, rows), trace.targets(target, rows, writable=True)
        yield from ((x[i : i + length], y[i : i + length]) for i in starts)


def _places(
    trace: Trace, length: int, shuffle: int | None, stride: int
) -> Iterator[tuple[Range, list[int]]]:
    """The rows of each chunk, and where in it windows begin."""
    random = np.random.default_rng(shuffle) if shuffle is not None else None
    order = np.arange(trace.chunks) if random is None else random.permutation(trace.chunks)
    for k in order.tolist():
        begin, end = int(trace.starts[k]), int(trace.starts[k + 1])
        at = np.arange(0, end - begin - length + 1, stride)
        yield (begin, end), (at if random is None else random.permutation(at)).tolist()
