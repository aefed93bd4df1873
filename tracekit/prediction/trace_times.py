"""Predicted time of a trace on every machine, in total and by phase, symbol or pc."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.errors import UsageError
from tracekit.io.json_types import finite_or_null
from tracekit.mixture.model import Mixture, check_trace, load_model
from tracekit.opening import at_level, open_trace
from tracekit.prediction.intervals import (
    Intervals,
    added_intervals,
    model_intervals,
    tied_with_fastest,
)
from tracekit.prediction.trace_parts import By, Groups, groups_of
from tracekit.progress import Progress
from tracekit.sim import (
    RowSource,
    SampledCycles,
    SamplePlan,
    Samples,
    drawn,
    sample_sums,
    summary_of,
    totals,
    walk,
)
from tracekit.sim.clock import period
from tracekit.sim.description import Machine
from tracekit.store.instruction_bounds import instruction_count
from tracekit.store.reader import TraceFile
from tracekit.store.result_frames import ResultFrames
from tracekit.text import counted, html_table

__all__ = [
    "By",
    "PredictedPart",
    "PredictionResult",
    "check_parts",
    "group_totals",
    "model_for",
    "predict",
    "predict_from",
    "predict_from_samples",
    "sample_totals",
    "total",
]

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PredictedPart:
    """One phase, pc or symbol: its name, its rows, and float64 [machines] cycles."""

    name: str
    rows: int
    cycles: F64


@dataclass(frozen=True, repr=False, eq=False)
class PredictionResult(ResultFrames):
    """What `predict` found.

    ``machines``: their names; ``summaries``: "4-wide, ROB 192, 3.5 GHz, DDR4", "" where a machine's
    parameters are not known.
    ``cycles``, ``seconds``: float64 [machines]; seconds are NaN where a clock is not known.
    ``representation``: float64 [columns], the cycles of each of the model's simulated cores; those
    of two programs may be added.  ``columns``: the cores' names.
    ``parts``: by ``by``; phases in their order, else the largest first.
    ``intervals``: of ``cycles``; None where the model has no residuals and nothing was sampled.
    """

    path: str
    rows: int
    instructions: int
    machines: tuple[str, ...]
    summaries: tuple[str, ...]
    cycles: F64
    seconds: F64
    representation: F64
    columns: tuple[str, ...]
    by: By | None = None
    parts: tuple[PredictedPart, ...] = ()
    intervals: Intervals | None = None

    @property
    def cpi(self) -> F64:
        """Cycles an instruction: float64 [machines]."""
        cpi: F64 = self.cycles / max(1, self.instructions)
        return cpi

    @property
    def fastest_first(self) -> tuple[int, ...]:
        """Places of the machines, by seconds; those without a clock come last."""
        return tuple(np.argsort(self.seconds, kind="stable").tolist())

    @property
    def tied(self) -> npt.NDArray[np.bool_]:
        """Machines that the intervals do not tell from the fastest: bool [machines]."""
        if self.intervals is None:
            return np.zeros(len(self.machines), np.bool_)
        period = self.seconds / np.maximum(self.cycles, 1e-300)
        i = self.intervals
        return tied_with_fastest(self.seconds, i.model * period, i.sampling * period, i.pairs)

    def to_dict(self) -> dict[str, object]:
        """For JSON (docs/json.md, "tracekit predict")."""
        found = zip(
            self.machines,
            self.summaries,
            self.cycles.tolist(),
            self.seconds.tolist(),
            self.cpi.tolist(),
            strict=True,
        )
        out: dict[str, object] = {
            "path": self.path,
            "rows": self.rows,
            "instructions": self.instructions,
            "machines": [
                {
                    "name": name,
                    "summary": summary,
                    "cycles": cycles,
                    "seconds": seconds if np.isfinite(seconds) else None,
                    "cpi": cpi,
                }
                for name, summary, cycles, seconds, cpi in found
            ],
            "representation": self.representation.tolist(),
            "columns": list(self.columns),
        }
        if (i := self.intervals) is not None:
            entries: Any = out["machines"]
            parts = zip(entries, i.half, i.model, i.sampling, self.tied, strict=True)
            for entry, half, by_model, sampling, tied in parts:
                entry["half_interval"] = finite_or_null(half)
                entry["model_half_interval"] = finite_or_null(by_model)
                entry["sampling_half_interval"] = finite_or_null(sampling)
                entry["tied_with_fastest"] = bool(tied)
            out |= {"samples": i.samples, "strange": i.strange, "warnings": list(i.warnings)}
        if self.by:
            out["by"] = self.by
            out["parts"] = [
                {
                    "name": p.name,
                    "rows": p.rows,
                    "cycles": dict(zip(self.machines, p.cycles.tolist(), strict=True)),
                }
                for p in self.parts
            ]
        return out

    def __repr__(self) -> str:
        k = self.fastest_first[0]
        return (
            f"{ascii(self.path)[1:-1]}: {counted(self.rows, 'row')}, predicted on "
            f"{counted(len(self.machines), 'machine')}; the fastest is {self.machines[k]}, "
            f"{1e6 * self.seconds[k]:,.1f} us"
        )

    def _repr_html_(self) -> str:
        """For notebooks: the table of `str`, and one of the parts."""
        fast, seconds = self.fastest_first, self.seconds
        rows = [
            (
                self.machines[k],
                f"{1e6 * seconds[k]:,.1f} us" if np.isfinite(seconds[k]) else "?",
                f"{self.cycles[k]:,.0f}",
                f"{self.cpi[k]:.3f}",
                self.summaries[k],
            )
            for k in fast
        ]
        caption = (
            f"{self.path}: {counted(self.rows, 'row')}, {counted(self.instructions, 'instruction')}"
        )
        out = html_table(caption, rows, ("machine", "time", "cycles", "CPI", ""))
        if self.parts:
            best = fast[0]
            parts = [(p.name, f"{p.rows:,}", f"{p.cycles[best]:,.0f}") for p in self.parts]
            title = f"by {self.by}, on {self.machines[best]}"
            out += html_table(title, parts, (str(self.by), "rows", "cycles"))
        return out

    def __str__(self) -> str:
        """A table, the fastest machine first."""
        width = max(len("machine"), *(len(m) for m in self.machines))
        i, tied = self.intervals, self.tied
        lines = [
            f"{self.path}: {counted(self.rows, 'row')}, {counted(self.instructions, 'instruction')}"
        ]
        lines += [f"warning: {w}" for w in i.warnings] if i is not None else []
        wide = f"{'± 95 %':>9}" if i is not None else ""
        lines.append(f"{'machine':<{width}}{'time':>14}{'cycles':>16}{'CPI':>9}{wide}")
        for k in self.fastest_first:
            s = self.seconds[k]
            time = f"{1e6 * s:,.1f} us" if np.isfinite(s) else "?"
            if i is not None:
                share = i.half[k] / self.cycles[k] if self.cycles[k] else np.nan
                wide = f"{share:>8.1%}" if np.isfinite(share) else f"{'?':>8}"
                wide += "~" if tied[k] and k != self.fastest_first[0] else " "
            lines.append(
                f"{self.machines[k]:<{width}}{time:>14}{self.cycles[k]:>16,.0f}{self.cpi[k]:>9.3f}"
                f"{wide}  {self.summaries[k]}".rstrip()
            )
        if i is not None:
            of = f"the model, and of {i.samples} samples" if i.samples else "the model"
            lines.append(f"±: of {of}; ~: perhaps as fast as the fastest")
        return "\n".join(lines)


def predict(
    trace: TraceFile | str | os.PathLike[str],
    model: Mixture | str | os.PathLike[str] | None = None,
    *,
    machines: str | Sequence[str] | None = None,
    by: By | None = None,
    phases: int = 10,
    binary: str | os.PathLike[str] | None = None,
    own_machine: bool = True,
    samples: SamplePlan | None = None,
    threads: int | None = None,
    quiet: bool = True,
) -> PredictionResult:
    """Predict a trace's time on every machine of a model.

    A model is a mixture: each machine's cycles are a weighted sum of those of simulated cores, and
    the weights were fitted to gem5's times (docs/perfvec.md; PerfVec, Li et al., has the idea of
    representations that add up).

    trace: a feats.zst, open or by its path.  Micro-ops of X86 are joined first (`tracekit.open`)
        where ``model`` is of instructions.
    model: a model, or its folder; the one that ships for the trace's ISA unless given.
    machines: only these of the model's machines, each once; one by its name, or several.
    by: parts to tell the time of as well: "phase" (``phases`` equal ranges of rows), "pc", or
        "symbol" (functions, as a recording knows them, or of ``binary``).
    binary: the traced ELF file.
    own_machine: on the machine that the trace was made on, too, where the trace tells it (those of
        the gem5 plug-in do) and the model has none of that name.
    samples: of which rows the times are estimated, with warm caches and predictors; all rows unless
        given.
    threads: of the processor; all that may be used unless given.
    quiet: show no progress on standard error.

    Raises `UsageError` where trace and model do not fit, and `FormatError` for a damaged file.

    >>> import tracekit
    >>> found = tracekit.predict("feats.zst", machines=["u007", "o3_small"], by="phase", phases=4)
    >>> found
    feats.zst: 6,134 rows, predicted on 2 machines; the fastest is u007, 16.5 us
    >>> [part.name for part in found.parts]
    ['0:1534', '1534:3067', '3067:4601', '4601:6134']
    """
    if machines is not None:
        machines = list(dict.fromkeys([machines] if isinstance(machines, str) else machines))
    if not isinstance(samples, SamplePlan | None):
        how = f"tracekit.sim.SamplePlan(count={samples!r})"
        raise UsageError(f"samples is {samples!r}, no plan", hint=how)
    if not isinstance(trace, TraceFile):
        with open_trace(trace) as opened:
            return predict(
                opened,
                model,
                machines=machines,
                by=by,
                phases=phases,
                binary=binary,
                own_machine=own_machine,
                samples=samples,
                threads=threads,
                quiet=quiet,
            )
    if by not in (None, "phase", "pc", "symbol"):
        raise UsageError(f"by: phase, pc or symbol, not {by!r}")
    if len(trace) == 0:
        raise UsageError("the trace has no rows", path=trace.path)
    if not isinstance(model, Mixture):
        model = load_model(model, trace.arch, trace.level)
    model = model_for(trace, model, machines, own_machine)
    if model.arch == trace.arch == "x86" and (model.level, trace.level) == ("macro", "micro"):
        with at_level(trace, "macro") as joined:
            return _predicted(joined, model, by, phases, binary, samples, threads, quiet)
    return _predicted(trace, model, by, phases, binary, samples, threads, quiet)


def model_for(
    trace: TraceFile, model: Mixture, machines: Sequence[str] | None, own_machine: bool
) -> Mixture:
    """The part of a model that `predict` predicts a trace with: ``machines``, and the trace's
    own."""
    own = Machine.of(trace) if own_machine else None
    if own is not None and own.name not in model.names:
        model = model.with_machine(own.to_dict())
    return model if machines is None else model.only(machines)


def check_parts(by: By | None, samples: SamplePlan | None) -> None:
    """Raises `UsageError` where parts of a trace are asked for that is not walked whole."""
    if samples is not None and by is not None:
        raise UsageError("parts are of all rows, not of samples")


def _predicted(
    trace: TraceFile,
    model: Mixture,
    by: By | None,
    phases: int,
    binary: str | os.PathLike[str] | None,
    samples: SamplePlan | None,
    threads: int | None,
    quiet: bool,
) -> PredictionResult:
    check_parts(by, samples)
    if samples is not None:
        return _sampled(trace, model, samples, threads, quiet)
    groups = groups_of(trace, by, phases, None if binary is None else os.fspath(binary))
    check_trace(model, trace)
    sums, counts = _sums(model.cores, trace, groups, threads, quiet)
    return _result(model, trace, by, groups, sums, counts)


def _sampled(
    trace: TraceFile, model: Mixture, plan: SamplePlan, threads: int | None, quiet: bool
) -> PredictionResult:
    check_trace(model, trace)
    return predict_from_samples(
        trace, model, *sample_totals(trace, model.cores, plan, threads, quiet)
    )


def sample_totals(
    trace: TraceFile,
    cores: Sequence[Mapping[str, Any]],
    plan: SamplePlan,
    threads: int | None = None,
    quiet: bool = True,
) -> tuple[F64, Samples]:
    """What `predict` of samples sums of some of a model's cores, for `predict_from_samples`: their
    cycles by sample, float64 [samples, cores], and the samples."""
    source = RowSource(trace)
    samples = drawn(source, plan, threads)
    with Progress(Path(trace.path).name, len(trace), quiet=quiet) as progress:
        sums = sample_sums(source, cores, samples.ranges, threads=threads, report=progress.update)
    return sums, samples


def predict_from_samples(
    trace: TraceFile, model: Mixture, sums: F64, samples: Samples
) -> PredictionResult:
    """`predict` of samples where the walk is done: `sample_totals` of all of the model's cores."""
    check_trace(model, trace)
    rows = len(trace)
    groups = groups_of(trace, None, 1, None)
    if samples.whole:
        return _result(model, trace, None, groups, sums, np.array([rows]))
    total, _ = samples.estimate(sums)
    found = _result(model, trace, None, groups, total[None], np.array([rows]))
    _, half = samples.estimate(model.cycles(sums))
    ranges = samples.ranges
    whole = SampledCycles(found.cycles, half, ranges, rows)
    intervals = found.intervals or Intervals(np.full(len(half), np.nan), half, len(ranges), 0.0)
    intervals = replace(
        intervals,
        sampling=half,
        samples=len(ranges),
        warnings=tuple(filter(None, [whole.warning()])),
    )
    return replace(found, intervals=intervals)


