"""Windows of several traces, dealt out to workers: what other people's training loops read."""

from __future__ import annotations

import contextlib
import functools
import os
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from tracekit.errors import TracekitError, UsageError
from tracekit.features import get as feature_set
from tracekit.store.reader import TraceFile
from tracekit.store.row_windows import check_longest

__all__ = ["Windows", "taken"]

F32 = npt.NDArray[np.float32]
Targets = npt.NDArray[np.float64] | npt.NDArray[np.int64]


#: Files that are opened at a time for their numbers of rows, and that stay open.
_AT_ONCE, _OPEN = 8, 16


class _Opened:
    """The files that were used last, open."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths
        self._open: OrderedDict[int, TraceFile] = OrderedDict()

    def __getitem__(self, k: int) -> TraceFile:
        if k not in self._open:
            self._open[k] = TraceFile(self._paths[k])
        self._open.move_to_end(k)
        if len(self._open) > _OPEN:
            self._open.popitem(last=False)[1].close()
        return self._open[k]

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1].close()


@dataclass(frozen=True)
class Windows:
    """Windows of ``length`` rows of the files ``paths``, ``stride`` rows apart (``length`` unless
    given), with features of the set ``features`` and ``target`` ("cycles" or "ticks").

    A window does not cross a file's chunks, which are what is decoded at once and what workers get.
    With ``shuffle`` as a seed, chunks and the windows of each chunk come in an order that the seed
    and the epoch decide.  Every epoch has the same windows, however many workers there are.  Files
    may lie elsewhere (docs/cluster.md); a few of them are open at a time.

    Raises `UsageError` where there is no such set or target, and where no chunk has the rows of a
    window.
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
        if self.target not in ("cycles", "ticks"):
            raise UsageError(f"windows: target is 'cycles' or 'ticks', not {self.target!r}")
        if self.shuffle is not None and self.shuffle < 0:
            raise UsageError("windows: shuffle is a seed, 0 or more")
        feature_set(self.features)  # UsageError where there is none

    @classmethod
    def of(
        cls,
        paths: Sequence[str | os.PathLike[str]] | str | os.PathLike[str],
        features: str = "perfvec",
        length: int = 256,
        *,
        stride: int | None = None,
        target: Literal["cycles", "ticks"] = "cycles",
        shuffle: int | None = None,
    ) -> Windows:
        """The windows of these files, or of one."""
        some = [paths] if isinstance(paths, str | os.PathLike) else paths
        named = tuple(os.fspath(p) for p in some)
        return cls(named, features, length, stride, target, shuffle)

    @property
    def _step(self) -> int:
        return self.length if self.stride is None else self.stride

    def count(self) -> int:
        """How many windows an epoch has."""
        return sum(self.counts(0, 1))

    @functools.cached_property
    def starts(self) -> tuple[npt.NDArray[np.int64], ...]:
        """Where each file's chunks begin, and its number of rows; each file is opened once for it,
        several at a time."""

        def of(path: str) -> npt.NDArray[np.int64]:
            with TraceFile(path) as trace:
                return trace.starts

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            starts = tuple(pool.map(of, self.paths))
        longest = max((int(np.diff(s).max(initial=0)) for s in starts), default=0)
        check_longest(longest, self.length, self.paths[0] if len(self.paths) == 1 else None)
        return starts

    def _places(self, epoch: int, number: int, shards: int) -> list[tuple[int, int, int]]:
        """File, chunk and windows of each chunk that a worker gets, in the epoch's order."""
        if not 0 <= number < shards:
            raise UsageError(f"worker {number} of {shards}")
        places = [(k, c) for k, s in enumerate(self.starts) for c in range(len(s) - 1)]
        mine = [places[i] for i in self._order(len(places), epoch)][number::shards]
        out = []
        for k, c in mine:
            rows = int(self.starts[k][c + 1] - self.starts[k][c])
            out.append((k, c, max(0, (rows - self.length) // self._step + 1)))
        return out

    def counts(self, epoch: int, shards: int) -> list[int]:
        """How many windows each of ``shards`` workers gets in an epoch."""
        return [sum(n for *_, n in self._places(epoch, w, shards)) for w in range(shards)]

    def shard(
        self, epoch: int = 0, number: int = 0, shards: int = 1, skip: int = 0
    ) -> Iterator[tuple[F32, Targets]]:
        """The windows that worker ``number`` of ``shards`` gets in an epoch: float32 [length,
        columns] and [length] targets, arrays that may be written to.  ``skip``: without the first
        ones, to go on in the middle of an epoch; chunks before that are not read."""
        with contextlib.closing(_Opened(self.paths)) as opened:
            for k, c, count in self._places(epoch, number, shards):
                if skip >= count:
                    skip -= count
                    continue
                trace = opened[k]
                begin = int(self.starts[k][c])
                rows = begin, int(self.starts[k][c + 1])
                if not np.array_equal(trace.starts, self.starts[k]):
                    raise TracekitError("changed since it was first read", path=trace.path)
                x = trace.features(self.features, rows)
                y = trace.targets(self.target, rows)
                for i in self._order(count, epoch, k, c)[skip:]:
                    window = slice(i * self._step, i * self._step + self.length)
                    yield x[window].copy(), y[window].copy()
                skip = 0

    def _order(self, n: int, *of: int) -> list[int]:
        if self.shuffle is None:
            return list(range(n))
        order: list[int] = np.random.default_rng([self.shuffle, *of]).permutation(n).tolist()
        return order


def taken(counts: Sequence[int], batches: int, size: int) -> list[int]:
    """How many windows each worker has given when a loader has had ``batches`` of them: workers
    take turns, each with ``size`` windows of its ``counts`` or what is left of those."""
    out = [0] * len(counts)
    while batches and (turn := [w for w in range(len(counts)) if out[w] < counts[w]]):
        for w in turn[:batches]:
            out[w] = min(out[w] + size, counts[w])
        batches -= min(batches, len(turn))
    return out
