"""The agent's loop: look, choose, sample, predict, report."""

from __future__ import annotations

import math
import random
import sqlite3
from array import array
from collections.abc import Sequence
from typing import Final

from tracekit.agent.allocation import spreads
from tracekit.agent.budget import CpuBudget, LossBudget
from tracekit.agent.disk import DISK_FULL, ROOM, of_full_disk
from tracekit.agent.host import Host, Sampled
from tracekit.agent.log import Log
from tracekit.agent.policy import Policy
from tracekit.agent.processes import Look, Process
from tracekit.agent.reporting import Reporter
from tracekit.agent.state import Known, State
from tracekit.errors import TracekitError
from tracekit.io.files import read_limited
from tracekit.io.output import write_bytes

__all__ = ["Agent", "nearest"]

FLUSH: Final = 60.0
"""Seconds after which times that were observed are written down."""
PRUNE: Final = 3600.0
BACK_OFF: Final = 600.0
"""Seconds for which a program that could not be sampled is left alone, at first."""
MAX_TRACE: Final = 1 << 28
HELD: Final = "loss budget"
NOTHING: Final = "nothing runs"
FORGOTTEN: Final = "forgotten"
#: No fault of the program, nor of ours: it is tried again at the next look.
PASSING: Final = frozenset(
    {"in_system_call", "gone", "stopped", "no thread to record", "program_ended", "duration",
     "too short", "exec", NOTHING, FORGOTTEN}
)  # fmt: skip


def nearest(sketch: bytes, known: Sequence[Known]) -> tuple[Known | None, float]:
    """The signature whose sketch is the most alike, and the share of the instructions that are
    elsewhere (0 to 1)."""
    best, least = None, 2.0
    own = array("H", sketch)
    for k in known:
        if len(k.sketch) != len(sketch):
            continue
        d = sum(map(abs, map(int.__sub__, own, array("H", k.sketch)))) / 131_070
        if d < least:
            best, least = k, d
    return best, least


