"""Which rows of a long trace are walked, and what the whole trace's cycles follow from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tracekit.errors import UsageError
from tracekit.estimation.student import student
from tracekit.phases import phases_of_rows
from tracekit.sim.samples import sample_sums
from tracekit.sim.strata import Stratum, shared_out, strata
from tracekit.sim.stretch_costs import stretch_costs
from tracekit.sim.trace_walk import RowSource, source_of
from tracekit.store.reader import TraceFile
from tracekit.text import counted

__all__ = ["FEW", "LENGTH", "SamplePlan", "SampledCycles", "Samples", "drawn", "sampled_totals"]

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
Choice = Literal["stratified", "systematic", "random", "phase"]
#: Given where stretches begin, what each should cost.
Costs = Callable[[I64], F64]

#: Rows of a sample, unless given.
LENGTH = 10_000
#: Fewer samples say too little of how they differ.
FEW = 30
#: Of the variance that expected costs have in strata, what samples have at least that tell a slope.
LITTLE = 1e-4
#: Phases of a program at most, as many as SimPoint looks for.
PHASES = 30


@dataclass(frozen=True)
class Samples:
    """Ranges of rows of a trace of ``rows`` rows, in their order, and how they were chosen.

    Of stratified samples, and of those by phase, ``stratum`` has each one's, and ``sizes`` how many
    stretches of a sample's length each stratum has.  Of those by phase ``expected`` has what each
    should cost by its features, and ``spreads`` the variance of that over each phase's stretches.
    """

    ranges: list[tuple[int, int]]
    rows: int
    choice: Choice
    stratum: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()
    expected: tuple[float, ...] = ()
    spreads: tuple[float, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether they are all rows."""
        return self.ranges == [(0, self.rows)]

    def estimate(self, sums: F64) -> tuple[F64, F64]:
        """Cycles of the trace and half their 95 % interval, from ``sums`` of the samples: float64
        [samples, machines].  0 where all rows were walked, NaN where one sample says nothing of it.

        Of stratified samples, of which phases are a kind, the variance adds up over the strata,
        each weighted by its share, with Student's t of Satterthwaite's degrees of freedom (Cochran,
        Sampling Techniques, 1977, section 5.4): few where few strata have most of it.  A phase has
        few stretches that are dear, and samples without one would say that there are none.  What
        stretches should cost is known of all of them.  So the part of the variance that follows
        from it is the phase's where the samples' own is less.  Of random samples it is that of
        their mean; of systematic ones that of the differences of neighbours
        (Wolter, Introduction to Variance Estimation, 2007, section 8.2), which is right on average
        alone: too large for most programs that change slowly, and too small for one that repeats
        itself as often as samples come.  All without the share of the rows that was walked.
        """
        if self.whole:
            return sums[0], np.zeros(sums.shape[1])
        n = len(self.ranges)
        length = self.ranges[0][1] - self.ranges[0][0]
        rate = sums / length
        if self.stratum:
            return self._by_stratum(rate)
        cycles: F64 = rate.mean(axis=0) * self.rows
        if n < 2:
            return cycles, np.full(len(cycles), np.nan)
        if self.choice == "systematic":
            variance = (np.diff(rate, axis=0) ** 2).sum(axis=0) / (2 * (n - 1))
        else:
            variance = rate.var(axis=0, ddof=1)
        left = 1 - n * length / self.rows
        return cycles, student(n - 1) * np.sqrt(left * variance / n) * self.rows

    def _by_stratum(self, rate: F64) -> tuple[F64, F64]:
        of, sizes = np.array(self.stratum), np.array(self.sizes, float)[:, None]
        n = np.bincount(of, minlength=len(sizes))[:, None]
        shape = (len(sizes), rate.shape[1])
        mean, squares = np.zeros(shape), np.zeros(shape)
        np.add.at(mean, of, rate)
        mean /= n
        np.add.at(squares, of, (rate - mean[of]) ** 2)
        share = sizes / sizes.sum()
        free = np.maximum(n - 1, 1)  # one sample says nothing, and its square is 0
        scale = share**2 * (1 - n / sizes) / n
        parts = scale * squares / free
        variance, weight = parts.sum(axis=0), (parts**2 / free).sum(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            freedom = np.where(weight > 0, variance**2 / weight, len(rate) - len(sizes))
        t = np.array([student(f) for f in freedom])
        if self.expected:
            variance = variance + self._not_met(rate, mean, scale, free)
        return (share * mean).sum(axis=0) * self.rows, t * np.sqrt(variance) * self.rows

    def _not_met(self, rate: F64, mean: F64, scale: F64, free: npt.NDArray[Any]) -> F64:
        """What the variance lacks where samples differ less in what they should cost than their
        strata do: float64 [machines].  ``rate`` [samples, machines] and ``mean`` [strata, machines]
        of cycles; ``scale`` [strata, 1] of variances, ``free`` [strata, 1] degrees of freedom."""
        of, expected = np.array(self.stratum), np.array(self.expected)
        mean_expected = np.bincount(of, expected) / np.bincount(of)
        off = (expected - mean_expected[of])[:, None]
        weight = (scale / free)[of]
        own, whole = float((weight * off**2).sum()), float(scale[:, 0] @ np.array(self.spreads))
        if own > LITTLE * whole:
            slope: F64 = (weight * off * (rate - mean[of])).sum(axis=0) / own
        else:  # nothing says how cycles follow: as the costs themselves
            sizes = np.array(self.sizes, float)
            slope = sizes @ mean / float(sizes @ mean_expected)
        return slope**2 * max(0.0, whole - own)


@dataclass(frozen=True)
class SamplePlan:
    """Samples of ``length`` rows: about two stretches that are drawn of each of so many strata,
    which should cost about as much and lie in one part of the trace ("stratified"); one every
    ``every`` rows from a start that is drawn ("systematic"); or ``count`` at places that are drawn:
    of all rows ("random"), or of those of each phase, as many as are its share ("phase").  No two
    have a row in common.

    ``every`` or ``count``, not both: with ``count`` systematic samples are as far apart as the
    trace allows, and stratified ones have as many rows each as ``every`` says.  ``seed``: of what
    is drawn; another one each time unless given.
    """

    length: int = LENGTH
    every: int | None = None
    count: int | None = None
    choice: Choice = "stratified"
    seed: int | None = None

    def draw(
        self, rows: int, phases: Callable[[int], npt.NDArray[np.intp]], costs: Costs
    ) -> Samples:
        """The samples of a trace of so many rows; one that is all of it where the samples would be
        most of the trace.

        ``phases``, given how many there may be, gives that of each whole stretch of ``length``
        rows; it is asked for samples by phase alone.  ``costs``, given where stretches of
        ``length`` rows begin, gives what each should cost, in any unit, more than 0; it is asked
        for stratified samples and those by phase.  Raises `UsageError` for numbers that make no
        samples.
        """
        every = self.apart(rows)
        count = self.count or max(2, rows // every)
        most = count if self.choice == "stratified" else 1
        if rows < 2 * self.length * most or 2 * self.length > every:
            return Samples([(0, rows)], rows, self.choice)
        draw = np.random.default_rng(self.seed)
        if self.choice == "stratified":
            return self._of_strata(rows, count, costs, draw)
        if self.choice == "phase":
            labels = phases(min(PHASES, (self.count or 0) // 2))
            return self._of_phases(rows, labels, costs, draw)
        if self.choice == "systematic":
            start = int(draw.integers(every))
            begins = [b for b in range(start, rows, every) if b + self.length <= rows]
            ranges = [(b, b + self.length) for b in begins] or [(0, rows)]
            return Samples(ranges, rows, self.choice)
        # Places between samples, drawn without order: any set of samples is as likely.
        free = rows - (self.count or 0) * self.length
        places = np.sort(draw.integers(free + 1, size=self.count))
        begins = [int(p) + k * self.length for k, p in enumerate(places)]
        return Samples([(b, b + self.length) for b in begins], rows, self.choice)

    def apart(self, rows: int) -> int:
        """How many rows samples are apart in the mean; raises `UsageError` as `draw` does."""
        if self.length < 1:
            raise UsageError(f"samples of {self.length} rows; at least 1")
        if (self.every is None) == (self.count is None):
            raise UsageError("samples: how far apart, or how many")
        if self.count is not None and self.count < 2:
            raise UsageError(f"{counted(self.count, 'sample')}; at least 2")
        if self.choice in ("random", "phase") and self.count is None:
            raise UsageError(f"samples of choice {self.choice}: how many")
        every = self.every if self.every is not None else max(rows // (self.count or 1), 1)
        if self.every is not None and every < self.length:
            raise UsageError(f"a sample of {self.length:,} rows every {every:,}")
        return every

    def begins(self, rows: int) -> I64:
        """Where the stretches begin that stratified samples are drawn of, int64 [stretches]; the
        trace has room for one at least.  What rows are left of whole stretches lies between all of
        them alike."""
        stretches = rows // self.length
        return np.arange(stretches, dtype=np.int64) * rows // stretches

    def _of_strata(self, rows: int, count: int, costs: Costs, draw: np.random.Generator) -> Samples:
        begins = self.begins(rows)
        return self._of_each(rows, begins, strata(costs(begins), count), draw)

    def _of_phases(
        self, rows: int, labels: npt.NDArray[np.intp], costs: Costs, draw: np.random.Generator
    ) -> Samples:
        """Two of each phase, the others where the most rows are for each that is taken."""
        sizes = np.bincount(labels)
        own = [
            Stratum(np.flatnonzero(labels == k), taken)
            for k, taken in enumerate(shared_out(sizes, sizes, self.count or 0).tolist())
        ]
        begins = np.arange(len(labels)) * self.length
        found = self._of_each(rows, begins, own, draw)
        cost = costs(begins)
        expected = tuple(float(cost[b // self.length]) for b, _ in found.ranges)
        every = (cost[s.stretches] for s in own)
        spreads = tuple(float(c.var(ddof=1)) if len(c) > 1 else 0.0 for c in every)
        return replace(found, expected=expected, spreads=spreads)

    def _of_each(
        self, rows: int, begins: I64, own: list[Stratum], draw: np.random.Generator
    ) -> Samples:
        """So many of each stratum of the stretches that begin there."""
        chosen = sorted(
            (int(begins[at]), k)
            for k, (stretches, taken) in enumerate(own)
            for at in draw.choice(stretches, taken, replace=False)
        )
        ranges = [(b, b + self.length) for b, _ in chosen]
        stratum = tuple(k for _, k in chosen)
        return Samples(ranges, rows, self.choice, stratum, tuple(len(s.stretches) for s in own))


@dataclass(frozen=True)
class SampledCycles:
    """Of a whole trace, by machine: ``cycles`` and half their 95 % interval, ``half`` (0 where all
    rows were walked, NaN where one sample says nothing of it).  ``samples``: their ranges."""

    cycles: F64
    half: F64
    samples: list[tuple[int, int]]
    rows: int

    @property
    def whole(self) -> bool:
        """Whether every row was walked."""
        return self.samples == [(0, self.rows)]

    def warning(self) -> str | None:
        """What is to be said in front of the figures: that the samples are too few."""
        n = len(self.samples)
        if self.whole or n >= FEW:
            return None
        length = self.samples[0][1] - self.samples[0][0]
        count = FEW + 1  # evenly from a random start, the last one may be cut off
        if self.rows // (2 * length) >= count:
            todo = f"--samples {count}, or --every {self.rows // count}"
        else:
            todo = f"--samples {count} --insts {max(1, self.rows // (2 * count))}, "
            todo += "or none of these options: the trace "
            todo += f"has {self.rows:,} rows, which are walked whole"
        return f"{n} samples: how far the figures are off is itself uncertain. Try {todo}"


def sampled_totals(
    trace: TraceFile | RowSource,
    machines: Sequence[Mapping[str, Any]],
    plan: SamplePlan,
    threads: int | None = None,
    report: Callable[[int], None] = lambda _: None,
) -> SampledCycles:
    """The whole trace's cycles on simulated cores, from warm samples.  Raises `UsageError` where
    the plan makes no samples."""
    source = source_of(trace)
    samples = drawn(source, plan, threads)
    sums = sample_sums(source, machines, samples.ranges, threads=threads, report=report)
    return SampledCycles(*samples.estimate(sums), samples.ranges, len(trace))


def drawn(source: RowSource, plan: SamplePlan, threads: int | None = None) -> Samples:
    """The samples of a trace.  Raises `UsageError` where the plan makes none, and where
    scikit-learn is missing for samples by phase."""
    rows = len(source)

    def phases(most: int) -> npt.NDArray[np.intp]:
        return phases_of_rows(source.ids(), source.statics, plan.length, most, plan.seed or 0)

    def costs(begins: I64) -> F64:
        return stretch_costs(source, begins, plan.length, threads)

    return plan.draw(rows, phases, costs)
