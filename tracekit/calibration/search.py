"""Simulated cores that take as long as a machine of unknown parameters does, class by class of rows
and window by window: a population of cores, of which those survive that explain the traces best,
bred for some generations.

Few traces never tell every parameter.  Those that they do not tell are drawn anew in the end, so
that predictions from the survivors are means over what is possible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.calibration.ensemble import Ensemble
from tracekit.calibration.niches import best_of_niches, niche
from tracekit.calibration.open_values import OpenValues
from tracekit.calibration.parameter_values import are_names
from tracekit.calibration.random_designs import GRID, possible
from tracekit.calibration.row_classes import CLASSES, class_labels, informative_classes, log_shares
from tracekit.calibration.search_settings import DEFAULT, Round, SearchSettings
from tracekit.calibration.spread_classes import spread_classes
from tracekit.calibration.surrogate import Surrogate
from tracekit.errors import UsageError
from tracekit.sim import ClassedRows
from tracekit.sim.micro_ops import micro_ops
from tracekit.sim.spread import Question, Spread
from tracekit.store.reader import TraceFile

__all__ = ["CANDIDATES", "Judge", "Report", "begun", "similar_cores", "width_of"]

F64 = npt.NDArray[np.float64]
Core = dict[str, Any]
Report = Callable[[Mapping[str, Any]], None]

#: Cores that a search ends with.
CANDIDATES = 12
#: What is also moved by a step at once.
_TOGETHER: tuple[tuple[str, ...], ...] = (
    ("rob", "phys_int", "phys_vec"),
    ("issue_width", "int_alu", "fp", "simd"),
)
#: What the cores differ by that are drawn or known, beside GRID.
_ALSO = ("issue_width", "phys_int", "phys_vec")


def width_of(
    cycles: F64, micro_ops: npt.NDArray[np.int64], settings: SearchSettings = DEFAULT
) -> int | None:
    """How many micro-ops a machine retires in a cycle at most, as its bursts say; None where cycles
    are no whole numbers.  ``micro_ops``: of each row, int64 [rows]; 0 of rows that trap, which
    retire beside a full burst."""
    if not np.array_equal(cycles, np.floor(cycles)):
        return None
    begins = np.flatnonzero(cycles > 0)
    if len(begins) <= 1000:
        return None
    # Of a burst's first row all but the last one may have retired in cycles before.
    earlier = np.maximum(micro_ops[begins] - 1, 0)
    bursts = (np.add.reduceat(micro_ops, begins) - earlier)[:-1]
    reach = np.bincount(bursts)[::-1].cumsum()[::-1]  # bursts of at least so many
    # In order some take no turn, so that a few bursts are longer than the width.
    enough = reach[2:] >= np.maximum(settings.rare * reach[1:-1], settings.least_bursts)
    return 1 + int(np.logical_and.accumulate(enough).sum())


class Judge:
    """How far cores are from what a machine took for the first ``rows`` of traces; with each its
    cycles between retirements and its rows' classes (class_labels)."""

    def __init__(
        self,
        traces: Sequence[tuple[TraceFile, F64, npt.NDArray[np.uint16]]],
        rows: int,
        threads: int | None = None,
        settings: SearchSettings = DEFAULT,
        spread: Spread | None = None,
    ) -> None:
        self._threads, self._settings, self._spread = threads, settings, spread
        self._traces = []
        self._asked: list[Question] = []
        for trace, cycles, labels in traces:
            kept = ClassedRows(trace, labels[:, :rows], CLASSES, settings.window)
            windows, classes = kept.sums(cycles)
            if windows.sum() > 0:
                counts = np.bincount(labels[:, :rows].ravel(), minlength=CLASSES)
                self._traces.append((kept, windows[:, None], classes[:, None], counts[:, None]))
                options = {"labelled": settings.settling_rows, "rows": rows, "level": trace.level}
                self._asked.append((trace.address, {**options, "window": settings.window}))

    def __call__(self, cores: Sequence[Mapping[str, Any]]) -> tuple[F64, F64]:
        """The objective of each core, a mean over the traces.

        Of each class it has the loss of the logarithm of its share of the time over the machine's,
        relative to what cores with a machine's own parameters are off by; and by how much windows
        differ, as a part of the time.  And those deviations of classes and of the whole, [cores,
        numbers]."""
        s, out = self._settings, np.zeros(len(cores))
        deviations = []
        for a in range(0, len(cores), s.batch):
            some, numbers = cores[a : a + s.batch], []
            walked = self._walked(some)
            for (_, windows, classes, counts), (found, by_class) in zip(
                self._traces, walked, strict=True
            ):
                total = float(windows.sum())
                gaps = _class_gaps(by_class, classes, counts, total)
                whole = (found.sum(axis=0) / total - 1) / s.total
                out[a : a + s.batch] += _window_loss(found - windows, total, s) + whole**2 / 2
                out[a : a + s.batch] += _class_loss(gaps.T, s)
                numbers += [gaps, whole[None]]
            deviations.append(np.concatenate(numbers).T)
        return out / max(1, len(self._traces)), np.concatenate(deviations)

    def _walked(self, cores: Sequence[Mapping[str, Any]]) -> Iterable[tuple[F64, F64]]:
        """Of each trace windows x cores and classes x cores."""
        if self._spread is not None:
            return spread_classes(self._spread, self._asked, cores)
        return (t[0].totals(cores, self._threads) for t in self._traces)


