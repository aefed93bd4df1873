"""Programs as parallel streams of rows, for networks that carry their state along."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.dataset import Dataset, Program
from tracekit.errors import UsageError

__all__ = ["Streams", "statistics"]

F32 = npt.NDArray[np.float32]

#: Rows of each program that means and deviations are taken over.
_SAMPLE = 1 << 17
#: Rows of all streams together that are read at once: a file's chunk is then decoded a few times,
#: not for every block of every stream that is in it.
_AHEAD = 1 << 18


class Streams:
    """The programs end to end, cut into ``streams`` equal parts; block k is rows
    [k step, (k + 1) step) of every part, so that the state after one block is that before the next.

    Rows that do not fill a block are left out.  ``rows``: only the first of each program.
    """

    def __init__(
        self,
        programs: Sequence[Program],
        features: str,
        streams: int,
        step: int,
        rows: int | None = None,
    ) -> None:
        self._parts = [p.open() for p in programs]
        self._lengths = [min(len(d), rows or len(d)) for d in self._parts]
        self._ends = np.cumsum(self._lengths)
        self._features, self._step = features, step
        total = int(self._ends[-1])
        self._each = total // streams // step * step
        if self._each == 0:
            raise UsageError(f"{total} rows are too few for {streams} streams of {step}")
        self.blocks = self._each // step
        self._together = max(1, _AHEAD // (streams * step))
        self._held: tuple[Any, list[tuple[F32, F32]]] = (None, [])

    def block(self, k: int, streams: Sequence[int]) -> tuple[F32, F32]:
        """Features and cycles, float32 [streams, step, columns] and [streams, step, machines]."""
        group, place = divmod(k, self._together)
        key = group, tuple(streams)
        if self._held[0] != key:
            self._held = key, [self._piece(s, group) for s in streams]
        rows = slice(place * self._step, (place + 1) * self._step)
        held = self._held[1]
        return np.stack([x[rows] for x, _ in held]), np.stack([y[rows] for _, y in held])

    def _piece(self, stream: int, group: int) -> tuple[F32, F32]:
        """A stream's rows of the blocks that are read together."""
        size, first = self._together * self._step, stream * self._each
        return self._rows(first + group * size, first + min((group + 1) * size, self._each))

    def _rows(self, begin: int, end: int) -> tuple[F32, F32]:
        xs, ys = [], []
        while begin < end:
            k = int(np.searchsorted(self._ends, begin, "right"))
            first, upto = int(self._ends[k]) - self._lengths[k], min(end, int(self._ends[k]))
            rows = (begin - first, upto - first)
            data: Dataset = self._parts[k]
            xs.append(data.features(self._features, rows))
            ys.append(data.cycles(rows).astype(np.float32))
            begin = upto
        return np.concatenate(xs), np.concatenate(ys)

    def close(self) -> None:
        """Close the files."""
        for d in self._parts:
            d.close()

    def __enter__(self) -> Streams:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def statistics(
    programs: Sequence[Program], features: str, rows: int | None = None
) -> tuple[F32, F32]:
    """Mean and deviation of the feature columns over the programs' first rows; 1 where a column
    does not vary."""
    total: Any = 0.0
    squares: Any = 0.0
    n = 0
    for p in programs:
        with p.open() as data:
            upto = min(len(data), rows or _SAMPLE, _SAMPLE)
            x = data.features(features, (0, upto)).astype(np.float64)
        total, squares, n = total + x.sum(axis=0), squares + (x * x).sum(axis=0), n + len(x)
    mean = np.asarray(total) / n
    std = np.sqrt(np.maximum(np.asarray(squares) / n - mean**2, 0))
    return mean.astype(np.float32), np.where(std > 1e-6, std, 1).astype(np.float32)
