"""A machine that the model does not know: its row of the table from one or a few short traces.

The simulated cores and every other row stay as they are.  Where the machine's parameters are known,
one more simulated core is walked with them and the row starts there; where they are not, the row is
a mixture of the known machines' cores, of many drawn ones, and of some that a search finds from
those: cores that explain the traces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.calibration.nearby_row import class_times, core_paces, regularized_row
from tracekit.calibration.random_designs import RANDOM_DESIGNS, random_designs
from tracekit.calibration.search import CANDIDATES, Report, similar_cores
from tracekit.calibration.search_settings import DEFAULT, SearchSettings
from tracekit.errors import FormatError, UsageError
from tracekit.io.files import read_json
from tracekit.io.output import write_json
from tracekit.mixture.fit import (
    Sums,
    fit_row,
    mixture_row,
    segment_breaks,
)
from tracekit.mixture.model import Mixture
from tracekit.sim import check_known, check_machines, totals
from tracekit.sim.parameters import joined, value_error
from tracekit.sim.spread import Spread, spread_totals
from tracekit.store.reader import TraceFile
from tracekit.text import counted

__all__ = ["add_machines", "tune", "write_machine"]

F64 = npt.NDArray[np.float64]
Traces = Sequence[tuple[TraceFile, npt.NDArray[np.float64]]]

FORMAT, VERSION = "tracekit-machine", 2
STRENGTH = 0.3
MAX_CORES = 256


def _sums(
    traces: Traces,
    cores: Sequence[Mapping[str, Any]],
    threads: int | None,
    spread: Spread | None = None,
) -> list[Sums]:
    out = []
    walked: list[F64] = []
    if spread is not None:
        edges = [segment_breaks(len(t)) for t, _ in traces]
        walked = spread_totals(spread, [t for t, _ in traces], cores, edges)
    for k, (trace, cycles) in enumerate(traces):
        rows = len(trace)
        breaks = segment_breaks(rows)
        y = np.add.reduceat(cycles, breaks[:-1]).astype(np.float64)[:, None]
        x = totals(trace, cores, breaks, threads) if spread is None else walked[k]
        out.append(Sums(trace.path, trace.path, rows, x, y))
    return out


def _whole(sums: Sequence[Sums]) -> list[tuple[F64, float]]:
    """Of each trace the time of each core [cores], and the machine's."""
    return [(s.x.sum(axis=0), float(s.y.sum())) for s in sums]


def _check(traces: Traces) -> None:
    for trace, cycles in traces:
        if len(cycles) != len(trace):
            raise UsageError(
                f"{counted(len(cycles), 'cycle')} for {counted(len(trace), 'row')}", path=trace.path
            )
        if not np.isfinite(cycles).all() or (cycles < 0).any():
            raise UsageError("a target is negative or not a number", path=trace.path)


def _check_known(known: Mapping[str, Any], search: bool) -> None:
    if not search:
        raise UsageError("some known parameters are for a search, and none is made")
    errors = [e for k, v in known.items() if (e := value_error(k, v)) is not None]
    if "name" in known:
        errors.append("the name is no parameter that a search keeps")
    if errors:
        raise UsageError(joined(errors))