class Agent:
    """``step`` is one turn of the loop, which goes on until ``stopped``."""

    def __init__(
        self,
        policy: Policy,
        state: State,
        host: Host,
        log: Log,
        reporter: Reporter | None = None,
        seed: int | None = None,
    ) -> None:
        self.policy, self.state, self.host, self.log = policy, state, host, log
        self.reporter = reporter
        self.stopped = False
        now = host.elapsed()
        self.cpu = CpuBudget(policy.cpu, now)
        self.loss = LossBudget(policy.loss)
        self._random = random.Random(seed)
        self._spent = host.spent()
        self._used = 0.0  # not yet written down
        self._look = Look()
        self._recent: dict[int, float] = {}  # user seconds of processes since the last epoch
        self._seconds: dict[str, float] = {}  # not yet written down
        self._alive: dict[str, float] = {}
        self._looked = self._flushed = now
        self._pruned = -math.inf
        self._due = now + self._gap()
        self._left_alone: dict[str, tuple[float, float]] = {}  # until when, and for how long
        self._held: set[str] = set()  # programs that were said to wait for their loss budget
        self._spread: dict[str | None, float] = {}  # of programs' epochs; none: not known
        self._why = ""
        self._forgotten = state.setting("forgotten")
        state.remove(state.strays())

    def _gap(self) -> float:
        return self._random.expovariate(1.0) * self.cpu.period

    def step(self) -> None:
        """One turn.  On a full disk nothing is lost: what is not written down waits for room."""
        try:
            self._turn()
        except (sqlite3.OperationalError, TracekitError) as e:
            if not of_full_disk(e, self.state.folder):
                raise
            self._because(DISK_FULL)

    def _turn(self) -> None:
        self.look()
        now = self.host.elapsed()
        paused = self.state.setting("paused") == "yes"
        why = "paused" if paused else self._forbidden()
        self._because(why)
        if not paused and why != DISK_FULL:
            due = not why and now >= self._due and self.cpu.enough
            if due and (self._waiting_traces() or self._sample()):
                self._due = self.host.elapsed() + self._gap()
            if self.reporter is not None:
                self.reporter.step(self.host.now())
            self._update_models()
        if now - self._pruned >= PRUNE:
            self._pruned = now
            self.flush()
            self.state.prune(self.host.now() - 86_400 * self.policy.days)
        self._account()

    def _because(self, why: str) -> None:
        """Why nothing is sampled; "" where it is."""
        if why != self._why:
            self._why = why
            self.log("waits" if why else "goes on", **({"why": why} if why else {}))

    def _forbidden(self) -> str:
        if self.state.room() < ROOM:
            return DISK_FULL
        if self.state.used() > 1e6 * self.policy.disk_mb:
            self._make_room()
            if self.state.used() > 1e6 * self.policy.disk_mb:
                return "disk budget"
        return self.host.allowed(self.policy)

    def _make_room(self) -> None:
        """Kept traces go, the oldest first."""
        while self.state.used() > 1e6 * self.policy.disk_mb:
            oldest = "predicted = 1 AND id = (SELECT min(id) FROM traces WHERE predicted = 1)"
            files = self.state.drop_traces(oldest)
            if not files:
                return
            self.state.remove(files)

    def _update_models(self) -> None:
        """A withdrawn model is not used from here on, a newer one is."""
        if not self.policy.model.startswith("repository:"):
            return
        now = self.host.now()
        since = now - float(self.state.setting("models_updated", "0"))
        if 0 <= since < 3600 * self.policy.update_hours:  # less: the clock was set back
            return
        self.state.keep("models_updated", str(now))
        done = self.host.update_models()
        self.spend(done.epoch)
        self.log(done.why or "models updated", message=done.message)

    def _account(self) -> None:
        """What this process used since the last time."""
        spent = self.host.spent()
        used, self._spent = spent - self._spent, spent
        self.cpu.pass_time(self.host.elapsed())
        self.spend(used)

    def spend(self, seconds: float) -> None:
        """Processor seconds that no epoch has cost; the next `flush` writes them down."""
        self.cpu.spend(seconds)
        self._used += seconds

    def look(self) -> None:
        """What ran since the last look."""
        now = self.host.elapsed()
        self.cpu.pass_time(now)
        look = self.host.look()
        since = max(0.0, now - self._looked)
        self._looked = now
        for pid, seconds in look.user.items():
            p = look.processes[pid]
            self._recent[pid] = self._recent.get(pid, 0.0) + seconds
            self._seconds[p.executable] = self._seconds.get(p.executable, 0.0) + seconds
            alive = min(since, now - p.since)
            self._alive[p.executable] = self._alive.get(p.executable, 0.0) + alive
        for executable, why in look.refused.items() - self._look.refused.items():
            self.state.refuse(self.host.now(), executable, why)
            self.state.count(f"refused: {why}")
        self._look = look
        self._recent = {k: v for k, v in self._recent.items() if k in look.processes}
        self.loss.forget_all_but(
            set(look.processes), {p.executable for p in look.processes.values()}
        )
        if now - self._flushed >= FLUSH:
            self.flush()

    def flush(self) -> None:
        """Write down what was observed."""
        self._forget()
        used = {k: v for k, v in self._seconds.items() if v > 0}
        alive = {k: v for k, v in self._alive.items() if k in used}
        self.state.observe(self.host.now(), used, alive)
        self._seconds.clear()
        self._alive = {k: v for k, v in self._alive.items() if k not in alive}
        if self._used > 0:
            self.state.spend(self.host.now(), agent=self._used)
            self._used = 0.0
        self._flushed = self.host.elapsed()

    def _forget(self) -> None:
        """What was forgotten meanwhile is forgotten here, too."""
        times = self.state.setting("forgotten")
        if times != self._forgotten:
            self._forgotten = times
            known = self.state.programs()
            self._seconds = {k: v for k, v in self._seconds.items() if k in known}
            self._alive = {k: v for k, v in self._alive.items() if k in known}

    # ---- sampling

    def _choose(
        self, crowded: bool, program: str | None = None, *, running: bool = True
    ) -> Process | None:
        """A program by how much it ran since the last look and by how its epochs differ, or this
        one, and of it a process by how much it ran.  Not ``running``: by what ran before that, too,
        and has no epoch yet."""
        now = self.host.elapsed()
        pending = self.state.pending()
        ready: dict[str, list[Process]] = {}
        ran: dict[int, float] = {}
        for pid, seconds in self._recent.items():
            p = self._look.processes[pid]
            ran[pid] = min(seconds, self._look.user.get(pid, 0.0)) if running else seconds
            if ran[pid] <= 0 or self._left_alone.get(p.executable, (0.0, 0.0))[0] > now:
                continue
            if self.loss.allows(pid, p.executable, p.resident, now - p.since, crowded):
                ready.setdefault(p.executable, []).append(p)
            elif not crowded and p.executable not in self._held:
                self._held.add(p.executable)
                self.state.hold(p.executable, HELD)
                self.log("no epoch yet", executable=p.executable, why=HELD)
        names = [e for e in ready if pending.get(e, 0.0) > 0 and program in (None, e)]
        if not names:
            return None
        spread = self._spread or spreads(self.state.answers(self.policy.designs))
        self._spread = spread
        by = [sum(ran[p.pid] for p in ready[e]) * spread.get(e, spread[None]) for e in names]
        own = ready[self._random.choices(names, by)[0]]
        return self._random.choices(own, [ran[p.pid] for p in own])[0]

    def _sample(self) -> bool:
        """One epoch, if there is one to be had."""
        self.flush()
        crowded = self.host.crowded()  # before there is a worker, which fills a core
        first = self._choose(crowded) or self._choose(crowded, running=False)
        if first is None:
            return False
        chosen: list[Process] = []
        kept: list[tuple[Sampled, str, bool]] = []
        why: list[str] = []

        def choose() -> int | None:
            """Again: a worker takes a while to start, and that process may have ended."""
            self.look()
            self.flush()
            p = (
                self._choose(crowded, first.executable)
                or self._choose(crowded)
                or self._choose(crowded, first.executable, running=False)
            )
            if p is None:
                return None
            chosen.append(p)
            return p.pid

        def wanted(found: Sampled) -> list[str]:
            signature, known = self._keep(chosen[0], found)
            if signature is None:
                why.append(FORGOTTEN)
                return []
            kept.append((found, signature, known))
            return [] if known else list(self.policy.designs)

        done = self.host.sample(choose, list(self.policy.designs), wanted, self.look)
        now = self.host.now()
        self.cpu.spend(done.epoch + done.prediction)
        self.state.spend(now, epochs=done.epoch, predictions=done.prediction)
        p = chosen[0] if chosen else first
        self.loss.lose(p.pid, p.executable, done.lost)
        self.state.lose(p.executable, done.lost)
        if not kept:
            self._none(p, done.why or (*why, "nothing came")[0], done.message)
            return False
        self.cpu.learn(done.epoch + max(done.prediction, 0.0))
        self._left_alone.pop(p.executable, None)
        self._recent[p.pid] = 0.0
        found, signature, known = kept[0]
        if not known and done.predictions:
            self.state.predicted(signature, done.predictions)
        self._spread = {}
        if done.why:
            self.log("prediction failed", why=done.why, message=done.message)
        if self.policy.keep_traces:
            self._make_room()
        else:
            self.state.remove(self.state.drop_traces("predicted = 1"))
        self.state.spend(now, taken=1, known=int(known))
        self.log(
            "sampled",
            executable=p.executable,
            instructions=found.instructions,
            known=known,
            lost_ms=round(1e3 * done.lost, 3),
            cpu_s=round(done.epoch, 3),
            prediction_s=round(done.prediction, 3),
        )
        return True

    def _keep(self, p: Process, found: Sampled) -> tuple[str | None, bool]:
        """Note an epoch; the signature that stands for it, and whether all is known of it.  None
        where the program was forgotten meanwhile."""
        like, distance = nearest(found.sketch, self.state.known(p.executable))
        signature, known = found.signature, False
        if like is not None and (
            distance <= self.policy.distance or like.signature == found.signature
        ):
            signature, known = like.signature, like.designs >= set(self.policy.designs)
        trace = None
        if not known or self.policy.keep_traces:
            write_bytes(self.state.folder / found.name, found.trace)
            trace = (found.name, len(found.trace))
        sketch = like.sketch if like is not None and signature == like.signature else found.sketch
        weight = self.state.add_epoch(
            self.host.now(), p.executable, signature, sketch, found.instructions, trace
        )
        if weight is None:
            self.state.remove([found.name])
            return None, False
        if known and trace is not None:
            self.state.db.execute("UPDATE traces SET predicted = 1 WHERE file = ?", (found.name,))
        return signature, known

    def _none(self, p: Process, why: str, message: str) -> None:
        self.state.count(f"no epoch: {why}")
        if why not in PASSING:
            seconds = min(2 * self._left_alone.get(p.executable, (0.0, BACK_OFF / 2))[1], 86_400.0)
            self._left_alone[p.executable] = (self.host.elapsed() + seconds, seconds)
            self.state.refuse(self.host.now(), p.executable, why)
        self._recent[p.pid] = 0.0
        self.log("no epoch", executable=p.executable, why=why, message=message)

    def _waiting_traces(self) -> bool:
        """Predict a trace that is at rest (a kill came in between, or it failed)."""
        for signature, name in self.state.unpredicted()[:1]:
            try:
                sealed = read_limited(self.state.folder / name, MAX_TRACE)
                done = self.host.predict(name, sealed, list(self.policy.designs))
            except TracekitError as e:
                self.log("trace dropped", message=str(e))
                self.state.remove(self.state.drop_traces("file = ?", name))
                continue
            self.cpu.spend(done.prediction)
            self.state.spend(self.host.now(), predictions=done.prediction)
            if done.predictions:
                self.state.predicted(signature, done.predictions)
            else:
                self.log("trace dropped", why=done.why, message=done.message)
                self.state.remove(self.state.drop_traces("file = ?", name))
            if not self.policy.keep_traces:
                self.state.remove(self.state.drop_traces("predicted = 1"))
            return True
        return False
