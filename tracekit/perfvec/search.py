"""Reference cores that take as long as a machine of unknown parameters does, class by class of rows
and window by window: a population of cores, of which those survive that explain the traces best,
bred for some generations.

Few traces never tell every parameter.  Those that they do not tell are drawn anew in the end, so
that predictions from the survivors are means over what is possible.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.perfvec.classes import CLASSES, class_labels, log_shares, told_classes
from tracekit.perfvec.drawn import GRID, possible
from tracekit.perfvec.ensemble import Ensemble
from tracekit.reference import ClassedRows
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

#: Rows of each trace that generations are judged on, and how many there are before and after the
#: best core's parameters are tried one by one.
_BREEDING: tuple[tuple[int, int, int], ...] = ((1 << 15, 8, 0), (3 << 15, 4, 3))
_POPULATION = 64
#: Steps up and down that are tried, and cores with several of the changes that were for the better.
_STEPS, _COMBINED = 2, 20
#: What the survivors are judged on, how many may come there, their number, and generations there.
_SETTLING, _ADMITTED, _SURVIVORS, _LAST_GENERATIONS = 12 << 15, 40, 24, 3
#: What they are judged on when they are offered parameters, how often, the part of them that each
#: is offered, and by how much it may then be further off than the best one.
_OFFERING, _OFFERS, _OFFERED, _TOLERATED = 3 << 15, 12, 0.06, 1.0
#: Of a child's parameters, the part that comes from its second parent, and that is moved a step.
_CROSSED, _MOVED, _MOVED_TOGETHER = 0.25, 0.05, 0.3
#: Of the children, the part that the ensemble proposes.
_PROPOSED = 0.5
#: What is also moved by a step at once.
_TOGETHER: tuple[tuple[str, ...], ...] = (
    ("rob", "phys_int", "phys_vec"),
    ("issue_width", "int_alu", "fp", "simd"),
)
#: What the cores differ by that are drawn or known, beside GRID.
_ALSO = ("issue_width", "phys_int", "phys_vec")

#: Rows of a window, and windows of a longer one: they tell which rows cost what.
_WINDOW, _LONGER = 32, 32
_WINDOWS, _LONGER_WINDOWS = 20.0, 40.0
#: How far the whole time is off in a good core.
_TOTAL = 0.08
#: Student's loss: how soon a class that no core explains counts no further.
_FREEDOM = 4.0


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
    """How far cores are from what a machine took for the first ``rows`` of traces; with each its
    cycles between retirements and its rows' classes (class_labels)."""

    def __init__(
        self,
        traces: Sequence[tuple[TraceFile, F64, npt.NDArray[np.uint16]]],
        rows: int,
        threads: int | None = None,
    ) -> None:
        self._threads = threads
        self._traces = []
        for trace, cycles, labels in traces:
            kept = ClassedRows(trace, labels[:, :rows], CLASSES, _WINDOW)
            windows, classes = kept.sums(cycles)
            if windows.sum() > 0:
                counts = np.bincount(labels[:, :rows].ravel(), minlength=CLASSES)
                self._traces.append((kept, windows[:, None], classes[:, None], counts[:, None]))

    def __call__(self, cores: Sequence[Mapping[str, Any]]) -> tuple[F64, F64]:
        """The misfit of each core, a mean over the traces: of each class the loss of the logarithm
        of its share of the time over the machine's, relative to what cores with a machine's own
        parameters are off by; and by how much windows differ, as a part of the time.  And those
        deviations of classes and of the whole, [cores, numbers]."""
        out = np.zeros(len(cores))
        deviations = []
        for a in range(0, len(cores), _BATCH):
            some, numbers = cores[a : a + _BATCH], []
            for kept, windows, classes, counts in self._traces:
                found, by_class = kept.totals(some, self._threads)
                total = float(windows.sum())
                gaps = _class_gaps(by_class, classes, counts, total)
                whole = (found.sum(axis=0) / total - 1) / _TOTAL
                out[a : a + _BATCH] += _window_loss(found - windows, total) + whole**2 / 2
                out[a : a + _BATCH] += _FREEDOM / 2 * np.log1p(gaps**2 / _FREEDOM).sum(axis=0)
                numbers += [gaps, whole[None]]
            deviations.append(np.concatenate(numbers).T)
        return out / max(1, len(self._traces)), np.concatenate(deviations)


