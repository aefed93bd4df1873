"""Batches of windows with the targets of all machines, over the programs of a dataset."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.dataset.file import Dataset
from tracekit.errors import UsageError

__all__ = ["batches"]

F32 = npt.NDArray[np.float32]


def batches(
    programs: Sequence[Dataset],
    features: str = "perfvec",
    length: int = 256,
    size: int = 64,
    *,
    shuffle: int | None = None,
) -> Iterator[tuple[F32, npt.NDArray[Any]]]:
    """(features float32 [windows, length, columns], cycles [windows, length, machines]) of windows
    that do not overlap.

    Every batch has ``size`` windows, but for the last one of a block of a file (a window does not
    cross blocks).  With ``shuffle`` as a seed the blocks of all programs come in random order, and
    the windows of a block too.  The next block is read and decoded in threads meanwhile; the
    programs must not be used otherwise until the iterator ends.
    """
    if length < 1 or size < 1:
        raise UsageError("batches: length and size are at least 1")
    if not programs:
        return
    machines = programs[0].machines
    if other := [d.path for d in programs if d.machines != machines]:
        raise UsageError("has other machines, or in another order", path=other[0])
    random = np.random.default_rng(shuffle) if shuffle is not None else None
    places = [(d, k) for d in programs for k in range(d.blocks)]
    if random is not None:
        places = [places[i] for i in random.permutation(len(places)).tolist()]

    def rows_of(place: tuple[Dataset, int]) -> tuple[int, int]:
        begin, end = place[0].block_range(place[1])
        return begin, begin + (end - begin) // length * length

    # Two of each in turn: new memory for every block would cost as much as decoding it.
    largest = max(d.block_range(k)[1] - d.block_range(k)[0] for d, k in places)
    width = programs[0].features(features, (0, 0)).shape[1]
    dtype = np.result_type(*(d.dtype for d in programs))
    xs = [np.empty((largest, width), np.float32) for _ in range(2)]
    ys = [np.empty((largest, len(machines)), dtype) for _ in range(2)]

    def inputs(turn: int, place: tuple[Dataset, int]) -> F32:
        begin, end = rows_of(place)
        x = place[0].features(features, (begin, end), out=xs[turn % 2][: end - begin])
        return x.reshape(-1, length, width)

    def targets(turn: int, place: tuple[Dataset, int]) -> npt.NDArray[Any]:
        begin, end = rows_of(place)
        y = place[0].read_block(place[1], ys[turn % 2])
        return y[: end - begin].reshape(-1, length, len(machines))

    # Features and targets have a thread each: what they use of a file is not the same.
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as two:
        ready = (one.submit(inputs, 0, places[0]), two.submit(targets, 0, places[0]))
        for turn, following in enumerate([*places[1:], None], 1):
            x, y = ready[0].result(), ready[1].result()
            if following is not None:
                ready = (one.submit(inputs, turn, following), two.submit(targets, turn, following))
            order = np.arange(len(x)) if random is None else random.permutation(len(x))
            for a in range(0, len(x), size):
                at = order[a : a + size]
                yield np.take(x, at, axis=0), np.take(y, at, axis=0)
