"""Predicted time of a trace on every machine, in total and by phase, symbol or pc."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tracekit.errors import UsageError
from tracekit.mixture.model import Mixture, check_trace, load_model
from tracekit.opening import at_level, open_trace
from tracekit.progress import Progress
from tracekit.sim import summary_of, walk
from tracekit.sim.clock import period
from tracekit.sim.description import Machine
from tracekit.store.reader import TraceFile
from tracekit.store.statics import StaticTable
from tracekit.symbols import AddressMap
from tracekit.text import html_table

__all__ = [
    "By",
    "PredictedPart",
    "PredictionResult",
    "group_totals",
    "model_for",
    "predict",
    "predict_from",
    "total",
]

F64 = npt.NDArray[np.float64]
By = Literal["phase", "pc", "symbol"]


@dataclass(frozen=True, eq=False)
class PredictedPart:
    """One phase, pc or symbol: its name, its rows, and float64 [machines] cycles."""

    name: str
    rows: int
    cycles: F64


@dataclass(frozen=True, repr=False, eq=False)
class PredictionResult:
    """What `predict` found.

    ``machines``: their names; ``summaries``: "4-wide, ROB 192, 3.5 GHz, DDR4", "" where a machine's
    parameters are not known.
    ``cycles``, ``seconds``: float64 [machines]; seconds are NaN where a clock is not known.
    ``representation``: float64 [columns], the cycles of each of the model's simulated cores; those
    of two programs may be added.  ``columns``: the cores' names.
    ``parts``: by ``by``; phases in their order, else the largest first.
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

    @property
    def cpi(self) -> F64:
        """Cycles an instruction: float64 [machines]."""
        cpi: F64 = self.cycles / max(1, self.instructions)
        return cpi

    @property
    def fastest_first(self) -> tuple[int, ...]:
        """Places of the machines, by seconds; those without a clock come last."""
        return tuple(np.argsort(self.seconds, kind="stable").tolist())

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
            f"{ascii(self.path)[1:-1]}: {self.rows:,} rows, predicted on {len(self.machines)} "
            f"machines; the fastest is {self.machines[k]}, {1e6 * self.seconds[k]:,.1f} us"
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
        caption = f"{self.path}: {self.rows:,} rows, {self.instructions:,} instructions"
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
        lines = [
            f"{self.path}: {self.rows:,} rows, {self.instructions:,} instructions",
            f"{'machine':<{width}}{'time':>14}{'cycles':>16}{'CPI':>9}",
        ]
        for k in self.fastest_first:
            s = self.seconds[k]
            time = f"{1e6 * s:,.1f} us" if np.isfinite(s) else "?"
            lines.append(
                f"{self.machines[k]:<{width}}{time:>14}{self.cycles[k]:>16,.0f}{self.cpi[k]:>9.3f}"
                f"  {self.summaries[k]}".rstrip()
            )
        return "\n".join(lines)


def predict(
    trace: TraceFile | str | os.PathLike[str],
    model: Mixture | str | os.PathLike[str] | None = None,
    *,
    machines: Sequence[str] | None = None,
    by: By | None = None,
    phases: int = 10,
    binary: str | os.PathLike[str] | None = None,
    own_machine: bool = True,
    threads: int | None = None,
    quiet: bool = True,
) -> PredictionResult:
    """Predict a trace's time on every machine of a model.

    A model is a mixture: each machine's cycles are a weighted sum of those of simulated cores, and
    the weights were fitted to gem5's times (docs/perfvec.md; PerfVec, Li et al., has the idea of
    representations that add up).

    trace: a feats.zst, open or by its path.  Micro-ops of X86 are joined first (`tracekit.open`):
        its shipped model is of instructions.
    model: a model, or its folder; the one that ships for the trace's instruction set unless given.
    machines: only these of the model's machines.
    by: parts to tell the time of as well: "phase" (``phases`` equal ranges of rows), "pc", or
        "symbol" (functions, as a recording knows them, or of ``binary``).
    binary: the traced ELF file.
    own_machine: on the machine that the trace was made on, too, where the trace tells it (those of
        the gem5 plug-in do) and the model has none of that name.
    threads: of the processor; all that may be used unless given.
    quiet: show no progress on standard error.

    Raises `UsageError` where trace and model do not fit, and `FormatError` for a damaged file.

    >>> import tracekit
    >>> found = tracekit.predict("feats.zst", machines=["u007", "o3_small"], by="phase", phases=4)
    >>> found
    feats.zst: 6,134 rows, predicted on 2 machines; the fastest is u007, 17.2 us
    >>> [part.name for part in found.parts]
    ['0:1534', '1534:3067', '3067:4601', '4601:6134']
    """
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
                threads=threads,
                quiet=quiet,
            )
    if by not in (None, "phase", "pc", "symbol"):
        raise UsageError(f"by: phase, pc or symbol, not {by!r}")
    if len(trace) == 0:
        raise UsageError("the trace has no rows", path=trace.path)
    if not isinstance(model, Mixture):
        model = load_model(model, str(trace.index.get("arch", "")))
    model = model_for(trace, model, machines, own_machine)
    if model.arch == trace.arch == "x86" and (model.level, trace.level) == ("macro", "micro"):
        with at_level(trace, "macro") as joined:
            return _predicted(joined, model, by, phases, binary, threads, quiet)
    return _predicted(trace, model, by, phases, binary, threads, quiet)