def _window_loss(gap: F64, total: float) -> F64:
    longer = np.add.reduceat(gap, np.arange(0, len(gap), _LONGER))
    short, long = (np.abs(g).sum(axis=0) / total for g in (gap, longer))
    return np.asarray(_WINDOWS * short + _LONGER_WINDOWS * long)


def _class_gaps(x: F64, y: F64, counts: npt.NDArray[np.int64], total: float) -> F64:
    """How far the times of classes of rows ``x`` [classes, cores] are from ``y`` [classes, 1], in
    units of how far they are in good cores: [told classes, cores].  ``counts`` [classes, 1]: rows
    of each; ``total``: the time of all."""
    told, bias, spread = told_classes(counts[:, 0])
    gap = log_shares(x[told], total) - log_shares(y[told], total) - bias[:, None]
    return np.asarray(gap / spread[:, None])


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
    marked = [(t, c, class_labels(t, _SETTLING)) for t, c in traces]
    steps = sum(a + b + (b > 0) for _, a, b in _BREEDING) + _LAST_GENERATIONS + _OFFERS
    done = 0

    def tell(best: float) -> None:
        nonlocal done
        done += 1
        report(f"search, step {done} of {steps}: misfit {best:.1f}")

    def judged(those: list[Core]) -> F64:
        misfits, gaps = judge(those)
        ensemble.add(those, misfits, gaps)
        return misfits

    def bred(errors: F64, count: int) -> tuple[list[Core], F64]:
        moved = ensemble.proposals(count, len(cores), random)
        children = [_one_vector_file(c) for c in moved if random.random() < _PROPOSED]
        children += [_child(cores, values, random) for _ in range(2 * count)]
        children = [c for c in children if possible(c)][:count]
        out = _best([*cores, *children], np.append(errors, judged(children)), len(cores))
        tell(float(out[1][0]))
        return out

    for rows, before, after in _BREEDING:
        judge, ensemble = Judge(marked, rows, threads), Ensemble(values)
        cores, errors = _best(cores, judged(cores), _POPULATION)
        for _ in range(before):
            cores, errors = bred(errors, _POPULATION)
        if after:
            swept, found = _swept(cores[0], float(errors[0]), judged, values, random)
            cores, errors = _best([*cores, *swept], np.append(errors, found), _POPULATION)
            tell(float(errors[0]))
        for _ in range(after):
            cores, errors = bred(errors, _POPULATION)

    judge, ensemble = Judge(marked, _SETTLING, threads), Ensemble(values)
    cores, errors = _best(cores[:_ADMITTED], judged(cores[:_ADMITTED]), _SURVIVORS)
    for _ in range(_LAST_GENERATIONS):
        cores, errors = bred(errors, _SURVIVORS)
    judge = Judge(marked, _OFFERING, threads)
    errors, _ = judge(cores)
    for _ in range(_OFFERS):
        offers = [_offered(c, drawn, values, random) for c in cores]
        found, _ = judge(offers)
        taken = found <= np.maximum(errors, errors.min() + _TOLERATED)
        cores = [o if t else c for c, o, t in zip(cores, offers, taken.tolist(), strict=True)]
        errors = np.where(taken, found, errors)
        tell(float(errors.min()))
    cores, errors = _best(cores, errors, count)
    return [{**c, "name": f"found{i}"} for i, c in enumerate(cores)]


def _swept(
    core: Core,
    error: float,
    judged: Callable[[list[Core]], F64],
    values: Mapping[str, tuple[Any, ...]],
    random: np.random.Generator,
) -> tuple[list[Core], F64]:
    """The core with each parameter changed alone, and with several of those changes that were for
    the better; with the misfits of all."""
    changes, changed = [], []
    for key, known in values.items():
        at = known.index(core[key])
        ordered = not isinstance(known[0], str)
        for i, value in enumerate(known):
            other = _one_vector_file({**core, key: value})
            if i != at and (not ordered or abs(i - at) <= _STEPS) and possible(other):
                changes.append((key, value))
                changed.append(other)
    errors = judged(changed)
    better: dict[str, Any] = {}
    for i in np.argsort(errors, kind="stable").tolist():
        if errors[i] < error:
            better.setdefault(*changes[i])
    combined = []
    for k in range(_COMBINED):
        first = dict(list(better.items())[: k + 2])
        some = {n: v for n, v in better.items() if random.random() < 0.5}
        other = _one_vector_file(core | (first if k < _COMBINED // 2 else some))
        if possible(other):
            combined.append(other)
    return [*changed, *combined], np.append(errors, judged(combined))


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
