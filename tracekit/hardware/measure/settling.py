"""Experiments are repeated until two rounds agree; what does not settle is told."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tracekit.errors import TracekitError
from tracekit.hardware.measure.bench import Bench, Experiment

__all__ = ["SHARE", "Outcome", "Settling", "quiet_share"]

#: Rounds of an experiment at the most, and how often one is repeated that was disturbed.
ROUNDS, DISTURBED = 6, 8
#: The least share of a processor that experiments need, and by how much the clock may move within
#: one (ninth decile over first).
SHARE, JUMP = 0.93, 1.15


@dataclass
class Outcome:
    """A value that was measured: ``rounds`` has every round's; ``settled`` says whether two agreed,
    ``value`` is their mean, else the median of all."""

    value: float
    rounds: list[float]
    settled: bool

    @property
    def spread(self) -> float:
        """The largest difference of two rounds, as a share of the value."""
        wide = max(self.rounds) - min(self.rounds)
        return wide / abs(self.value) if self.value else wide


@dataclass
class Settling:
    """Rounds of experiments until two agree.

    ``report(done, of, label)`` is told how far it is; ``end`` is when to stop (time.monotonic's
    seconds).  ``outcomes`` has what was measured, ``notes`` what disturbed it.
    """

    bench: Bench
    end: float
    report: Callable[[int, int, str], None]
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    disturbed: int = 0

    def run(self, experiments: Sequence[Experiment]) -> None:
        """Run them all: two rounds of all in turn, so that a value's rounds lie apart, then again
        those that disagree."""
        rounds: dict[str, list[dict[str, float]]] = {e.name: [] for e in experiments}
        total = 2 * len(experiments)
        done = 0
        for number in range(ROUNDS):
            for e in experiments:
                if number >= 2 and self._agreed(e, rounds[e.name]):
                    continue
                if number and time.monotonic() > self.end:
                    break
                self.report(min(done, total - 1), total, e.label)
                rounds[e.name].append(self._round(e))
                done += 1
                self._take(e, rounds[e.name])
        self.report(total, total, "")

    def _round(self, e: Experiment) -> dict[str, float]:
        """One round that nothing disturbed."""
        for _ in range(DISTURBED):
            clock = self.bench.timer.ns_per_cycle
            before, wall, used = len(clock), time.perf_counter(), time.thread_time()
            shared, waited = self.bench.timer.shared, self.bench.timer.waited
            self.bench.timer.alone = e.alone
            found = {k: float(v) for k, v in e.run(self.bench).items() if np.isfinite(v)}
            wall, used = time.perf_counter() - wall, time.thread_time() - used
            wall -= self.bench.timer.waited - waited
            here = np.array(clock[before:]) if len(clock) > before else np.ones(1)
            jump = float(np.quantile(here, 0.9) / np.quantile(here, 0.1))
            if used < SHARE * wall - 0.005:
                reason = f"another program took {1 - used / wall:.0%} of the processor"
            elif jump > JUMP:
                reason = f"the clock moved by {jump - 1:.0%}"
            elif self.bench.timer.shared > shared:
                reason = "another thread shares the core"
            else:
                return found
            self.disturbed += 1
            self.notes.append(f"{e.label}: repeated, {reason}")
            time.sleep(0.3)
        raise TracekitError(
            f"{e.label}: {reason}, {DISTURBED} times in a row",
            hint="end what else runs on this computer, or name a free processor with --cpu",
        )

    def _agreed(self, e: Experiment, rounds: list[dict[str, float]]) -> bool:
        names = {n for r in rounds for n in r}
        return len(rounds) >= 2 and all(self._pair(e, n, rounds) is not None for n in names)

    def _pair(
        self, e: Experiment, name: str, rounds: list[dict[str, float]]
    ) -> tuple[float, float] | None:
        """Two rounds of ``name`` that agree: the last ones that do."""
        values = [r[name] for r in rounds if name in r]
        for i in range(len(values) - 1, 0, -1):
            near = min(values[:i], key=lambda v: abs(v - values[i]))
            if e.agree(name, near, values[i]):
                return near, values[i]
        return None

    def _take(self, e: Experiment, rounds: list[dict[str, float]]) -> None:
        for name in {n for r in rounds for n in r}:
            values = [r[name] for r in rounds if name in r]
            pair = self._pair(e, name, rounds)
            value = float(np.mean(pair)) if pair else float(np.median(values))
            self.outcomes[name] = Outcome(value, values, pair is not None)
            self.bench.found[name] = value


def quiet_share(bench: Bench, seconds: float = 0.1) -> float:
    """The share of the processor's time that this thread gets while it computes."""
    # naps between timings would hide a neighbour: who wakes up is served first
    bench.timer.alone = False
    wall, used = time.perf_counter(), time.thread_time()
    while time.perf_counter() - wall < seconds:
        bench.cycles(["chain_add"] * 64, 64, rounds=3)
    return (time.thread_time() - used) / (time.perf_counter() - wall)
