"""A computer that is not there: an agent runs on it as on a real one, at any speed.

Programs run by a seed, in phases; epochs cost what they cost on real ones.  Demonstrations and long
runs use it, and nothing else.
"""

from __future__ import annotations

import hashlib
import math
import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from tracekit.agent.host import Outcome, Sampled
from tracekit.agent.policy import Policy
from tracekit.agent.processes import Look, Process
from tracekit.agent.state import Prediction

__all__ = ["Program", "SimulatedComputer"]

SKETCH = 128


@dataclass(frozen=True)
class Program:
    """``load``: user seconds a second while it runs; ``phases``: of which its epochs are one, the
    later the rarer; ``life``: seconds until it is started anew."""

    executable: str
    load: float
    phases: int
    life: float


class SimulatedComputer:
    """A `Host` whose clock runs ``speed`` times as fast as the real one, or (0) as fast as it can.

    ``designs``: the clock and mean cycles an instruction of each.
    """

    def __init__(
        self,
        programs: list[Program],
        designs: dict[str, tuple[float, float]],
        *,
        seed: int,
        begin: float,
        speed: float = 0.0,
        trace_bytes: int = 300_000,
    ) -> None:
        self.programs, self.designs = programs, designs
        self._random = random.Random(seed)
        self._time = self._begin = begin
        self._speed, self._real = speed, time.monotonic()
        self._trace = os.urandom(trace_bytes)
        self._user = [0.0] * len(programs)
        self._looked = begin
        self._cpu = 0.0
        self._lost: dict[int, float] = {}
        self._since: dict[int, float] = {}

    def now(self) -> float:
        """Simulated seconds since 1970."""
        return self._time

    def elapsed(self) -> float:
        """The same: nobody sets this clock."""
        return self._time

    def sleep(self, seconds: float) -> None:
        """Let simulated time pass."""
        self._time += seconds
        if self._speed:
            ahead = (self._time - self._begin) / self._speed - (time.monotonic() - self._real)
            if ahead > 0:
                time.sleep(ahead)

    def allowed(self, policy: Policy) -> str:
        """Nothing forbids work."""
        return ""

    def crowded(self) -> bool:
        """Never."""
        return False

    def update_models(self) -> Outcome:
        """There is no repository."""
        return Outcome()

    def spent(self) -> float:
        """A look costs a millisecond."""
        return self._cpu

    def look(self) -> Look:
        """Every program has one process, and another one after its life."""
        out = Look()
        since, self._looked = self._time - self._looked, self._time
        self._cpu += 0.001
        for k, p in enumerate(self.programs):
            pid = 1000 + 100_000 * k + int((self._time - self._begin) // p.life)
            seconds = since * p.load * self._random.uniform(0.5, 1.5)
            self._user[k] += seconds
            born = self._since.setdefault(pid, self._time)
            out.processes[pid] = Process(
                pid, int(born), p.executable, self._user[k], 50_000_000, born
            )
            out.user[pid] = seconds
        self._since = {k: v for k, v in self._since.items() if k in out.processes}
        return out

    def sample(
        self, choose: Callable[[], int | None], designs: list[str],
        wanted: Callable[[Sampled], list[str]], tick: Callable[[], None],
    ) -> Outcome:  # fmt: skip
        """An epoch of one of the program's phases."""
        self.sleep(0.5)  # until a worker is ready
        pid = choose()
        if pid is None:
            return Outcome(why="nothing runs", epoch=0.3)
        p = self.programs[(pid - 1000) // 100_000]
        phase = min(int(self._random.expovariate(1.0) * p.phases / 4), p.phases - 1)
        rng = random.Random(f"{p.executable} {phase}")
        shares = [rng.random() ** 8 for _ in range(SKETCH)]
        scale = 65_000 / sum(shares)
        sketch = b"".join(
            max(0, round(scale * s * self._random.uniform(0.99, 1.01))).to_bytes(2, "little")
            for s in shares
        )
        own = hashlib.sha256(f"{p.executable} {phase} {self._random.random()}".encode()).hexdigest()
        name = f"{self._random.randrange(1 << 64):016x}.trace"
        self.sleep(4.0)
        tick()
        out = Outcome(lost=0.0005, epoch=self._random.uniform(2.0, 3.0))
        if wanted(Sampled(own, sketch, 100_000, name, self._trace)):
            out.prediction = 0.25
            out.predictions = self._predictions(rng, designs)
        return out

    def _predictions(self, rng: random.Random, designs: list[str]) -> list[Prediction]:
        slow = math.exp(rng.gauss(0.0, 0.5))
        return [
            Prediction(d, "simulated", "1", 1e5 * cpi * slow * math.exp(rng.gauss(0, 0.05)),
                       3000.0, clock, 0.0)
            for d, (clock, cpi) in self.designs.items() if d in designs
        ]  # fmt: skip

    def predict(self, name: str, sealed: bytes, designs: list[str]) -> Outcome:
        """A trace at rest."""
        rng = random.Random(hashlib.sha256(sealed).digest())
        return Outcome(prediction=0.25, predictions=self._predictions(rng, designs))
