"""`simulate`: a trace on machines that are described by their parameters."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tracekit import _core
from tracekit.errors import UsageError
from tracekit.io.arrays import array_file
from tracekit.progress import Progress
from tracekit.sim.cause_walk import cause_walk
from tracekit.sim.description import Machine, MachineLike, machine_list, one_machine
from tracekit.sim.sample_plan import SampledCycles, SamplePlan, sampled_totals
from tracekit.sim.segments import segment_sums
from tracekit.sim.trace_walk import walk
from tracekit.store.instruction_bounds import instruction_count
from tracekit.store.reader import TraceFile
from tracekit.store.result_frames import ResultFrames
from tracekit.text import counted, html_table

__all__ = [
    "SimulatedMachine",
    "SimulationResult",
    "result_of",
    "simulate",
    "simulate_samples",
    "simulate_segments",
]

F64 = npt.NDArray[np.float64]
CAUSES = tuple(name for name, _ in _core.CAUSES)


class SimulatedMachine(Protocol):
    """What a result tells of a machine: a `Machine`, or a real processor (tracekit.hardware)."""

    @property
    def name(self) -> str:
        """What results call it."""

    @property
    def summary(self) -> str:
        """What a core is known by."""

    @property
    def period_ps(self) -> float:
        """The clock's period in picoseconds."""

    def to_dict(self) -> Mapping[str, Any]:
        """Every parameter by its name."""