def _window_loss(gap: F64, total: float, s: SearchSettings) -> F64:
    longer = np.add.reduceat(gap, np.arange(0, len(gap), s.longer))
    short, long = (np.abs(g).sum(axis=0) / total for g in (gap, longer))
    return np.asarray(s.windows * short + s.longer_windows * long)


def _class_loss(gaps: F64, s: SearchSettings) -> F64:
    """Student's, of gaps [cores, classes]."""
    return np.asarray(s.freedom / 2 * np.log1p(gaps**2 / s.freedom).sum(axis=1))


def _class_gaps(x: F64, y: F64, counts: npt.NDArray[np.int64], total: float) -> F64:
    """How far the times of classes of rows ``x`` [classes, cores] are from ``y`` [classes, 1], in
    units of how far they are in good cores: [informative classes, cores].  ``counts``
    [classes, 1]: rows of each; ``total``: the time of all."""
    informative, bias, spread = informative_classes(counts[:, 0])
    gap = log_shares(x[informative], total) - log_shares(y[informative], total) - bias[:, None]
    return np.asarray(gap / spread[:, None])


def similar_cores(
    traces: Sequence[tuple[TraceFile, F64]],
    start: Sequence[Mapping[str, Any]],
    count: int = CANDIDATES,
    seed: int = 0,
    threads: int | None = None,
    report: Report = lambda _: None,
    settings: SearchSettings = DEFAULT,
    spread: Spread | None = None,
    known: Mapping[str, Any] | None = None,
) -> list[Core]:
    """``count`` cores that explain the traces, best first, bred from ``start``; the same again for
    the same seed.  ``traces``: with each its cycles between retirements; ``spread``: who walks;
    ``known``: parameters that all cores have.  UsageError where none is possible with them."""
    cores, given = begun(traces, start, known, settings)
    keys = [k for k in dict.fromkeys((*GRID, *_ALSO)) if all(k in c for c in cores)]
    values = {k: _values(k, cores) for k in keys if k not in given}
    random = np.random.default_rng(seed)
    search = _Search(traces, cores, values, given, random, threads, report, settings, spread)
    for one in settings.rounds:
        search.breed(one)
    search.settle()
    search.spread()
    best = np.argsort(search.errors, kind="stable")[:count].tolist()
    return [{**search.cores[k], "name": f"candidate{i}"} for i, k in enumerate(best)]


def begun(
    traces: Sequence[tuple[TraceFile, F64]],
    start: Sequence[Mapping[str, Any]],
    known: Mapping[str, Any] | None = None,
    settings: SearchSettings = DEFAULT,
) -> tuple[list[Core], dict[str, Any]]:
    """The cores that a search starts with, and what all of its cores have: what is ``known``, and
    the width that the machine's bursts tell.  UsageError where none is possible, or where bursts
    are longer than a known width."""
    given = dict(known or {})
    found = (width_of(c, _retired(trace, len(c)), settings) for trace, c in traces)
    widths = [w for w in found if w is not None]
    if widths and max(widths) > given.get("width", max(widths)):
        raise UsageError(
            f"the width is {given['width']}, but {max(widths)} micro-ops of a trace retire in one"
        )
    if widths and (cores := _possible(start, measured := {"width": max(widths)} | given)):
        return cores, measured
    # Bursts of which no core is capable tell no width.
    if not (cores := _possible(start, given)):
        known_ones = ", ".join(f"{k}={v}" for k, v in given.items())
        raise UsageError(f"no simulated core is possible with {known_ones}")
    return cores, given


def _retired(trace: TraceFile, rows: int) -> npt.NDArray[np.int64]:
    """The micro-ops of each of the first ``rows``; none of those that trap."""
    ids, faults = (trace.column(name, (0, rows)) for name in ("static_id", "fault"))
    return np.where(faults, 0, micro_ops(trace)[ids])