def model_for(
    trace: TraceFile, model: Mixture, machines: Sequence[str] | None, own_machine: bool
) -> Mixture:
    """The part of a model that `predict` predicts a trace with: ``machines``, and the trace's
    own."""
    own = Machine.of(trace) if own_machine else None
    if own is not None and own.name not in model.names:
        model = model.with_machine(own.to_dict())
    return model if machines is None else model.only(machines)


def _predicted(
    trace: TraceFile,
    model: Mixture,
    by: By | None,
    phases: int,
    binary: str | os.PathLike[str] | None,
    threads: int | None,
    quiet: bool,
) -> PredictionResult:
    symbols = None
    if by == "symbol":
        symbols = AddressMap.of(trace, None if binary is None else os.fspath(binary))
    check_trace(model, trace)
    groups = _groups(by, phases, len(trace), trace.statics, symbols)
    sums, counts = _sums(model.cores, trace, groups, threads, quiet)
    return _result(model, trace, by, groups, sums, counts)


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
    symbols = AddressMap.of(trace, binary) if by == "symbol" else None
    groups = _groups(by, phases, len(trace), trace.statics, symbols)
    return _sums(cores, trace, groups, threads, True)


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
    symbols = AddressMap.of(trace, binary) if by == "symbol" else None
    groups = _groups(by, phases, len(trace), trace.statics, symbols)
    return _result(model, trace, by, groups, *walked)


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
    )


def _sums(
    cores: Sequence[Mapping[str, Any]],
    trace: TraceFile,
    groups: _Groups,
    threads: int | None,
    quiet: bool,
) -> tuple[F64, npt.NDArray[np.int64]]:
    """Of each group the cores' cycles, float64 [groups, cores], and the rows."""
    sums = np.zeros((len(groups.names), len(cores)))
    counts = np.zeros(len(groups.names), np.int64)
    with Progress(Path(trace.path).name, len(trace), quiet=quiet) as progress:
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
    groups: _Groups,
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
    statics = trace.statics
    return PredictionResult(
        trace.path,
        len(trace),
        int(statics.count[statics.ends()].sum()),
        model.names,
        tuple(summary_of(m) for m in model.machines),
        cycles,
        cycles * np.array([period(m) for m in model.machines]),
        total,
        tuple(str(c["name"]) for c in model.cores),
        by,
        tuple(parts),
    )


class _Groups:
    def __init__(
        self, names: Sequence[str], of_static: npt.NDArray[np.int64] | None, rows: int
    ) -> None:
        self.names, self._of_static, self._rows = list(names), of_static, rows

    def of(self, trace: TraceFile, begin: int, end: int) -> npt.NDArray[np.int64]:
        if self._of_static is not None:
            return self._of_static[trace.column("static_id", (begin, end))]
        return np.arange(begin, end) * len(self.names) // self._rows


def _groups(
    by: By | None, phases: int, rows: int, statics: StaticTable, symbols: AddressMap | None
) -> _Groups:
    if by in (None, "phase"):
        if phases < 1:
            raise UsageError("phases: at least 1")
        n = min(phases, rows) if by else 1
        edges = [-(-k * rows // n) for k in range(n + 1)]  # the first row of group k
        return _Groups([f"{a}:{b}" for a, b in itertools.pairwise(edges)], None, rows)
    if symbols is not None and by == "symbol":
        labels = [symbols.place(p).symbol or f"{p:#x}" for p in statics.pc.tolist()]
    else:
        labels = [f"{p:#x}" for p in statics.pc.tolist()]
    names = list(dict.fromkeys(labels))
    number = {n: i for i, n in enumerate(names)}
    return _Groups(names, np.array([number[x] for x in labels], np.int64), rows)
