"""Batches of windows with the targets of all machines, over the programs of a dataset."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.dataset.file import Dataset
from tracekit.errors import UsageError
from tracekit.features import Assembly, get
from tracekit.store._windows import BytePlane, FloatPlane
from tracekit.store.row_windows import check_longest

__all__ = ["batches"]

F32 = npt.NDArray[np.float32]
Plane = BytePlane | FloatPlane


class _Arrays:
    """Arrays of up to ``most`` numbers, whose memory is used again when nobody holds them or a view
    of them any more: new memory costs more than what is written there."""

    def __init__(self, most: int, dtype: np.dtype[Any]) -> None:
        self._bytes, self._dtype = most * dtype.itemsize, dtype
        self._free: list[bytearray] = []

    def __call__(self, shape: tuple[int, ...]) -> npt.NDArray[Any]:
        memory = self._free.pop() if self._free else bytearray(self._bytes)
        # A view's base is this array, since the array's own base is none.
        out: npt.NDArray[Any] = np.ndarray(shape, self._dtype, memory)
        weakref.finalize(out, self._free.append, memory).atexit = False
        return out


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
    programs must not be used otherwise until the iterator ends.  The arrays are the caller's.
    Raises UsageError where no block has the rows of a window.
    """
    if length < 1 or size < 1:
        raise UsageError("batches: length and size are at least 1")
    if not programs:
        return
    machines = programs[0].machines
    if other := [d.path for d in programs if d.machines != machines]:
        raise UsageError("has other machines, or in another order", path=other[0])
    if shuffle is not None and shuffle < 0:
        raise UsageError("batches: shuffle is a seed, 0 or more")
    longest = max(
        end - begin for d in programs for begin, end in map(d.block_range, range(d.blocks))
    )
    check_longest(longest, length, programs[0].path if len(programs) == 1 else None)
    random = np.random.default_rng(shuffle) if shuffle is not None else None
    places = [(d, k) for d in programs for k in range(d.blocks)]
    if random is not None:
        places = [places[i] for i in random.permutation(len(places)).tolist()]

    width = len(get(features).columns)
    dtypes = {d.dtype for d in programs}
    dtype = np.dtype(np.float32) if np.dtype("f4") in dtypes else max(dtypes, key=lambda t: t.num)

    xs = _Arrays(size * length * width, np.dtype(np.float32))
    ys = _Arrays(size * length * len(machines), dtype)

    # Decoding of features and of targets has a thread each: what they use of a file is not the
    # same.  A batch is put together from what was decoded at once, in its order.
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as two:

        def decoded(place: tuple[Dataset, int]) -> tuple[Future[Assembly], Future[Plane]]:
            d, k = place
            return one.submit(d.assembly, features, k), two.submit(d.plane, k)

        ready = decoded(places[0])
        for (d, k), following in itertools.zip_longest(places, places[1:]):
            x, y = ready[0].result(), ready[1].result()
            if following is not None:
                ready = decoded(following)
            begin, end = d.block_range(k)
            count = (end - begin) // length
            order = np.arange(count) if random is None else random.permutation(count)
            for a in range(0, count, size):
                starts = order[a : a + size].astype(np.int64) * length
                rows = xs((len(starts), length, width))
                cycles = ys((len(starts), length, len(machines)))
                x.take(starts, rows)
                y.take(starts, cycles)
                yield rows, cycles
