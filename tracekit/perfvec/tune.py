"""A machine that the model does not know: its row of the table from one or a few short traces.

The reference cores and every other row stay as they are.  Where the machine's parameters are known,
one more reference core is walked with them and the row starts there; where they are not, the
parameters of the core that explains the traces best are searched for, from those of the machines
that are known.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.errors import FormatError, UsageError
from tracekit.perfvec.fit import Sums, fit_row, misfits, segment_breaks
from tracekit.perfvec.model import PerfVec
from tracekit.reference import core_row, totals
from tracekit.store.reader import TraceFile

__all__ = ["add_machines", "search", "tune", "write_machine"]

F64 = npt.NDArray[np.float64]
Traces = Sequence[tuple[TraceFile, npt.NDArray[np.float64]]]

FORMAT = "tracekit-machine"
STRENGTH = 0.3
#: What the search moves, and over which values.
_GRID: dict[str, tuple[Any, ...]] = {
    "width": (1, 2, 3, 4, 5, 6, 8),
    "rob": (16, 32, 64, 96, 128, 192, 256, 384, 512),
    "iq": (8, 16, 32, 48, 64, 96, 160),
    "lq": (8, 16, 24, 32, 48, 72, 128),
    "sq": (8, 12, 16, 24, 32, 48, 64, 128),
    "fetch_buffer": (16, 32, 64),
    "fetch_queue": (8, 16, 32, 48),
    "front_delay": (1, 2, 3, 4, 5),
    "issue_to_exec": (1, 2),
    "int_alu": (1, 2, 3, 4, 6, 8),
    "int_mul": (1, 2),
    "int_mul_lat": (2, 3, 4),
    "int_div_lat": (8, 12, 20, 30),
    "fp": (1, 2, 3, 4, 5),
    "fp_add_lat": (2, 3, 4, 5),
    "fp_mul_lat": (3, 4, 5),
    "fp_div_lat": (9, 12, 20),
    "simd": (1, 2, 3, 4, 5),
    "load_ports": (1, 2, 3),
    "store_ports": (1, 2),
    "bp": ("Local", "Tournament", "BiMode", "TAGE", "LTAGE"),
    "btb": (512, 1024, 4096, 8192),
    "l1i_kb": (8, 16, 32, 64),
    "l1i_lat": (1, 2, 3),
    "l1d_kb": (4, 8, 16, 32, 64, 128),
    "l1d_lat": (1, 2, 3, 4, 5),
    "l1d_mshrs": (4, 8, 16, 24),
    "l1d_pf": ("none", "stride", "tagged"),
    "l2_kb": (128, 256, 512, 1024, 2048, 4096),
    "l2_lat": (8, 12, 16, 20),
    "l2_pf": ("none", "stride", "ampm"),
    "l3_kb": (0, 4096, 16384),
    "l3_lat": (25, 35, 45),
    "clock_ghz": (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0),
    "mem": (
        "DDR3_1600_8x8",
        "DDR4_2400_8x8",
        "DDR5_6400_4x8",
        "LPDDR3_1600_1x32",
        "HBM_2000_4H_1x64",
    ),
}


def _sums(traces: Traces, cores: Sequence[Mapping[str, Any]], threads: int | None) -> list[Sums]:
    out = []
    for trace, cycles in traces:
        rows = len(trace)
        if len(cycles) != rows:
            raise UsageError(f"{len(cycles)} cycles for {rows} rows", path=trace.path)
        if not np.isfinite(cycles).all() or (cycles < 0).any():
            raise UsageError("a target is negative or not a number", path=trace.path)
        breaks = segment_breaks(rows)
        y = np.add.reduceat(cycles, breaks[:-1]).astype(np.float64)[:, None]
        out.append(Sums(trace.path, trace.path, rows, totals(trace, cores, breaks, threads), y))
    return out


def search(
    traces: Traces,
    start: Sequence[Mapping[str, Any]],
    *,
    passes: int = 2,
    threads: int | None = None,
    report: Callable[[str, float], None] = lambda _name, _misfit: None,
) -> dict[str, Any]:
    """Parameters of the core that explains the traces best, one parameter after another, from the
    best of ``start``.  What two parameters could both explain is not told apart: the core is a
    means to a row of the table, not a measurement of the machine."""
    if not start:
        raise UsageError("the search needs at least one core to start from")
    first = misfits(_sums(traces, start, threads), 0)
    best, least = dict(start[int(first.argmin())]), float(first.min())
    for _ in range(passes):
        before = least
        for name, values in _GRID.items():
            tries = [{**best, name: v} for v in values if v != best.get(name)]
            tries = [t for t in tries if _possible(t)]
            if not tries:
                continue
            misfit = misfits(_sums(traces, tries, threads), 0)
            if misfit.min() < least - 1e-7:
                best, least = tries[int(misfit.argmin())], float(misfit.min())
                report(name, least)
        if least > 0.99 * before:
            break
    return best


def _possible(machine: Mapping[str, Any]) -> bool:
    try:
        core_row(machine)
    except UsageError:
        return False
    return True


def tune(
    model: PerfVec,
    traces: Traces,
    name: str,
    *,
    parameters: Mapping[str, Any] | None = None,
    passes: int = 2,
    threads: int | None = None,
    report: Callable[[str, float], None] = lambda _name, _misfit: None,
) -> dict[str, Any]:
    """The machine ``name``, as ``write_machine`` writes and ``add_machines`` reads it: its core,
    its row over the model's cores and that one, and how well the row explains the traces it was
    tuned on."""
    if not traces:
        raise UsageError("tuning needs at least one trace")
    if name in model.names:
        raise UsageError(f"the model already knows a machine {name}")
    if parameters:
        core = {**parameters, "name": name}
    else:
        core = {
            **search(traces, model.cores, passes=passes, threads=threads, report=report),
            "name": name,
        }
    sums = _sums(traces, [*model.cores, core], threads)
    prior = np.zeros(len(model.cores) + 1)
    prior[-1] = 1
    row = fit_row(sums, 0, prior, STRENGTH)
    errors = [float(p.x.sum(axis=0) @ row / p.y.sum() - 1) for p in sums]
    known = {**parameters} if parameters else {}
    return {
        "format": FORMAT,
        "version": 1,
        "name": name,
        "machine": {**known, "name": name},
        "core": core,
        "searched": parameters is None,
        "columns": [str(c["name"]) for c in model.cores],
        "row": row.tolist(),
        "tuned_on": [
            {"path": p.name, "rows": p.rows, "error": e} for p, e in zip(sums, errors, strict=True)
        ],
    }


def write_machine(path: str | Path, machine: Mapping[str, Any]) -> None:
    """Write what ``tune`` gave."""
    Path(path).write_text(json.dumps(machine, indent=1) + "\n", encoding="utf-8")


def add_machines(model: PerfVec, paths: Sequence[str | Path]) -> PerfVec:
    """The model with tuned machines: a core and a row more for each; all other predictions stay."""
    for path in paths:
        model = _add(model, Path(path))
    return model


def _add(model: PerfVec, path: Path) -> PerfVec:
    try:
        data = json.loads(path.read_bytes().decode("utf-8"))
    except (OSError, ValueError, RecursionError) as e:
        raise FormatError(f"cannot be read: {e}", path=str(path)) from None
    if not isinstance(data, dict) or data.get("format") != FORMAT or data.get("version") != 1:
        raise FormatError("no machine that tracekit tune wrote", path=str(path))
    core, row, columns, machine = (data.get(k) for k in ("core", "row", "columns", "machine"))
    if not isinstance(core, dict) or not isinstance(machine, dict) or not isinstance(columns, list):
        raise FormatError("core, machine or columns is missing", path=str(path))
    own = [str(c["name"]) for c in model.cores][: len(columns)]
    if columns != own:
        raise FormatError(
            "the machine was tuned for another model", path=str(path), hint="tune it again"
        )
    if (
        not isinstance(row, list)
        or len(row) != len(columns) + 1
        or not all(isinstance(x, int | float) and 0 <= x < 1e9 for x in row)
    ):
        raise FormatError("row: a number >= 0 for each core", path=str(path))
    core_row(core)
    table = np.hstack([model.table, np.zeros((len(model.machines), 1))])
    new = np.zeros(table.shape[1])
    new[: len(columns)] = row[:-1]
    new[-1] = row[-1]
    if str(machine.get("name")) in model.names:
        raise UsageError(f"the model already knows a machine {machine.get('name')}", path=str(path))
    return replace(
        model,
        cores=[*model.cores, core],
        machines=[*model.machines, machine],
        table=np.vstack([table, new]),
    )
