"""Chunks of programs' rows: random ones to train on, fixed ones to validate with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.errors import UsageError
from tracekit.neuroscalar.program_rows import (
    HELD,
    VALIDATION,
    Rows,
    part_of,
)
from tracekit.train.neuroscalar_options import Options

__all__ = ["Sampler", "chunk", "prefetched", "tenths", "watched"]

Array = npt.NDArray[Any]


def tenths(separate: bool) -> frozenset[int]:
    """Tenths of the blocks that training does not see."""
    return frozenset({HELD}) if separate else frozenset({HELD, VALIDATION})


class Sampler:
    """Chunks in random order, pass after pass; a step's chunks depend on seed and step alone."""

    def __init__(self, data: Sequence[Rows], options: Options, held: frozenset[int]) -> None:
        self.data, self.o, self._held = data, options, held
        places = []
        for k, r in enumerate(data):
            at = np.arange(0, max(len(r) - options.target + 1, 1), options.target)
            places.append(np.stack([np.full(len(at), k), at], axis=1))
        self._places = np.concatenate(places)
        self.passes = options.batch / len(self._places)
        self._order: tuple[int, Array] = (-1, np.zeros(0, np.int64))

    def batch(self, step: int) -> tuple[Array, Array, Array]:
        """Columns, cycles and where the loss is: float32 [batch, window, columns], float32 [batch,
        target, machines], bool [batch, target]."""
        n, size = len(self._places), self.o.batch
        chosen = [self._place(i) for i in range(step * size, (step + 1) * size)]
        random = np.random.default_rng([self.o.seed, step, 1])
        shift = int(random.integers(0, self.o.target))  # the grid moves from step to step
        drop = random.random(size) < self.o.drop
        parts = []
        for (k, at), without in zip(chosen, drop, strict=True):
            r = self.data[k]
            begin = min(int(at) + shift, max(len(r) - self.o.target, 0))
            parts.append(chunk(r, begin, self.o, self._held, history=not without))
        del n
        return tuple(np.stack(p) for p in zip(*parts, strict=True))  # type: ignore[return-value]

    def _place(self, i: int) -> Array:
        number, k = divmod(i, len(self._places))
        if self._order[0] != number:
            random = np.random.default_rng([self.o.seed, number, 0])
            self._order = (number, random.permutation(len(self._places)))
        place: Array = self._places[self._order[1][k]]
        return place


def chunk(
    r: Rows, begin: int, o: Options, held: frozenset[int], *, history: bool = True
) -> tuple[Array, Array, Array]:
    """The window whose loss is at rows [begin, begin + target); zeros before the program's start
    and behind its end."""
    width = r.columns.shape[1]
    past = r.past if o.preset == "default" and o.history else None
    more = past.shape[1] if past is not None else 0
    x = np.zeros((o.window, width + more), np.float32)
    y = np.zeros((o.target, r.cycles.shape[1]), np.float32)
    use = np.zeros(o.target, bool)
    low = begin - o.judged.start
    first, end = max(low, 0), min(low + o.window, len(r))
    x[first - low : end - low, :width] = r.columns[first:end]
    if past is not None and history:
        x[first - low : end - low, width:] = past[first:end]
    n = min(begin + o.target, len(r)) - begin
    y[:n] = r.cycles[begin : begin + n]
    use[:n] = True
    if held:
        use[:n] &= ~np.isin(part_of(n, begin), list(held))
    return x, y, use


def watched(
    data: Sequence[Rows], o: Options, tenth: int | None, chunks: int = 400
) -> list[tuple[Array, Array, Array]]:
    """Batches for the validation: chunks drawn from each program, about ``chunks`` in all."""
    random = np.random.default_rng([o.seed, 2])
    every: list[tuple[Array, Array, Array]] = []
    each = max(2, chunks // len(data))
    for r in data:
        tenths = part_of(len(r))
        ok = np.ones(len(r), bool) if tenth is None else tenths == tenth
        ok[max(len(r) - o.target, 0) + 1 :] = False
        at = np.flatnonzero(ok)
        if not len(at):
            continue
        for b in np.sort(random.choice(at, min(each, len(at)), replace=False)).tolist():
            x, y, use = chunk(r, b, o, frozenset())
            if tenth is not None:
                use[: len(r) - b] &= tenths[b : b + o.target] == tenth
            every.append((x, y, use))
    if not every:
        raise UsageError("no rows to validate on", hint="longer programs, or validation families")
    return [
        tuple(np.stack(p) for p in zip(*every[k : k + o.batch], strict=True))  # type: ignore[misc]
        for k in range(0, len(every), o.batch)
    ]


def prefetched(sampler: Sampler, first: int, last: int) -> Iterator[tuple[int, Any]]:
    """Each step's batch."""
    for step in range(first, last):
        yield step, sampler.batch(step)
