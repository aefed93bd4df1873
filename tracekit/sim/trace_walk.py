"""A trace through the simulated cores, block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tracekit import _core
from tracekit.cpus import thread_count
from tracekit.errors import UsageError
from tracekit.pipeline import overlap
from tracekit.sim import plugins
from tracekit.sim.core_instructions import core_instructions
from tracekit.sim.machine import PARAMETERS, core_row
from tracekit.sim.microcode_loops import executed_parts
from tracekit.store.program_image import program_image
from tracekit.store.reader import TraceFile

__all__ = [
    "TIMING",
    "Block",
    "ClassedRows",
    "KeptRows",
    "RowSource",
    "Walk",
    "source_of",
    "totals",
    "walk",
]

BLOCK = 1 << 17
ROWS_AHEAD: int = _core.ROWS_AHEAD
#: What a timed walk gives for each row and core (core_timing, csrc/sim/core.hpp).
TIMING: tuple[str, ...] = _core.CORE_TIMING


@dataclass(frozen=True)
class Walk:
    """The rows [begin, begin + len(cycles)): ``cycles`` float32 rows x cores.  Of a timed walk
    ``cycles`` has a third axis: TIMING.  ``wrong``, where difficulty was asked for: the branches
    that predictor k of csrc/sim/core_parameters.hpp would get wrong if it learnt at once, as
    bit k."""

    begin: int
    cycles: npt.NDArray[np.float32]
    wrong: npt.NDArray[np.uint8]


class RowsBehind(NamedTuple):
    """Those behind a block, at most `ROWS_AHEAD`: what a core knows of registers on a wrong path
    (csrc/sim/rows_around.hpp)."""

    ids: npt.NDArray[np.uint32]
    addr: npt.NDArray[np.uint64]
    bits: npt.NDArray[np.uint8]

    def behind(self, *columns: npt.NDArray[Any]) -> RowsBehind:
        """Those behind a part of the block; ``columns``: of the rest of it."""
        pairs = zip(columns, self, strict=True)
        return RowsBehind(*(np.concatenate([a[:ROWS_AHEAD], b])[:ROWS_AHEAD] for a, b in pairs))


@dataclass(frozen=True)
class Block:
    """Rows from ``begin`` on, as _core.SimulatedCores takes them."""

    begin: int
    ids: npt.NDArray[np.uint32]
    addr: npt.NDArray[np.uint64]
    bits: npt.NDArray[np.uint8]
    following: RowsBehind

    def part(self, i: int, j: int) -> Block:
        """Its rows [i, j)."""
        rest = self.ids[j:], self.addr[j:], self.bits[j:]
        own = self.ids[i:j], self.addr[i:j], self.bits[i:j]
        return Block(self.begin + i, *own, self.following.behind(*rest))


class RowSource:
    """A trace as cores see it: its static instructions and its blocks."""

    def __init__(self, trace: TraceFile) -> None:
        self._trace = trace
        self._arch = trace.arch
        self._instructions = core_instructions(trace)
        self._uops = *self._instructions.arguments(), trace.level == "macro", program_image(trace)
        self.path = trace.path

    def __len__(self) -> int:
        return len(self._trace)

    @property
    def arch(self) -> str:
        """arm, x86, riscv or unknown."""
        return self._arch

    @property
    def statics(self) -> int:
        """Static instructions of the whole trace."""
        return len(self._trace.statics)

    @property
    def pcs(self) -> npt.NDArray[np.uint64]:
        """Of each static instruction."""
        return np.ascontiguousarray(self._trace.statics.pc, np.uint64)

    def executed_parts(self, classes: Sequence[int]) -> npt.NDArray[np.float64]:
        """Of `microcode_loops.executed_parts`: float64 [statics]."""
        own = self._instructions
        return executed_parts(own.op, own.begin, own.loops, classes)

    def cores(
        self, machines: Sequence[Mapping[str, Any]], *, causes: bool = False
    ) -> _core.SimulatedCores:
        """Cold cores with the parameters of ``machines``; ``causes``: that know why."""
        plugins.forget()
        rows = np.empty((len(machines), len(PARAMETERS)))
        for k, m in enumerate(machines):
            rows[k] = core_row(m, self._arch)
        return _core.SimulatedCores(*self._uops, cores=rows, causes=causes)

    def column(self, name: str, rows: tuple[int, int]) -> npt.NDArray[Any]:
        """A column of a range of rows."""
        return self._trace.column(name, rows)

    def ids(self) -> Iterator[npt.NDArray[np.uint32]]:
        """The static instruction of each row, in blocks."""
        for begin in range(0, len(self), BLOCK):
            yield self._trace.column("static_id", (begin, min(begin + BLOCK, len(self))))

    def blocks(self, first: int, last: int) -> Iterator[Block]:
        """The rows [first, last)."""
        trace = self._trace
        for begin in range(first, last, BLOCK):
            end = min(begin + BLOCK, last)
            places = (begin, min(end + ROWS_AHEAD, len(trace)))
            ids: npt.NDArray[np.uint32] = trace.column("static_id", places)
            addr: npt.NDArray[np.uint64] = trace.column("addr", places)
            bits: npt.NDArray[np.uint8] = trace.column("bits", places)
            n = end - begin
            yield Block(begin, ids[:n], addr[:n], bits[:n], RowsBehind(ids[n:], addr[n:], bits[n:]))

    @contextmanager
    def ahead(self, first: int, last: int, threads: int) -> Iterator[Iterator[Block]]:
        """`blocks`; where there are several ``threads``, and more than one block, another one
        decodes them while the caller works.  It has ended when the context has."""
        if threads < 2 or last - first <= BLOCK:
            yield self.blocks(first, last)
            return
        with closing(overlap(lambda: self.blocks(first, last))) as found:
            yield found

    def block(self, first: int, last: int) -> Block:
        """The rows [first, last) as one block."""
        parts = list(self.blocks(first, last))
        if not parts:
            none = np.zeros(0, np.uint32), np.zeros(0, np.uint64), np.zeros(0, np.uint8)
            return Block(first, *none, RowsBehind(*none))
        ids, addr, bits = (
            np.concatenate([getattr(b, name) for b in parts]) for name in ("ids", "addr", "bits")
        )
        return Block(first, ids, addr, bits, parts[-1].following)


class KeptRows(RowSource):
    """The first ``rows`` of a trace (all of them unless given), decoded once for many walks: 13
    bytes a row."""

    def __init__(self, trace: TraceFile, rows: int | None = None) -> None:
        super().__init__(trace)
        self._rows = len(trace) if rows is None else min(rows, len(trace))
        self._kept = list(super().blocks(0, self._rows))

    def __len__(self) -> int:
        return self._rows

    def blocks(self, first: int, last: int) -> Iterator[Block]:
        """The kept rows [first, last)."""
        for b in self._kept:
            i, j = max(first - b.begin, 0), min(last - b.begin, len(b.ids))
            if (i, j) == (0, len(b.ids)):
                yield b
            elif i < j:
                yield b.part(i, j)

    @contextmanager
    def ahead(self, first: int, last: int, threads: int) -> Iterator[Iterator[Block]]:
        """`blocks`, which are decoded."""
        yield self.blocks(first, last)


class ClassedRows(KeptRows):
    """The first rows of a trace, each in a class of every division of them; ``labels``: uint16
    [divisions, rows], all below ``classes``.  Windows of ``window`` rows are one more division; a
    block's last one may be shorter."""

    def __init__(
        self, trace: TraceFile, labels: npt.NDArray[np.uint16], classes: int, window: int
    ) -> None:
        super().__init__(trace, labels.shape[1])
        self._classes = classes
        self._labels = []
        for b in self._kept:
            n = len(b.ids)
            windows = -(-n // window)
            own = labels[:, b.begin : b.begin + n] + np.uint16(windows)
            numbers = (np.arange(n) // window).astype(np.uint16)
            self._labels.append((windows, np.vstack([numbers, own])))

    def totals(
        self, machines: Sequence[Mapping[str, Any]], threads: int | None = None
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Sums of the cycles of cores with the parameters of ``machines``: windows x cores, and
        classes x cores."""
        cores = self.cores(machines)
        threads = thread_count(threads)
        windows, classes = [], np.zeros((self._classes, len(machines)))
        for b, (count, labels) in zip(self._kept, self._labels, strict=True):
            block = (b.ids, b.addr, b.bits, b.following)
            sums = cores.class_sums(*block, labels, count + self._classes, threads)
            plugins.check()
            windows.append(sums[:count])
            classes += sums[count:]
        return np.concatenate(windows), classes

    def sums(
        self, cycles: npt.NDArray[np.floating[Any]]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """The same sums of ``cycles``, those of the trace's rows."""
        windows, classes = [], np.zeros(self._classes)
        for b, (count, labels) in zip(self._kept, self._labels, strict=True):
            own = np.tile(cycles[b.begin : b.begin + len(b.ids)], len(labels))
            sums = np.bincount(labels.ravel(), own, count + self._classes)
            windows.append(sums[:count])
            classes += sums[count:]
        return np.concatenate(windows), classes


def source_of(trace: TraceFile | RowSource) -> RowSource:
    """A trace as cores see it; what is one already, as it is."""
    return trace if isinstance(trace, RowSource) else RowSource(trace)


def walk(
    trace: TraceFile,
    machines: Sequence[Mapping[str, Any]],
    threads: int | None = None,
    *,
    timed: bool = False,
    difficulty: bool = False,
    rows: int | None = None,
    ranges: Sequence[tuple[int, int]] | None = None,
) -> Iterator[Walk]:
    """Each block of the trace (of its first ``rows``) through cores with the parameters of
    ``machines`` (none, if only ``difficulty`` is asked for), from cold.  ``ranges``: of rows that
    are walked one after another instead, each in blocks of its own; the cores keep what they know
    from one to the next.

    X86 instructions (the macro level) go through the cores in parts, which follow from their names
    and operands alone.
    """
    source = RowSource(trace)
    cores = source.cores(machines)
    threads = thread_count(threads)
    n = len(trace)
    for first, last in ranges or [(0, n if rows is None else min(rows, n))]:
        with source.ahead(first, last, threads) as blocks:
            for b in blocks:
                cycles, wrong = cores.run(
                    b.ids, b.addr, b.bits, b.following, threads, timed, difficulty
                )
                plugins.check()
                yield Walk(b.begin, cycles, wrong)


def totals(
    trace: TraceFile | RowSource,
    machines: Sequence[Mapping[str, Any]],
    breaks: Sequence[int] | npt.NDArray[np.int64] | None = None,
    threads: int | None = None,
    report: Callable[[int], None] = lambda _: None,
) -> npt.NDArray[np.float64]:
    """Sums of the cores' cycles over the ranges between ``breaks``: float64, ranges x cores.

    ``breaks``: row numbers, increasing, from 0; the whole trace unless given.  Rows after the last
    one are not counted.  ``report`` is told how many rows are done.
    """
    if not machines:
        raise UsageError("no simulated cores")
    source = source_of(trace)
    n = len(source)
    edges = np.array([0, n] if breaks is None else breaks, np.int64)
    if len(edges) < 2 or edges[0] != 0 or edges[-1] > n or np.any(np.diff(edges) < 0):
        raise UsageError(f"breaks: increasing row numbers from 0 to at most {n}")
    cores = source.cores(machines)
    threads = thread_count(threads)
    out = np.zeros((len(edges) - 1, len(machines)))
    with source.ahead(0, int(edges[-1]), threads) as blocks:
        for b in blocks:
            end = b.begin + len(b.ids)
            first = int(np.searchsorted(edges, b.begin, "right")) - 1
            last = min(int(np.searchsorted(edges, end, "left")), len(edges) - 1)
            inside = (np.clip(edges[first : last + 1], b.begin, end) - b.begin).astype(np.uint32)
            out[first:last] += cores.sums(b.ids, b.addr, b.bits, b.following, inside, threads)
            plugins.check()
            report(end)
    return out