@dataclass(frozen=True, repr=False, eq=False)
class SimulationResult(ResultFrames):
    """What `simulate` found.

    ``path``: the trace's; ``rows`` and ``instructions``: how many it has; ``machines``: in the
    order they were given.
    ``cycles``: float64 [machines], of the whole trace.
    ``breaks``: int64 [ranges + 1], the first row of each range and the end of the last;
    ``cycles_by_range``: float64 [ranges, machines], which sum to ``cycles``.
    ``cycles_by_row``: float32 [rows, machines], between the retirement of the row before and the
    row's own; None unless asked for.
    ``causes``: float64 [machines, causes], the cycles of the whole trace by what they were spent
    on, which sum to ``cycles``; None unless asked for.
    ``sampled``: the samples that ``cycles`` was estimated from; None where all rows were walked.
    ``segment_rows``: of each segment, where segments were walked apart, each begun warm; None where
    one walk went from the first row to the last.
    """

    path: str
    rows: int
    instructions: int
    machines: tuple[SimulatedMachine, ...]
    cycles: F64
    breaks: npt.NDArray[np.int64]
    cycles_by_range: F64
    cycles_by_row: npt.NDArray[np.float32] | None = None
    causes: F64 | None = None
    sampled: SampledCycles | None = None
    segment_rows: int | None = None

    @property
    def cause_names(self) -> tuple[str, ...]:
        """What the columns of ``causes`` are; docs/causes.md has what each means."""
        return CAUSES

    @property
    def seconds(self) -> F64:
        """Simulated seconds on each machine: float64 [machines].  As in gem5, a clock's period is
        a whole number of picoseconds."""
        seconds: F64 = self.cycles * np.array([m.period_ps * 1e-12 for m in self.machines])
        return seconds

    @property
    def cpi(self) -> F64:
        """Cycles an instruction on each machine: float64 [machines]."""
        cpi: F64 = self.cycles / max(self.instructions, 1)
        return cpi

    def to_dict(self) -> dict[str, object]:
        """Everything but ``cycles_by_row``, for JSON (docs/json.md, "tracekit simulate")."""
        found = zip(self.machines, self.cycles, self.seconds, self.cpi, strict=True)
        entries: list[dict[str, object]] = [
            {
                "name": m.name,
                "summary": m.summary,
                "cycles": float(cycles),
                "seconds": float(seconds),
                "cpi": float(cpi),
            }
            for m, cycles, seconds, cpi in found
        ]
        out: dict[str, object] = {
            "path": self.path,
            "rows": self.rows,
            "instructions": self.instructions,
            "machines": entries,
        }
        if len(self.cycles_by_range) > 1:
            out["ranges"] = [
                {"first": int(a), "end": int(b), "cycles": row.tolist()}
                for a, b, row in zip(
                    self.breaks, self.breaks[1:], self.cycles_by_range, strict=False
                )
            ]
        if (s := self.sampled) is not None:
            for entry, half in zip(entries, s.half.tolist(), strict=True):
                entry["sampling_half_interval"] = half if np.isfinite(half) else None
            warning = s.warning()
            out["samples"] = len(s.samples)
            out["warnings"] = [] if warning is None else [warning]
        if self.segment_rows is not None:
            out["segment_rows"] = self.segment_rows
        if self.causes is not None:
            for entry, stack in zip(entries, self.causes.tolist(), strict=True):
                entry["causes"] = dict(zip(CAUSES, stack, strict=True))
        return out

    def __repr__(self) -> str:
        name = ascii(self.path)[1:-1]
        fast = int(np.argmin(self.seconds))
        return (
            f"{name}: {counted(self.rows, 'row')} on {counted(len(self.machines), 'machine')}; "
            "the fastest is "
            f"{self.machines[fast].name}, {1e6 * self.seconds[fast]:,.1f} us"
        )

    def _repr_html_(self) -> str:
        """For notebooks: the table of `str`."""
        m, cycles, seconds, cpi = self.machines, self.cycles, self.seconds, self.cpi
        rows = [
            (
                m[k].name,
                f"{1e6 * seconds[k]:,.1f} us",
                f"{cycles[k]:,.0f}",
                f"{cpi[k]:.3f}",
                m[k].summary,
            )
            for k in np.argsort(seconds, kind="stable").tolist()
        ]
        caption = (
            f"{self.path}: {counted(self.rows, 'row')}, {counted(self.instructions, 'instruction')}"
        )
        return html_table(caption, rows, ("machine", "time", "cycles", "CPI", ""))

    def __str__(self) -> str:
        """A table, the fastest machine first."""
        width = max(7, *(len(m.name) for m in self.machines))
        s = self.sampled
        lines = [
            f"{self.path}: {counted(self.rows, 'row')}, {counted(self.instructions, 'instruction')}"
        ]
        if s is not None and (warning := s.warning()) is not None:
            lines.append(f"warning: {warning}")
        wide = f"{'± 95 %':>9}" if s is not None else ""
        lines.append(f"{'machine':<{width}}{'time':>14}{'cycles':>16}{'CPI':>9}{wide}")
        for k in np.argsort(self.seconds, kind="stable").tolist():
            m = self.machines[k]
            if s is not None:
                known = np.isfinite(s.half[k]) and self.cycles[k] > 0
                wide = f"{s.half[k] / self.cycles[k]:>9.1%}" if known else f"{'?':>9}"
            lines.append(
                f"{m.name:<{width}}{1e6 * self.seconds[k]:>11,.1f} us{self.cycles[k]:>16,.0f}"
                f"{self.cpi[k]:>9.3f}{wide}  {m.summary}"
            )
        if s is not None:
            lines.append(f"±: of {len(s.samples):,} samples, against walking all rows")
        if self.segment_rows is not None:
            count = -(-self.rows // self.segment_rows)
            lines.append(
                f"{count:,} segments of {self.segment_rows:,} rows, each begun warm: cycles differ "
                "a little from those of one walk"
            )
        return "\n".join(lines)


def simulate(
    trace: TraceFile | str | os.PathLike[str],
    machines: MachineLike | Sequence[MachineLike] | None = None,
    *,
    ranges: int | Sequence[int] | None = None,
    rows: bool = False,
    causes: bool = False,
    output: str | os.PathLike[str] | None = None,
    force: bool = False,
    threads: int | None = None,
    quiet: bool = True,
) -> SimulationResult:
    """Simulate a trace on machines, from cold caches and predictors.

    The simulator follows the trace's committed instructions through a model of gem5's O3 or Minor
    CPU with its caches and memory; nothing in it is fitted to gem5's times.  Of wrong paths
    it knows fetched lines and some loads; the operating system's own work and other cores are not
    modelled.

    trace: a feats.zst, open or by its path.
    machines: one or several, each a `Machine`, a name that `tracekit.machines` has, or a JSON file;
        unless given the one that the trace was made on, which traces of the gem5 plug-in tell.
    ranges: times of parts of the trace, too: a number of equal ranges, or the increasing rows at
        which ranges begin, the first of which is 0.
    rows: keep the cycles of every row, 4 bytes x rows x machines of memory.
    causes: say what the cycles were spent on (docs/causes.md), in a second walk of the trace.
    output: write them to this .npy file instead, float32 [rows, machines]; ``force`` replaces one
        that exists.
    threads: of the processor; all that may be used unless given.
    quiet: show no progress on standard error.

    Raises `UsageError` for machines or ranges that are none, and for a file that exists;
    `FormatError` for a damaged trace.

    >>> import tracekit
    >>> result = tracekit.simulate("feats.zst", ["u007", "o3_small"])
    >>> result
    feats.zst: 6,134 rows on 2 machines; the fastest is u007, 16.7 us
    >>> result.cycles.shape
    (2,)
    """
    chosen = None
    if machines is not None:
        chosen = tuple(one_machine(m) for m in machine_list(machines))
        if not chosen:
            raise UsageError("no machine is named", hint="tracekit machines lists those there are")
    if not isinstance(trace, TraceFile):
        with TraceFile(trace) as opened:
            found = chosen or _own(opened)
            return _simulate(opened, found, ranges, rows, causes, output, force, threads, quiet)
    found = chosen or _own(trace)
    return _simulate(trace, found, ranges, rows, causes, output, force, threads, quiet)


def simulate_samples(
    trace: TraceFile,
    machines: Sequence[SimulatedMachine] | None,
    plan: SamplePlan,
    *,
    threads: int | None = None,
    quiet: bool = True,
) -> SimulationResult:
    """`simulate` of samples of a trace alone, with caches and predictors as all rows before leave
    them; of gem5's machines.

    Raises `UsageError` for real processors, and where the plan makes no samples.
    """
    chosen = _of_gem5(trace, machines, "samples")
    rows = [dict(m.to_dict()) for m in chosen]
    with Progress(Path(trace.path).name, len(trace), quiet=quiet) as progress:
        found = sampled_totals(trace, rows, plan, threads, progress.update)
    return replace(_whole(trace, chosen, found.cycles), sampled=found)


def simulate_segments(
    trace: TraceFile,
    machines: Sequence[SimulatedMachine] | None,
    length: int,
    *,
    threads: int | None = None,
    quiet: bool = True,
) -> SimulationResult:
    """`simulate` of segments of ``length`` rows, which ``threads`` of the processor walk at the
    same time, with caches and predictors about as all rows before leave them; of gem5's machines.
    Any number of threads gives the same cycles, which differ a little from those of one walk
    (docs/whole-programs.md).

    Raises `UsageError` for real processors, and for segments that are too short.
    """
    chosen = _of_gem5(trace, machines, "segments")
    rows = [dict(m.to_dict()) for m in chosen]
    with Progress(Path(trace.path).name, len(trace), quiet=quiet) as progress:
        sums = segment_sums(trace, rows, length, threads=threads, report=progress.update)
    return replace(_whole(trace, chosen, sums.sum(axis=0)), segment_rows=length)


def _of_gem5(
    trace: TraceFile, machines: Sequence[SimulatedMachine] | None, what: str
) -> tuple[SimulatedMachine, ...]:
    chosen = _own(trace) if machines is None else tuple(machines)
    for m in chosen:
        if not isinstance(m, Machine):
            raise UsageError(f"{m.name}: {what} are of gem5's machines, not of real processors")
    return chosen


def _whole(
    trace: TraceFile, machines: tuple[SimulatedMachine, ...], cycles: F64
) -> SimulationResult:
    """The trace's ``cycles`` on ``machines``, without parts."""
    n = len(trace)
    edges = np.array([0, n], np.int64)
    count = instruction_count(trace)
    return SimulationResult(trace.path, n, count, machines, cycles, edges, cycles[None])


def _own(trace: TraceFile) -> tuple[Machine]:
    """The machine that the trace was made on."""
    if (machine := Machine.of(trace)) is None:
        why = trace.index["source"].get("machine_unknown")
        raise UsageError(
            f"no machine is named, and the trace does not tell its own{f': {why}' if why else ''}",
            path=trace.path,
            hint="tracekit machines lists those there are",
        )
    return (machine,)


def _simulate(
    trace: TraceFile,
    machines: tuple[Machine, ...],
    ranges: int | Sequence[int] | None,
    rows: bool,
    causes: bool,
    output: str | os.PathLike[str] | None,
    force: bool,
    threads: int | None,
    quiet: bool,
) -> SimulationResult:
    blocks = _blocks(trace, machines, threads, quiet)
    found = result_of(trace, machines, blocks, ranges, rows, output, force)
    return replace(found, causes=_causes(trace, machines, threads, quiet)) if causes else found


def result_of(
    trace: TraceFile,
    machines: tuple[SimulatedMachine, ...],
    blocks: Iterable[tuple[int, npt.NDArray[np.float32]]],
    ranges: int | Sequence[int] | None,
    rows: bool,
    output: str | os.PathLike[str] | None,
    force: bool,
) -> SimulationResult:
    """`simulate`'s result from (first row, cycles: float32 [rows, machines]) of each block, in
    their order; ``ranges``, ``rows``, ``output`` and ``force`` as there."""
    n = len(trace)
    breaks = range_breaks(ranges, n)
    sums = np.zeros((len(breaks) - 1, len(machines)))
    kept = np.empty((n, len(machines)), np.float32) if rows else None

    def each(write: Callable[[npt.NDArray[np.float32]], None]) -> None:
        for begin, cycles in blocks:
            _add(sums, breaks, begin, cycles)
            if kept is not None:
                kept[begin : begin + len(cycles)] = cycles
            write(cycles)

    if output is None:
        each(lambda _: None)
    else:
        with array_file(Path(output), np.float32, (n, len(machines)), force=force) as file:
            each(file.append)
    count, total = instruction_count(trace), np.asarray(sums.sum(axis=0))
    return SimulationResult(trace.path, n, count, machines, total, breaks, sums, kept)


def _causes(trace: TraceFile, machines: Sequence[Machine], threads: int | None, quiet: bool) -> F64:
    """Cycles by cause: float64 [machines, causes]."""
    out = np.zeros((len(machines), len(CAUSES)))
    one = np.zeros(len(trace.statics), np.uint32)  # all instructions are one label
    with Progress("causes", len(trace), quiet=quiet) as progress:
        for piece in cause_walk(trace, [m.to_dict() for m in machines], one, threads=threads):
            out += piece.sums[0]
            progress.update(piece.end)
    return out


def _blocks(
    trace: TraceFile, machines: Sequence[Machine], threads: int | None, quiet: bool
) -> Iterator[tuple[int, npt.NDArray[np.float32]]]:
    """The first row of each block, and its cycles: float32 [rows, machines]."""
    with Progress(Path(trace.path).name, len(trace), quiet=quiet) as progress:
        for part in walk(trace, [m.to_dict() for m in machines], threads):
            yield part.begin, part.cycles
            progress.update(part.begin + len(part.cycles))


def _add(
    sums: F64, breaks: npt.NDArray[np.int64], begin: int, cycles: npt.NDArray[np.float32]
) -> None:
    """A block's cycles to the ranges that it lies in."""
    end = begin + len(cycles)
    first = int(np.searchsorted(breaks, begin, "right")) - 1
    last = int(np.searchsorted(breaks, end, "left"))
    for k in range(first, last):
        a, b = max(int(breaks[k]), begin), min(int(breaks[k + 1]), end)
        sums[k] += cycles[a - begin : b - begin].sum(axis=0, dtype=np.float64)


def range_breaks(ranges: int | Sequence[int] | None, rows: int) -> npt.NDArray[np.int64]:
    """The first row of each range, and ``rows``; `UsageError` for ranges that are none."""
    if ranges is None:
        return np.array([0, rows], np.int64)
    if isinstance(ranges, int):
        if not 1 <= ranges <= max(rows, 1):
            raise UsageError(f"ranges: from 1 to the trace's {rows} rows, not {ranges}")
        return np.array([-(-k * rows // ranges) for k in range(ranges + 1)], np.int64)
    starts = [int(r) for r in ranges]
    increasing = all(a < b for a, b in itertools.pairwise(starts))
    if not starts or starts[0] != 0 or not increasing or starts[-1] >= rows:
        raise UsageError(f"ranges: increasing rows from 0 on, below {rows}")
    return np.array([*starts, rows], np.int64)
