"""One program of a dataset: its features and its cycles on every machine, in one file
(``tracekit join``)."""

from __future__ import annotations

import itertools
import os
from collections import OrderedDict

import numpy as np
import numpy.typing as npt

from tracekit.errors import FormatError, UsageError
from tracekit.features import Assembly
from tracekit.store import targets
from tracekit.store._windows import BytePlane, FloatPlane
from tracekit.store.reader import Rows, TraceFile, row_range

__all__ = ["Dataset"]

Array = npt.NDArray[np.generic]
Range = tuple[int, int]

_KEPT = 3  # blocks


class Dataset:
    """``len(d)`` rows with features (``d.features``) and targets (``d.cycles``) on ``machines``.

    ``trace`` is the file as a trace, which may have rows after those that have targets.  As with
    TraceFile, each thread opens its own.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.trace = TraceFile(path)
        found = self.trace.index.get("targets")
        if found is None:
            self.trace.close()
            raise FormatError(
                "has no targets of several machines",
                path=self.trace.path,
                hint="tracekit join puts them beside the features",
            )
        self._index = found
        self.machines: tuple[str, ...] = tuple(found["machines"])
        self.dtype = np.dtype(found["dtype"])
        self._kept: OrderedDict[int, Array] = OrderedDict()
        starts = [c["first"] for c in self.trace.index["chunks"]]
        self._starts = np.array([*starts[: len(found["blocks"])], found["rows"]], np.int64)

    @property
    def path(self) -> str:
        """The file's."""
        return self.trace.path

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def blocks(self) -> int:
        """How many blocks there are: what is decoded at once."""
        return len(self._starts) - 1

    def block_range(self, number: int) -> Range:
        """The rows of a block."""
        return int(self._starts[number]), int(self._starts[number + 1])

    def block(self, number: int) -> Array:
        """Cycles of a block, [rows, machines]; the last few stay decoded."""
        if number in self._kept:
            self._kept.move_to_end(number)
            return self._kept[number]
        begin, end = self.block_range(number)
        values = np.empty((end - begin, len(self.machines)), self.dtype)
        self.plane(number).take(np.zeros(1, np.int64), values[None])
        values.flags.writeable = False
        self._kept[number] = values
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return values

    def plane(self, number: int) -> BytePlane | FloatPlane:
        """Cycles of a block, to ``take`` windows from into arrays of ``dtype``; not kept."""
        begin, end = self.block_range(number)
        numbers = (end - begin) * len(self.machines)
        return targets.read_plane(self.trace, self._index["blocks"][number], numbers)

    def assembly(self, name: str, number: int) -> Assembly:
        """A feature set of a block, decoded, to ``take`` windows from."""
        return self.trace.assembly(name, number)

    def cycles(self, rows: Rows = None) -> Array:
        """Cycles between retirements, [rows, machines], of type ``dtype``."""
        begin, end = self._range(rows)
        out = np.empty((end - begin, len(self.machines)), self.dtype)
        at = begin
        while at < end:
            k = int(np.searchsorted(self._starts, at, "right")) - 1
            first, last = self.block_range(k)
            upto = min(end, last)
            out[at - begin : upto - begin] = self.block(k)[at - first : upto - first]
            at = upto
        return out

    def column_of(self, machine: str) -> int:
        """Where a machine's cycles stand."""
        if machine not in self.machines:
            raise UsageError(
                f"no targets of machine {machine}",
                path=self.path,
                hint=f"it has {', '.join(self.machines)}",
            )
        return self.machines.index(machine)

    def sums(self, breaks: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Cycles of the ranges between ``breaks``: float64 [ranges, machines]."""
        out = np.zeros((len(breaks) - 1, len(self.machines)))
        for number in range(self.blocks):
            begin, end = self.block_range(number)
            values = self.block(number)
            for k, (a, b) in enumerate(itertools.pairwise(breaks.tolist())):
                a, b = max(a, begin), min(b, end)
                if a < b:
                    out[k] += values[a - begin : b - begin].sum(axis=0, dtype=np.float64)
        return out

    def block_sums(self, blocks: Range, rows: int) -> npt.NDArray[np.float64]:
        """Cycles of the first ``rows`` rows by block, of the blocks [first, end): float64 [blocks,
        machines].  Added up in their order they are what `sums` has of these rows."""
        out = np.zeros((blocks[1] - blocks[0], len(self.machines)))
        for k in range(*blocks):
            begin, end = self.block_range(k)
            if begin < rows:
                values = self.block(k)[: min(end, rows) - begin]
                out[k - blocks[0]] = values.sum(axis=0, dtype=np.float64)
        return out

    def features(
        self,
        name: str = "perfvec",
        rows: Rows = None,
        *,
        out: npt.NDArray[np.float32] | None = None,
    ) -> npt.NDArray[np.float32]:
        """A feature set of rows that have targets: float32 [rows, columns]."""
        return self.trace.features(name, self._range(rows), out=out)

    def _range(self, rows: Rows) -> Range:
        return row_range(rows, len(self), self.path)

    def close(self) -> None:
        """Close the file."""
        self.trace.close()

    def __enter__(self) -> Dataset:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[type[Dataset], tuple[str]]:
        return Dataset, (self.trace.address,)