class _Search:
    """The population: ``cores``, best first, and ``errors``, their objectives."""

    def __init__(
        self,
        traces: Sequence[tuple[TraceFile, F64]],
        cores: list[Core],
        values: Mapping[str, tuple[Any, ...]],
        given: Mapping[str, Any],
        random: np.random.Generator,
        threads: int | None,
        report: Report,
        settings: SearchSettings,
        spread: Spread | None = None,
    ) -> None:
        self.cores, self.errors = cores, np.zeros(0)
        self._designs, self._values, self._given, self._random = cores, values, given, random
        self._threads, self._report, self._s, self._spread = threads, report, settings, spread
        self._traces = [(t, c, class_labels(t, settings.settling_rows)) for t, c in traces]
        self._done = 0
        # The core whose parameters were changed one by one, and by how much its objective rose.
        self._changed, self._rises = cores[0], dict[tuple[str, Any], float]()

    def breed(self, one: Round) -> None:
        """Generations on the first rows."""
        size = self._s.population
        self._start(one.rows, self.cores, size, self._s.of_niche)
        for _ in range(one.before):
            self._generation(size)
        if one.after:
            swept, found = self._swept(self.cores[0], float(self.errors[0]))
            self._of_niche = size
            self._survive(swept, found, size)
            self._tell(float(self.errors[0]))
        for _ in range(one.after):
            self._generation(size)

    def settle(self) -> None:
        """Generations of a few cores on many rows."""
        s = self._s
        self._start(s.settling_rows, self.cores[: s.admitted], s.survivors, s.survivors)
        for _ in range(s.last_generations):
            self._generation(s.survivors)

    def spread(self) -> None:
        """Draws anew what the traces do not tell: offers that are about as good are taken."""
        s = self._s
        left = OpenValues(self._values, self._designs, self._changed, self._rises, s.tolerated)
        for _ in range(s.offers):
            offers = [self._offered(c, left) for c in self.cores]
            found, _ = self._judge(offers)
            taken = found <= np.maximum(self.errors, self.errors.min() + s.tolerated)
            self.cores = [
                o if t else c for c, o, t in zip(self.cores, offers, taken.tolist(), strict=True)
            ]
            self.errors = np.where(taken, found, self.errors)
            self._tell(float(self.errors.min()))

    def _start(self, rows: int, cores: list[Core], size: int, of_niche: int) -> None:
        """The best of the cores, judged on the first rows; from now on no more than ``of_niche`` of
        a niche."""
        self._judge = Judge(self._traces, rows, self._threads, self._s, self._spread)
        self._ensemble = Ensemble(self._values)
        self._surrogate = Surrogate(self._values, self._told_loss)
        self._of_niche = of_niche
        self.cores, self.errors = [], np.zeros(0)
        self._survive(cores, self._judged(cores), size)

    def _told_loss(self, deviations: F64) -> F64:
        return _class_loss(deviations, self._s) / len(self._traces)

    def _survive(self, cores: Sequence[Core], errors: F64, size: int) -> None:
        """The best of the population and of these become the population."""
        every, found = [*self.cores, *cores], np.append(self.errors, errors)
        best = best_of_niches(every, found, size, self._of_niche)
        self.cores, self.errors = [every[i] for i in best], found[best]

    def _tell(self, best: float) -> None:
        self._done += 1
        event = {"event": "step", "done": self._done, "of": self._s.reports}
        self._report({**event, "name": f"objective {best:.1f}"})

    def _judged(self, those: list[Core]) -> F64:
        objectives, gaps = self._judge(those)
        self._ensemble.add(those, objectives, gaps)
        self._surrogate.add(those, objectives, gaps)
        return objectives

    def _generation(self, count: int) -> None:
        screened = int(count * self._s.screened)
        plain = [c for c in self._children(count - screened, spare=count) if possible(c)]
        plain = plain[: count - screened]
        children = [*plain, *self._screened(screened, count)]
        self._survive(children, self._judged(children), len(self.cores))
        self._tell(float(self.errors[0]))

    def _children(self, count: int, spare: int = 0) -> list[Core]:
        """``count`` cores, most of which are possible, and ``spare`` more."""
        proposed = int(self._random.binomial(count, self._s.proposed))
        moved = self._ensemble.proposals(proposed, len(self.cores), self._random)
        children = [_made(c, self._given) for c in moved]
        return children + [self._child() for _ in range(count - proposed + spare)]

    def _screened(self, wanted: int, count: int) -> list[Core]:
        """Of many children those that are foretold to be the best, none twice."""
        many = self._children(self._s.offspring * count)
        chosen: list[Core] = []
        seen = {self._values_of(c) for c in self.cores}
        held: dict[tuple[Any, ...], int] = {}
        for i in np.argsort(self._surrogate.foretold(many), kind="stable").tolist():
            child, kind = many[i], niche(many[i])
            if self._values_of(child) in seen or held.get(kind, 0) >= self._of_niche:
                continue
            if len(chosen) == wanted:
                break
            if possible(child):
                seen.add(self._values_of(child))
                held[kind] = held.get(kind, 0) + 1
                chosen.append(child)
        return chosen

    def _values_of(self, core: Core) -> tuple[Any, ...]:
        return tuple(core[k] for k in self._values)

    def _swept(self, core: Core, error: float) -> tuple[list[Core], F64]:
        """The core with each parameter changed alone, and with several of those changes that were
        for the better; with the objectives of all."""
        changes, changed = [], []
        for key, known in self._values.items():
            at = known.index(core[key])
            ordered = not are_names(known)
            for i, value in enumerate(known):
                other = _made({**core, key: value}, self._given)
                near = not ordered or abs(i - at) <= self._s.steps
                if i != at and near and possible(other):
                    changes.append((key, value))
                    changed.append(other)
        errors = self._judged(changed)
        self._changed = core
        self._rises = dict(zip(changes, np.maximum(errors - error, 0).tolist(), strict=True))
        better: dict[str, Any] = {}
        for i in np.argsort(errors, kind="stable").tolist():
            if errors[i] < error:
                better.setdefault(*changes[i])
        combined = self._combined(core, better)
        return [*changed, *combined], np.append(errors, self._judged(combined))

    def _combined(self, core: Core, better: Mapping[str, Any]) -> list[Core]:
        """The core with several of the changes ``better``, which are in order: the first ones, and
        any."""
        out, count = [], self._s.combined
        for k in range(count):
            first = dict(list(better.items())[: k + 2])
            some = {n: v for n, v in better.items() if self._random.random() < 0.5}
            other = _made(core | (first if k < count // 2 else some), self._given)
            if possible(other):
                out.append(other)
        return out

    def _child(self) -> Core:
        """Of two parents, the first rather a good one."""
        random, s = self._random, self._s
        cores = self.cores
        first = min(int(random.integers(len(cores))), int(random.integers(len(cores))))
        other = cores[int(random.integers(len(cores)))]
        out = dict(cores[first])
        for key, known in self._values.items():
            if random.random() < s.crossed:
                out[key] = other[key]
            if random.random() < s.moved:
                _move(out, key, known, random.random() < 0.5, random)
        if random.random() < s.moved_together:
            up = random.random() < 0.5
            for key in _TOGETHER[int(random.integers(len(_TOGETHER)))]:
                if key in self._values:
                    _move(out, key, self._values[key], up, random)
        return _made(out, self._given)

    def _offered(self, core: Core, left: OpenValues) -> Core:
        out = _made(left.sampled(core, self._s.offered, self._random), self._given)
        return out if possible(out) else core


def _possible(cores: Sequence[Mapping[str, Any]], given: Mapping[str, Any]) -> list[Core]:
    """Those that are possible with what is given.  Of a given width they issue as many more than
    that as before."""
    out: list[Core] = []
    for c in cores:
        core = {**c, **given}
        if "width" in given and "issue_width" not in given:
            core["issue_width"] = max(1, given["width"] + c["issue_width"] - c["width"])
        if possible(core):
            out.append(core)
    return out


def _values(key: str, cores: Sequence[Core]) -> tuple[Any, ...]:
    """All values of a parameter, in order where they are numbers."""
    known = {c[key] for c in cores} | set(GRID.get(key, ()))
    if any(isinstance(v, str) for v in known):
        return tuple(sorted(known, key=str))
    return tuple(sorted(known))


def _made(core: Core, given: Mapping[str, Any]) -> Core:
    """With what is given; and with as many registers for numbers as for vectors, since one of them
    is what vectors take, unless both are given."""
    out: Core = {**core, **given}
    if "phys_float" in out and "phys_vec" in out:
        own = "phys_float" if "phys_float" in given else "phys_vec"
        out = {**out, "phys_float": out[own], "phys_vec": out[own], **given}
    return out


def _move(
    core: Core, key: str, known: tuple[Any, ...], up: bool, random: np.random.Generator
) -> None:
    """To the next larger or smaller value; to any where they have no order."""
    if are_names(known):
        core[key] = known[int(random.integers(len(known)))]
        return
    at = known.index(core[key]) + (1 if up else -1)
    core[key] = known[min(max(at, 0), len(known) - 1)]
