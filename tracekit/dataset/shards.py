"""Windows of several traces, dealt out to workers: what other people's training loops read."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from tracekit.errors import UsageError
from tracekit.store.reader import TraceFile

__all__ = ["Windows"]

F32 = npt.NDArray[np.float32]
Targets = npt.NDArray[np.float64] | npt.NDArray[np.int64]


@dataclass(frozen=True)
class Windows:
    """Windows of ``length`` rows of the files ``paths``, ``stride`` rows apart (``length`` unless
    given), with features of the set ``features`` and ``target`` ("cycles" or "ticks").

    A window does not cross a file's chunks, which are what is decoded at once and what workers get.
    With ``shuffle`` as a seed, chunks and the windows of each chunk come in an order that the seed
    and the epoch decide.  Every epoch has the same windows, however many workers there are.
    """

    paths: tuple[str, ...]
    features: str = "perfvec"
    length: int = 256
    stride: int | None = None
    target: Literal["cycles", "ticks"] = "cycles"
    shuffle: int | None = None

    def __post_init__(self) -> None:
        if not self.paths:
            raise UsageError("windows of no file")
        if self.length < 1 or self._step < 1:
            raise UsageError("windows: length and stride are at least 1")

    @classmethod
    def of(
        cls,
        paths: Sequence[str | os.PathLike[str]],
        features: str = "perfvec",
        length: int = 256,
        *,
        stride: int | None = None,
        target: Literal["cycles", "ticks"] = "cycles",
        shuffle: int | None = None,
    ) -> Windows:
        """The windows of these files."""
        named = tuple(os.fspath(p) for p in paths)
        return cls(named, features, length, stride, target, shuffle)

    @property
    def _step(self) -> int:
        return self.length if self.stride is None else self.stride

    def count(self) -> int:
        """How many windows an epoch has."""
        total = 0
        for path in self.paths:
            with TraceFile(path) as trace:
                rows = np.diff(trace.starts)
            fit = rows[rows >= self.length]
            total += int(((fit - self.length) // self._step + 1).sum())
        return total

    def shard(
        self, epoch: int = 0, number: int = 0, shards: int = 1
    ) -> Iterator[tuple[F32, Targets]]:
        """The windows that worker ``number`` of ``shards`` gets in an epoch: float32 [length,
        columns] and [length] targets, arrays that may be written to."""
        if not 0 <= number < shards:
            raise UsageError(f"worker {number} of {shards}")
        with contextlib.ExitStack() as files:
            traces = [files.enter_context(TraceFile(p)) for p in self.paths]
            places = [(k, c) for k, t in enumerate(traces) for c in range(t.chunks)]
            for k, c in [places[i] for i in self._order(len(places), epoch)][number::shards]:
                trace = traces[k]
                rows = int(trace.starts[c]), int(trace.starts[c + 1])
                at = range(0, rows[1] - rows[0] - self.length + 1, self._step)
                if not at:
                    continue
                x = trace.features(self.features, rows)
                y = trace.targets(self.target, rows)
                for i in self._order(len(at), epoch, k, c):
                    window = slice(at[i], at[i] + self.length)
                    yield x[window].copy(), y[window].copy()

    def _order(self, n: int, *of: int) -> list[int]:
        if self.shuffle is None:
            return list(range(n))
        order: list[int] = np.random.default_rng([self.shuffle, *of]).permutation(n).tolist()
        return order
