"""Predicted time of a trace on every machine, in total and by phase, symbol or pc."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.errors import UsageError
from tracekit.perfvec.model import PerfVec, check_trace, period
from tracekit.reference import walk
from tracekit.store.reader import TraceFile
from tracekit.symbols import AddressMap

__all__ = ["predict"]

F64 = npt.NDArray[np.float64]


def predict(
    model: PerfVec,
    trace: TraceFile,
    *,
    by: str | None = None,
    phases: int = 10,
    symbols: AddressMap | None = None,
    threads: int | None = None,
) -> dict[str, Any]:
    """Cycles, seconds and CPI on each machine of ``model``; with ``by`` also shares of phases
    (equal ranges of rows), pcs or symbols.  ``representation`` is the program's: programs' add up,
    and cycles are its product with the table."""
    rows = len(trace)
    if rows == 0:
        raise UsageError("the trace has no rows", path=trace.path)
    if by not in (None, "phase", "pc", "symbol"):
        raise UsageError(f"by: phase, pc or symbol, not {by!r}")
    if by == "symbol" and symbols is None:
        raise UsageError("by symbol needs the program", hint="--binary FILE")
    check_trace(model, trace)
    statics = trace.statics
    groups = _groups(by, phases, rows, statics, symbols)
    sums = np.zeros((len(groups.names), len(model.cores)))
    counts = np.zeros(len(groups.names), np.int64)
    for part in walk(trace, model.cores, threads):
        n = len(part.cycles)
        of = groups.of(trace, part.begin, part.begin + n)
        counts += np.bincount(of, minlength=len(counts))
        order = np.argsort(of, kind="stable")
        starts = np.flatnonzero(np.diff(of[order], prepend=-1))
        sums[of[order][starts]] += np.add.reduceat(
            part.cycles[order], starts, axis=0, dtype=np.float64
        )
    total = sums.sum(axis=0)
    cycles = model.cycles(total)
    instructions = int(statics.count[statics.ends()].sum())
    machines = []
    for j, m in enumerate(model.machines):
        seconds = float(cycles[j]) * period(m)
        machines.append(
            {
                "name": str(m["name"]),
                "cycles": float(cycles[j]),
                "seconds": seconds if np.isfinite(seconds) else None,
                "cpi": float(cycles[j]) / max(1, instructions),
            }
        )
    out: dict[str, Any] = {
        "path": trace.path,
        "rows": rows,
        "instructions": instructions,
        "machines": machines,
        "representation": total.tolist(),
        "columns": [str(c["name"]) for c in model.cores],
    }
    if by:
        parts = model.cycles(sums)
        order = (
            np.argsort(-parts.sum(axis=1), kind="stable")
            if by != "phase"
            else np.arange(len(parts))
        )
        out["by"] = by
        out["parts"] = [
            {
                "name": groups.names[k],
                "rows": int(counts[k]),
                "cycles": dict(zip(model.names, parts[k].tolist(), strict=True)),
            }
            for k in order.tolist()
            if counts[k]
        ]
    return out


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
    by: str | None, phases: int, rows: int, statics: Any, symbols: AddressMap | None
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
