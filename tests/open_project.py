"""A project on tracekit: its own predictor and policy, a gem5 run's machine, dataframes, training
windows, a notebook's tables, and a package's entry points.  tests/test_open_project.py runs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import tracekit
from tracekit.dataset import Windows
from tracekit.sim import plugins

if TYPE_CHECKING:
    import pandas
    import pyarrow

Cfunc = Callable[[str], Callable[[Callable[..., Any]], plugins.CFunction]]


# 1. Plug-ins: a table of two-bit counters, the next line, and the way that was filled first.


def add_plugins() -> tuple[str, str, str]:
    """Makes them known; gives their names in a machine."""
    import numba

    cfunc: Cfunc = numba.cfunc
    u64, carray = np.uint64, numba.carray

    @cfunc(plugins.PREDICT)
    def predict(state: Any, pc: Any, kind: int) -> int:
        taken: int = carray(state, 1024)[(pc >> u64(2)) % u64(1024)] > 1
        return taken

    @cfunc(plugins.UPDATE)
    def update(state: Any, pc: Any, kind: int, taken: int) -> None:
        counters, at = carray(state, 1024), (pc >> u64(2)) % u64(1024)
        if taken and counters[at] < 3:
            counters[at] += 1
        if not taken and counters[at] > 0:
            counters[at] -= 1

    @cfunc(plugins.ACCESS)
    def access(state: Any, line: Any, pc: Any, hit: int, out: Any) -> int:
        carray(out, 32)[0] = line + u64(1)
        return 1

    @cfunc(plugins.TOUCH)
    def touch(state: Any, way: int, ways: int, filled: int) -> None:
        if filled:
            carray(state, 1)[0] = (way + 1) % ways

    @cfunc(plugins.VICTIM)
    def victim(state: Any, ways: int) -> int:
        first: int = carray(state, 1)[0]
        return first

    plugins.add_predictor("project-counters", 1024, predict, update)
    plugins.add_prefetcher("project-next", 0, access)
    plugins.add_replacement("project-fifo", 1, touch, victim)
    return "plugin:project-counters", "plugin:project-next", "plugin:project-fifo"


# 2. The machine of a gem5 run, and the same one with the plug-ins.


def machines(config: Path) -> tuple[tracekit.Machine, tracekit.Machine]:
    """gem5's, and ours."""
    base = tracekit.Machine.load(config)
    predictor, prefetcher, policy = add_plugins()
    ours = base.replace(
        name="ours", bp=predictor, l1d_pf=prefetcher, l1d_replacement=policy, l1d_kb=4
    )
    return base, ours


# 3. Dataframes: where the rows are, by operation.


def hottest(trace: tracekit.TraceFile) -> str:
    """The operation with most rows, counted by pandas from Arrow's table."""
    table: pyarrow.Table = trace.to_arrow(["op", "pc"])
    frame: pandas.DataFrame = table.to_pandas()
    return str(frame.groupby("op", observed=True).size().idxmax())


# 4. Training: a line fitted to windows, by two workers' shares.


def fitted(paths: list[Path]) -> npt.NDArray[np.float64]:
    """Weights of a linear model of a window's mean cycles, of its mean features."""
    windows = Windows.of(paths, "perfvec", 32, shuffle=1)
    x: list[npt.NDArray[np.float64]] = []
    y: list[float] = []
    for worker in range(2):
        for features, cycles in windows.shard(epoch=0, number=worker, shards=2):
            x.append(np.append(features.mean(axis=0, dtype=np.float64), 1.0))
            y.append(float(cycles.mean()))
    assert len(x) == windows.count()
    weights: npt.NDArray[np.float64] = np.linalg.lstsq(np.array(x), np.array(y), rcond=None)[0]
    return weights


# 5. Notebooks: what a cell shows.


def cell(*things: tracekit.TraceFile | tracekit.Machine | tracekit.SimulationResult) -> str:
    """The HTML of some objects."""
    return "".join(t._repr_html_() for t in things)


# 6. Another package's feature set, input format and machines, by their names.


@dataclass(frozen=True)
class Report:
    """What the project found."""

    cycles: dict[str, float]
    hottest: str
    weights: npt.NDArray[np.float64]
    html: str
    foreign_rows: int
    foreign_features: tuple[int, ...]


def report(text: Path, config: Path, foreign: Path, folder: Path) -> Report:
    """``text``: gem5's; ``config``: its config.ini; ``foreign``: of the package's format."""
    tracekit.extract(text, folder / "a.zst", chunk_rows=1024)
    tracekit.extract(foreign, folder / "b.zst", level="macro")
    base, ours = machines(config)
    with tracekit.open(folder / "a.zst") as trace, tracekit.open(folder / "b.zst") as other:
        result = tracekit.simulate(trace, [base, ours, "example-small"])
        return Report(
            {m.name: float(c) for m, c in zip(result.machines, result.cycles, strict=True)},
            hottest(trace),
            fitted([folder / "a.zst"]),
            cell(trace, ours, result),
            len(other),
            other.features("example-memory").shape,
        )