def tune(
    model: Mixture,
    traces: Traces,
    name: str,
    *,
    parameters: Mapping[str, Any] | None = None,
    known: Mapping[str, Any] | None = None,
    designs: int = RANDOM_DESIGNS,
    searched: int = CANDIDATES,
    seed: int = 0,
    threads: int | None = None,
    report: Report = lambda _: None,
    settings: SearchSettings = DEFAULT,
    spread: Spread | None = None,
) -> dict[str, Any]:
    """The machine ``name``, as ``write_machine`` writes and ``add_machines`` reads it: its cores,
    its row over the model's cores and those, and how well the row explains the traces it was tuned
    on.  ``parameters``: all of the machine's; ``known``: some of them, which all cores of the
    search have; ``spread``: who walks the traces."""
    if not traces:
        raise UsageError("tuning needs at least one trace")
    if not name.strip():
        raise UsageError("the machine needs a name")
    if known:
        _check_known(known, bool(searched and not parameters))
    if name in model.names:
        raise UsageError(f"the model already knows a machine {name}")
    _check(traces)
    survivors: dict[str, float] = {}
    if parameters:
        cores = [*model.cores, {**parameters, "name": name}]
        sums = _sums(traces, cores, threads, spread)
        prior = (np.arange(len(cores)) == len(model.cores)).astype(np.float64)
        weights = fit_row(sums, 0, prior, STRENGTH)
        whole = _whole(sums)
    else:
        cores = [*model.cores, *random_designs(model.cores, designs, seed)]
        if searched:
            cores = similar_cores(
                traces, cores, searched, seed, threads, report, settings, spread, known
            )
            times = [class_times(t, cycles, cores, threads, spread) for t, cycles in traces]
            weights = regularized_row(times)
            whole = [(t.total_x, t.total_y) for t in times]
            paces = core_paces(times).tolist()
            survivors = {str(c["name"]): p for c, p in zip(cores, paces, strict=True)}
        else:
            sums = _sums(traces, cores, threads, spread)
            weights = mixture_row(sums, 0)
            whole = _whole(sums)
    errors = [float(x @ weights / y - 1) for x, y in whole]
    # The row: the model's own cores first, then those that only this machine has.
    columns = [str(c["name"]) for c in model.cores]
    row, new = [0.0] * len(columns), []
    for core, weight in zip(cores, weights.tolist(), strict=True):
        if core["name"] in columns:
            row[columns.index(core["name"])] = weight
        elif weight > 0 or core["name"] in survivors:
            row.append(weight)
            new.append({**core, "name": name if parameters else f"{name}.{core['name']}"})
    return {
        "format": FORMAT,
        "version": VERSION,
        "name": name,
        "machine": {**(parameters or known or {}), "name": name},
        "cores": new,
        "parameters_known": parameters is not None,
        "columns": columns,
        "row": row,
        "survivors": {f"{name}.{core}": pace for core, pace in survivors.items()},
        "tuned_on": [
            {"path": trace.path, "rows": len(trace), "error": e}
            for (trace, _), e in zip(traces, errors, strict=True)
        ],
    }


def write_machine(path: str | Path, machine: Mapping[str, Any], *, force: bool = False) -> None:
    """Write what ``tune`` gave; a file that exists is an error without ``force``."""
    write_json(path, machine, force=force)


def add_machines(model: Mixture, paths: Sequence[str | Path]) -> Mixture:
    """The model with tuned machines: a row and a few cores more for each; all other predictions
    stay."""
    for path in paths:
        model = _add(model, Path(path))
    return model


def _add(model: Mixture, path: Path) -> Mixture:
    data = read_json(path)
    if not isinstance(data, dict) or data.get("format") != FORMAT or data.get("version") != VERSION:
        raise FormatError(
            "no machine that this version's tracekit tune wrote",
            path=str(path),
            hint="`tracekit simulate -m` takes a machine's parameters",
        )
    cores, row, columns, machine = (data.get(k) for k in ("cores", "row", "columns", "machine"))
    if not isinstance(machine, dict) or not isinstance(columns, list):
        raise FormatError("machine or columns is missing", path=str(path))
    if not str(machine.get("name")).isprintable():
        raise FormatError("its name has characters that cannot be printed", path=str(path))
    if (
        not isinstance(cores, list)
        or len(cores) > MAX_CORES
        or not all(isinstance(c, dict) for c in cores)
    ):
        raise FormatError(f"cores: a list of at most {MAX_CORES} cores", path=str(path))
    own = [str(c["name"]) for c in model.cores][: len(columns)]
    if columns != own:
        raise FormatError(
            "the machine was tuned for another model", path=str(path), hint="tune it again"
        )
    if (
        not isinstance(row, list)
        or len(row) != len(columns) + len(cores)
        or not all(isinstance(x, int | float) and 0 <= x < 1e9 for x in row)
    ):
        raise FormatError("row: a number >= 0 for each core", path=str(path))
    check_machines(cores, path)
    check_known([machine], path)
    survivors = _survivors(data, [str(c.get("name")) for c in cores], path)
    table = np.hstack([model.table, np.zeros((len(model.machines), len(cores)))])
    new = np.zeros(table.shape[1])
    new[: len(columns)] = row[: len(columns)]
    new[len(model.cores) :] = row[len(columns) :]
    if str(machine.get("name")) in model.names:
        raise UsageError(f"the model already knows a machine {machine.get('name')}", path=str(path))
    return replace(
        model,
        cores=[*model.cores, *cores],
        machines=[*model.machines, machine],
        table=np.vstack([table, new]),
        survivors={
            **model.survivors,
            **({str(machine.get("name")): survivors} if survivors else {}),
        },
    )


def _survivors(data: Mapping[str, Any], names: Sequence[str], path: Path) -> dict[str, float]:
    """Those that the file has; none in files of before there were any."""
    found = data.get("survivors", {})
    if (
        not isinstance(found, dict)
        or not found.keys() <= set(names)
        or not all(isinstance(x, int | float) and 0 < x < 1e9 for x in found.values())
    ):
        raise FormatError("survivors: a number > 0 for some of its cores", path=str(path))
    return {name: float(x) for name, x in found.items()}