def group_totals(
    trace: TraceFile,
    cores: Sequence[Mapping[str, Any]],
    by: By | None,
    phases: int,
    binary: str | None,
    threads: int | None = None,
) -> tuple[F64, npt.NDArray[np.int64]]:
    """What `predict` sums of some of a model's cores, for `predict_from`: their cycles by part,
    float64 [parts, cores], and the parts' rows."""
    return _sums(cores, trace, groups_of(trace, by, phases, binary), threads, True)


def predict_from(
    trace: TraceFile,
    model: Mixture,
    by: By | None,
    phases: int,
    binary: str | None,
    walked: tuple[F64, npt.NDArray[np.int64]],
) -> PredictionResult:
    """`predict` where the walk is done: ``walked`` has `group_totals` of all of the model's
    cores."""
    check_trace(model, trace)
    return _result(model, trace, by, groups_of(trace, by, phases, binary), *walked)


def total(results: Sequence[PredictionResult]) -> PredictionResult:
    """The time of several traces one after another: everything added up, without parts.

    Raises `UsageError` where they are of different machines or simulated cores.
    """
    first = results[0]
    if any((r.machines, r.columns) != (first.machines, first.columns) for r in results):
        raise UsageError("these predictions are not of one model")
    return PredictionResult(
        f"{len(results)} files",
        sum(r.rows for r in results),
        sum(r.instructions for r in results),
        first.machines,
        first.summaries,
        np.sum([r.cycles for r in results], axis=0),
        np.sum([r.seconds for r in results], axis=0),
        np.sum([r.representation for r in results], axis=0),
        first.columns,
        intervals=added_intervals([r.intervals for r in results], [1.0] * len(results)),
    )


