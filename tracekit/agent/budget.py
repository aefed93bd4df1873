"""Budgets that are spent before they are had never are: what has been measured decides."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["CpuBudget", "LossBudget"]

#: Seconds of the budget that may be saved up.
SAVED = 3600.0
#: Seconds that a program waits where stepping takes its processor.
CROWDED = 3.0


@dataclass
class CpuBudget:
    """Processor time of the agent with all that it starts.

    ``share`` seconds a second are had, at most an hour's worth is saved up; nothing is spent ahead,
    except by an epoch that costs more than epochs did (``cost``), which the next ones pay for.
    """

    share: float
    now: float
    tokens: float = 0.0
    cost: float = 4.0

    def pass_time(self, now: float) -> None:
        """It is ``now``."""
        if now > self.now:
            self.tokens = min(self.tokens + self.share * (now - self.now), self.share * SAVED)
        self.now = now  # a clock that is set back earns nothing

    def spend(self, seconds: float) -> None:
        """So much was used."""
        self.tokens -= seconds

    def learn(self, cost: float) -> None:
        """An epoch with its prediction cost so much: the dearest of the last ones counts."""
        self.cost = max(cost, 0.8 * self.cost + 0.2 * cost)

    @property
    def enough(self) -> bool:
        """Whether an epoch can be paid for."""
        return self.tokens >= self.cost

    @property
    def period(self) -> float:
        """Seconds between epochs that the budget allows."""
        return self.cost / self.share


@dataclass
class LossBudget:
    """What sampled processes lose: stopped, by copied pages, and waiting while a copy runs."""

    share: float
    lost: dict[int, float] = field(default_factory=dict)
    cost: dict[str, float] = field(default_factory=dict)

    def expected(self, executable: str, resident: int, crowded: bool = False) -> float:
        """Seconds that an epoch costs: as before, and at first by the memory that is copied
        (docs/record.md: 0.27 ms for 10 MB, 41 ms for 2 GB), doubled.  ``crowded``: no core is
        idle, so that the program may wait for as long as an epoch is stepped."""
        known = self.cost.get(executable, 0.002 + 4e-11 * resident)
        return max(known, CROWDED) if crowded else known

    def allows(
        self, pid: int, executable: str, resident: int, age: float, crowded: bool = False
    ) -> bool:
        """Whether a process that has been seen for ``age`` seconds can have an epoch."""
        lost = self.lost.get(pid, 0.0) + self.expected(executable, resident, crowded)
        return lost <= self.share * age

    def lose(self, pid: int, executable: str, seconds: float) -> None:
        """An epoch cost so much."""
        self.lost[pid] = self.lost.get(pid, 0.0) + seconds
        before = self.cost.get(executable, seconds)
        self.cost[executable] = max(seconds, 0.7 * before + 0.3 * seconds)

    def forget_all_but(self, pids: set[int], executables: set[str]) -> None:
        """Processes that ended."""
        self.lost = {k: v for k, v in self.lost.items() if k in pids}
        if len(self.cost) > 10_000:
            self.cost = {k: v for k, v in self.cost.items() if k in executables}
