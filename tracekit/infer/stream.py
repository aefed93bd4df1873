"""Blocks of a trace one after another, with the result of the trace in one piece."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import UsageError
from tracekit.infer.engine import ROWS, Engine, add_pieces, check_breaks

__all__ = ["Stream"]

Array = NDArray[Any]


class Stream:
    """Takes blocks of rows of any size and gives results as whole batches of chunks fill up.

    ``outputs`` are given row by row; ``sums`` are added up over the ranges of ``breaks`` and are
    in ``totals`` after ``finish``.  ``rows``, the length of the trace where it is known, makes the
    grid the one that ``Engine.run`` would use; without it the grid is the engine's own chunk.
    Another number of rows is a UsageError.
    Memory: a batch, which is threads x 48 chunks and the warm-up.  A model that looks ahead gives a
    batch's results when the engine's ``lookahead`` further rows have come, or the trace has ended.
    """

    def __init__(
        self,
        engine: Engine,
        outputs: Sequence[str] = (),
        *,
        sums: Sequence[str] = (),
        breaks: Sequence[int] | Array | None = None,
        rows: int | None = None,
    ) -> None:
        for names in (outputs, sums):
            engine.card.check_outputs(names)
        if sums and breaks is None:
            raise UsageError("sums need breaks")
        self.engine, self.outputs, self.sums = engine, list(outputs), list(sums)
        if rows is not None and rows < 0:
            raise UsageError(f"rows is {rows}; at least 0")
        self._length = rows
        self.chunk = engine.grid(rows)
        self.batch = self.chunk * ROWS * engine.threads
        self.edges = check_breaks([0] if breaks is None else breaks, 1 << 62)
        self.totals: dict[str, Array] = {
            name: np.zeros((len(self.edges) - 1, engine.width(name))) for name in self.sums
        }
        for name in self.outputs:
            engine.width(name)
        self._blocks: list[Array] = []
        self._base = 0  # row of the trace where the kept rows start
        self._done = 0  # rows whose results are out, a multiple of the chunk
        self._rows = 0  # rows that came
        self._finished = False

    def push(self, features: Array) -> dict[str, Array]:
        """Take a block; the results of the rows that are complete now, possibly none."""
        self.engine.check(features, self._rows)
        if self._finished:
            raise UsageError("the stream is finished")
        if self._length is not None and self._rows + len(features) > self._length:
            raise UsageError(
                f"{self._rows + len(features):,} rows came; the stream is of {self._length:,}"
            )
        self._blocks.append(features.copy())  # the caller may reuse its buffer
        self._rows += len(features)
        ready = max(0, self._rows - self.engine.lookahead - self._done) // self.batch * self.batch
        return self._advance(self._done + ready)

    def finish(self) -> dict[str, Array]:
        """The results of the rows that are left; ``totals`` are complete then."""
        if self._finished:
            raise UsageError("the stream is finished")
        if self._length is not None and self._rows < self._length:
            raise UsageError(f"{self._rows:,} rows came; the stream is of {self._length:,}")
        self._finished = True
        if self.sums and self.edges[-1] > self._rows:
            raise UsageError(f"breaks leave the trace of {self._rows} rows")
        return self._advance(self._rows)

    def feed(self, blocks: Iterable[Array]) -> Iterator[dict[str, Array]]:
        """Push all blocks and finish, giving each result that is not empty."""
        for block in blocks:
            done, out = self._done, self.push(block)
            if self._done > done:
                yield out
        done, out = self._done, self.finish()
        if self._done > done:
            yield out

    def _advance(self, high: int) -> dict[str, Array]:
        low, engine = self._done, self.engine
        count = high - low
        out = {name: np.empty((count, engine.width(name)), np.float32) for name in self.outputs}
        if not count:
            return out
        features = self._blocks[0] if len(self._blocks) == 1 else np.concatenate(self._blocks)
        sums = None
        if self.sums and low < self.edges[-1] and high > self.edges[0]:
            sums = engine.pieces(self.edges, low, high, self.chunk, self.sums)
        engine.run_range(features, self._base, low, high, self.chunk, out, sums)
        if sums is not None:
            add_pieces(sums, self.edges, self.totals)
        self._done = high
        keep = max(self._base, high - engine.warmup)
        self._blocks = [features[keep - self._base :].copy()]
        self._base = keep
        return out