def _sums(
    cores: Sequence[Mapping[str, Any]],
    trace: TraceFile,
    groups: Groups,
    threads: int | None,
    quiet: bool,
) -> tuple[F64, npt.NDArray[np.int64]]:
    """Of each group the cores' cycles, float64 [groups, cores], and the rows."""
    with Progress(Path(trace.path).name, len(trace), quiet=quiet) as progress:
        if groups.edges is not None:  # the rows' own cycles never leave the simulator
            edges = groups.edges
            return totals(trace, cores, edges, threads, progress.update), np.diff(edges)
        sums = np.zeros((len(groups.names), len(cores)))
        counts = np.zeros(len(groups.names), np.int64)
        for part in walk(trace, cores, threads):
            end = part.begin + len(part.cycles)
            of = groups.of(trace, part.begin, end)
            counts += np.bincount(of, minlength=len(counts))
            order = np.argsort(of, kind="stable")
            starts = np.flatnonzero(np.diff(of[order], prepend=-1))
            sums[of[order][starts]] += np.add.reduceat(
                part.cycles[order], starts, axis=0, dtype=np.float64
            )
            progress.update(end)
    return sums, counts


def _result(
    model: Mixture,
    trace: TraceFile,
    by: By | None,
    groups: Groups,
    sums: F64,
    counts: npt.NDArray[np.int64],
) -> PredictionResult:
    total: F64 = sums.sum(axis=0)
    cycles = model.cycles(total)
    parts: list[PredictedPart] = []
    if by:
        each = model.cycles(sums)
        order = (
            np.arange(len(each)) if by == "phase" else np.argsort(-each.sum(axis=1), kind="stable")
        )
        parts = [
            PredictedPart(groups.names[k], int(counts[k]), each[k])
            for k in order.tolist()
            if counts[k]
        ]
    return PredictionResult(
        trace.path,
        len(trace),
        instruction_count(trace),
        model.names,
        tuple(summary_of(m) for m in model.machines),
        cycles,
        cycles * np.array([period(m) for m in model.machines]),
        total,
        tuple(str(c["name"]) for c in model.cores),
        by,
        tuple(parts),
        model_intervals(model, trace, cycles, total),
    )
