"""Reference cores that take as long as a machine of unknown parameters does, window by window: a
population of cores, of which those survive that explain the traces best, bred for some generations.

Few traces never tell every parameter.  Those that they do not tell are drawn anew in the end, so
that predictions from the survivors are means over what is possible.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.perfvec.drawn import GRID, possible
from tracekit.reference import KeptRows, totals
from tracekit.store.reader import TraceFile

__all__ = ["FOUND", "Judge", "Report", "similar_cores", "width_of"]

F64 = npt.NDArray[np.float64]
Core = dict[str, Any]
Report = Callable[[str], None]

#: Cores that a search ends with.
FOUND = 12
#: Walked at once: their caches fit into memory, whatever their sizes are.
_BATCH = 32
#: Of so few of a machine's bursts none is told by: trapped rows retire with their neighbours.
_RARE = 6e-4


@dataclass(frozen=True)
class Rows:
    """``rows`` of each trace, in windows of ``windows`` rows."""

    rows: int
    windows: tuple[int, ...]


#: Short windows tell which rows cost what.  Survivors are judged again with rows that the breeding
#: has not seen.
_BREEDING, _SETTLING = Rows(30_000, (32, 1024)), Rows(400_000, (32, 4096))
_GENERATIONS, _POPULATION = 12, 64
#: Survivors, how often each is offered parameters, the part of them that it is offered, and by how
#: much it may then be further off than the best one.
_SURVIVORS, _OFFERS, _OFFERED, _TOLERATED = 24, 8, 0.15, 1.05
#: Of a child's parameters, the part that comes from its second parent, and that is moved a step.
_CROSSED, _MOVED, _MOVED_TOGETHER = 0.25, 0.05, 0.3
#: What is also moved by a step at once.
_TOGETHER: tuple[tuple[str, ...], ...] = (
    ("rob", "phys_int", "phys_vec"),
    ("issue_width", "int_alu", "fp", "simd"),
)
#: What the cores differ by that are drawn or known, beside GRID.
_ALSO = ("issue_width", "phys_int", "phys_vec", "l1i_assoc", "l1d_assoc", "l2_assoc", "l2_mshrs")


def width_of(cycles: F64) -> int | None:
    """How many rows a machine retires in a cycle at most, as its bursts say; None where cycles are
    no whole numbers."""
    if not np.array_equal(cycles, np.floor(cycles)):
        return None
    bursts = np.diff(np.flatnonzero(cycles > 0))
    if len(bursts) < 1000:
        return None
    longer = np.bincount(bursts)[::-1].cumsum()[::-1]
    return int(np.flatnonzero(longer >= _RARE * len(bursts)).max())


class Judge:
    """How far cores are from what windows of traces took, on the same rows of each."""

    def __init__(
        self, traces: Sequence[tuple[TraceFile, F64]], told: Rows, threads: int | None = None
    ) -> None:
        self._threads = threads
        self._steps = [w // told.windows[0] for w in told.windows]
        self._traces = []
        for trace, cycles in traces:
            kept = KeptRows(trace, told.rows)
            breaks = np.append(np.arange(0, len(kept), told.windows[0]), len(kept))
            y = np.add.reduceat(np.asarray(cycles[: len(kept)], np.float64), breaks[:-1])
            if y.sum() > 0:
                self._traces.append((kept, breaks, y[:, None]))

    def __call__(self, cores: Sequence[Mapping[str, Any]]) -> F64:
        """The error of each core: by how much its windows differ, as a part of the time; the mean
        of all traces, of windows of each size and of the whole."""
        out = np.zeros(len(cores))
        for a in range(0, len(cores), _BATCH):
            some = cores[a : a + _BATCH]
            for kept, breaks, y in self._traces:
                gap = totals(kept, some, breaks, self._threads) - y
                for step in self._steps:
                    at = np.arange(0, len(y), step)
                    out[a : a + _BATCH] += np.abs(np.add.reduceat(gap, at)).sum(axis=0) / y.sum()
                out[a : a + _BATCH] += np.abs(gap.sum(axis=0)) / y.sum()
        return out / max(1, len(self._traces) * (len(self._steps) + 1))


def similar_cores(
    traces: Sequence[tuple[TraceFile, F64]],
    start: Sequence[Mapping[str, Any]],
    count: int = FOUND,
    seed: int = 0,
    threads: int | None = None,
    report: Report = lambda _: None,
) -> list[Core]:
    """``count`` cores that explain the traces, best first, bred from ``start``; the same again for
    the same seed.  ``traces``: with each its cycles between retirements."""
    random = np.random.default_rng(seed)
    cores: list[Core] = [dict(c) for c in start]
    widths = [w for _, cycles in traces if (w := width_of(cycles)) is not None]
    if widths:
        cores = [_of_width(c, max(widths)) for c in cores]
    cores = [c for c in cores if possible(c)] or [dict(c) for c in start]
    keys = [k for k in dict.fromkeys((*GRID, *_ALSO)) if all(k in c for c in cores)]
    values = {k: _values(k, cores) for k in keys if not (widths and k == "width")}
    drawn = cores

    def bred() -> Core:
        return _child(cores, values, random)

    def tell(step: int, of: int, best: float) -> None:
        report(f"search, step {step} of {of}: windows differ by {best:.1%}")

    steps = _GENERATIONS + _OFFERS
    judge = Judge(traces, _BREEDING, threads)
    cores, errors = _best(cores, judge(cores), _POPULATION)
    for generation in range(_GENERATIONS):
        children = [c for c in (bred() for _ in range(2 * _POPULATION)) if possible(c)]
        children = children[:_POPULATION]
        cores, errors = _best([*cores, *children], np.append(errors, judge(children)), _POPULATION)
        tell(generation + 1, steps, float(errors[0]))

    judge = Judge(traces, _SETTLING, threads)
    cores, errors = _best(cores, judge(cores), _SURVIVORS)
    for turn in range(_OFFERS):
        offers = [_offered(c, drawn, values, random) for c in cores]
        found = judge(offers)
        taken = found <= np.maximum(errors, errors.min() * _TOLERATED)
        cores = [o if t else c for c, o, t in zip(cores, offers, taken.tolist(), strict=True)]
        errors = np.where(taken, found, errors)
        tell(_GENERATIONS + turn + 1, steps, float(errors.min()))
    cores, errors = _best(cores, errors, count)
    return [{**c, "name": f"found{i}"} for i, c in enumerate(cores)]


def _of_width(core: Core, width: int) -> Core:
    more = core["issue_width"] - core["width"]
    return {**core, "width": width, "issue_width": max(1, width + more)}


def _values(key: str, cores: Sequence[Core]) -> tuple[Any, ...]:
    """All values of a parameter, in order where they are numbers."""
    known = {c[key] for c in cores} | set(GRID.get(key, ()))
    if any(isinstance(v, str) for v in known):
        return tuple(sorted(known, key=str))
    return tuple(sorted(known))


def _best(cores: list[Core], errors: F64, count: int) -> tuple[list[Core], F64]:
    order = np.argsort(errors, kind="stable")[:count]
    return [cores[i] for i in order.tolist()], errors[order]


def _child(
    cores: Sequence[Core], values: Mapping[str, tuple[Any, ...]], random: np.random.Generator
) -> Core:
    """Of two parents, the first rather a good one."""
    first = min(int(random.integers(len(cores))), int(random.integers(len(cores))))
    other = cores[int(random.integers(len(cores)))]
    out = dict(cores[first])
    for key, known in values.items():
        if random.random() < _CROSSED:
            out[key] = other[key]
        if random.random() < _MOVED:
            _move(out, key, known, random.random() < 0.5, random)
    if random.random() < _MOVED_TOGETHER:
        up = random.random() < 0.5
        for key in _TOGETHER[int(random.integers(len(_TOGETHER)))]:
            if key in values:
                _move(out, key, values[key], up, random)
    return _one_vector_file(out)


def _one_vector_file(core: Core) -> Core:
    """With as many registers for numbers as for vectors: one of them is what vectors take."""
    if "phys_float" in core and "phys_vec" in core:
        core["phys_float"] = core["phys_vec"]
    return core


def _offered(
    core: Core,
    drawn: Sequence[Core],
    values: Mapping[str, tuple[Any, ...]],
    random: np.random.Generator,
) -> Core:
    """The core with some parameters of one that was there before the search."""
    other = drawn[int(random.integers(len(drawn)))]
    out = _one_vector_file(core | {k: other[k] for k in values if random.random() < _OFFERED})
    return out if possible(out) else core


def _move(
    core: Core, key: str, known: Sequence[Any], up: bool, random: np.random.Generator
) -> None:
    """To the next larger or smaller value; to any where they have no order."""
    if isinstance(known[0], str):
        core[key] = known[int(random.integers(len(known)))]
        return
    at = known.index(core[key]) + (1 if up else -1)
    core[key] = known[min(max(at, 0), len(known) - 1)]
