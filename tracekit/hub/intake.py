"""Messages of agents into the database: one thread, and one commit for all that wait.

A message is answered when its transaction is on the disk.  Of two that are the same the second one
is a duplicate; whether it is, the row of the first one says, which was written in the same
transaction as its aggregates.
"""

from __future__ import annotations

import contextlib
import hashlib
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from tracekit.fleet.messages import Aggregate, Batch, Forget, Subscription
from tracekit.hub.tables import (
    agents,
    aggregates,
    audit,
    batches,
    kinds,
    observed,
    series,
    subscriptions,
    tokens,
)
from tracekit.hub.tokens import Who, issue_agent

__all__ = ["Busy", "Intake", "Refused"]

GROUP: Final = 256
"""Messages of one transaction."""
WAITING: Final = 4096
"""Messages that wait; more are told to come later."""
SKEW: Final = 300.0
"""Seconds by which an agent's clock may differ before its hours are corrected."""
HOUR: Final = 3600
MOST_SKEW: Final = 86_400.0 * 366
AGE: Final = 24 * 400
"""Hours after which a sample is too old to be taken."""


class Refused(Exception):
    """A message that is not taken: ``status`` of HTTP and why; ``last``: the agent's last sequence,
    where the message's is not larger."""

    def __init__(self, status: int, why: str, last: int | None = None) -> None:
        super().__init__(why)
        self.status, self.last = status, last


class Busy(Exception):
    """Too many messages wait."""


class _SeriesGone(Exception):
    """A series that was kept in mind has been deleted since."""


@dataclass(frozen=True)
class Rotation:
    """A request for another token."""


@dataclass(frozen=True)
class Note:
    """A line of the audit log."""

    what: str
    who: str
    detail: str


Message = Batch | Forget | Subscription | Rotation | Note


@dataclass
class _Job:
    message: Message
    who: Who
    digest: str
    clock: float | None
    answer: Future[dict[str, Any]]
    result: dict[str, Any] | Refused | None = None


_NOBODY: Final = Who(0, "", 0, "", False)


class Intake:
    """The thread that writes.  ``clock``: seconds since 1970."""

    def __init__(self, engine: sa.Engine, *, clock: Callable[[], float] = time.time) -> None:
        self._engine, self._clock = engine, clock
        self._jobs: queue.Queue[_Job | None] = queue.Queue(WAITING)
        self._series: dict[tuple[str, ...], int] = {}
        self._sequences: dict[int, int] = {}
        self.commits = self.messages = 0
        self._thread = threading.Thread(target=self._run, name="intake", daemon=True)
        self._thread.start()

    def put(
        self, message: Message, who: Who, body: bytes, clock: float | None = None
    ) -> Future[dict[str, Any]]:
        """Its answer when it is on the disk; raises Busy.  The future raises Refused, or what the
        database raised, in which case nothing was written.  ``clock``: the agent's, when it sent
        this; None where it did not tell."""
        answer: Future[dict[str, Any]] = Future()
        answer.set_running_or_notify_cancel()  # who went away does not take it back
        job = _Job(message, who, hashlib.sha256(body).hexdigest(), clock, answer)
        try:
            self._jobs.put_nowait(job)
        except queue.Full:
            raise Busy from None
        return answer

    def note(self, what: str, who: str, detail: str) -> None:
        """A line for the audit log; where too many messages wait it is left out."""
        with contextlib.suppress(Busy):
            self.put(Note(what, who, detail), _NOBODY, b"")

    def close(self) -> None:
        """Write what waits, and end."""
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        while True:
            group: list[_Job] = []
            job = self._jobs.get()
            while job is not None:
                group.append(job)
                if len(group) == GROUP:
                    break
                try:
                    job = self._jobs.get_nowait()
                except queue.Empty:
                    break
            if group:
                self._write(group)
            if job is None:
                return

    def _write(self, group: list[_Job]) -> None:
        """One transaction; alone, each, where that of all fails."""
        try:
            with self._engine.begin() as connection:
                _Transaction(self, connection, self._clock()).all(group)
        except _SeriesGone:
            self._series.clear()
            self._sequences.clear()
            self._write(group)
            return
        except Exception as e:
            self._series.clear()
            self._sequences.clear()
            if len(group) > 1:
                for job in group:
                    self._write([job])
            else:
                group[0].answer.set_exception(e)
            return
        self.commits += 1
        self.messages += len(group)
        for job in group:
            if isinstance(job.result, Refused):
                job.answer.set_exception(job.result)
            else:
                job.answer.set_result(job.result or {})


def _skew(made: float, clock: float | None, now: float) -> float:
    """Seconds by which the agent's clock is ahead of ``now``.  ``made``: what it said when the
    message was made; ``clock``: what it said when this was sent, None where it was not told.

    A message waits while the hub is not to be reached, so that it is older when it comes says
    nothing.  That it is of the future does: the clock was ahead when it was made.  A clock that is
    behind that moment was set since, and says nothing of the message's hours.
    """
    if clock is None or clock < made - SKEW:
        return max(made - now, 0.0)
    return clock - now


class _Transaction:
    def __init__(self, intake: Intake, connection: sa.Connection, now: float) -> None:
        self._connection, self._now = connection, now
        self._series, self._sequences = intake._series, intake._sequences
        self._rows: list[dict[str, Any]] = []
        self._seconds: list[dict[str, Any]] = []
        self._batches: list[dict[str, Any]] = []
        self._agents: dict[int, dict[str, Any]] = {}
        self._fresh: set[int] = set()
        self._used: set[int] = set()  # series

    def all(self, group: list[_Job]) -> None:
        """Every message, then the rows that they gave."""
        for job in group:
            try:
                job.result = self._one(job)
            except Refused as e:
                job.result = e
                if e.status != 429:
                    self._note("refused", job.who.pseudonym, f"{e.status}: {e}")
        self._flush()
        self._check_series()

    def _check_series(self) -> None:
        """That all series are there; where rows have been written nobody can delete them any more
        (PostgreSQL: as they are locked here) before these are seen."""
        used = sorted(self._used)
        for first in range(0, len(used), 500):
            some = used[first : first + 500]
            query = sa.select(series.c.id).where(series.c.id.in_(some)).with_for_update(read=True)
            if len(self._connection.execute(query).all()) < len(some):
                raise _SeriesGone

    def _one(self, job: _Job) -> dict[str, Any]:
        who, message = job.who, job.message
        if isinstance(message, Note):
            self._note(message.what, message.who, message.detail)
            return {}
        if who.fresh and who.token not in self._fresh:
            self._first_use(who)
        if isinstance(message, Rotation):
            token = issue_agent(self._connection, who.pseudonym)
            self._note("token rotated", who.pseudonym, "")
            return {"token": token}
        if isinstance(message, Subscription):
            mine = subscriptions.c.agent == who.agent
            self._connection.execute(subscriptions.delete().where(mine))
            rows = [{"agent": who.agent, "design": d} for d in dict.fromkeys(message.designs)]
            if rows:
                self._connection.execute(subscriptions.insert(), rows)
            self._note("subscribed", who.pseudonym, f"{len(rows)} designs")
            return {"subscribed": len(rows)}
        if self._is_known(job, message):
            return {"duplicate": True}
        skew = _skew(message.sent, job.clock, self._now)
        if abs(skew) > MOST_SKEW:
            raise Refused(422, f"its clock is {skew:.0f} seconds away")
        if isinstance(message, Forget):
            done: dict[str, Any] = {"deleted": self._forget(who, message)}
        else:
            done = {"accepted": self._take(who, message, skew)}
        self._sequences[who.agent] = message.sequence
        self._agents[who.agent] = {
            "row": who.agent,
            "now": self._now,
            "skew": skew,
            "number": message.sequence,
        }
        self._batches.append(
            {
                "agent": who.agent,
                "sequence": message.sequence,
                "batch": message.batch,
                "digest": job.digest,
                "received": self._now,
            }
        )
        return done

    def _first_use(self, who: Who) -> None:
        """A new token works: the agent's older ones end."""
        self._fresh.add(who.token)
        older = tokens.update().where(tokens.c.agent == who.agent, tokens.c.id < who.token)
        self._connection.execute(older.values(revoked=True))
        mine = tokens.update().where(tokens.c.id == who.token)
        self._connection.execute(mine.values(used=True))

    def _is_known(self, job: _Job, message: Batch | Forget) -> bool:
        """Whether it was counted already; raises Refused for a replay under another number."""
        agent = job.who.agent
        last = self._sequences.get(agent)
        if last is None:
            found = sa.select(agents.c.sequence).where(agents.c.id == agent)
            last = self._sequences[agent] = int(self._connection.execute(found).scalar_one())
        if message.sequence > last:
            same = sa.select(batches.c.sequence).where(
                batches.c.agent == agent, batches.c.batch == message.batch
            )
            here = {(b["agent"], b["batch"]) for b in self._batches}
            if (agent, message.batch) in here or self._connection.execute(same).first() is not None:
                raise Refused(409, "its batch has another sequence already")
            return False
        for b in self._batches:
            if b["agent"] == agent and b["sequence"] == message.sequence:
                digest = b["digest"]
                break
        else:
            found = sa.select(batches.c.digest).where(
                batches.c.agent == agent, batches.c.sequence == message.sequence
            )
            digest = self._connection.execute(found).scalar()
        if digest == job.digest:
            return True
        why = "another message" if digest is not None else "no message that is known"
        raise Refused(409, f"sequence {message.sequence} is {why}; the last was {last}", last)

    def _take(self, who: Who, message: Batch, skew: float) -> int:
        shift = round(skew / HOUR) if abs(skew) > SKEW else 0
        latest = int((self._now + SKEW) // HOUR)
        # Whole hours leave up to half an hour of a wrong clock over.
        most = latest + (1 if abs(skew) > SKEW else 0)
        hours = [*(a.hour for a in message.aggregates), *(o.hour for o in message.observed)]
        if any(not latest - AGE <= h - shift <= most for h in hours):
            raise Refused(422, "an hour lies in the future or too far back")
        if shift and (who.agent not in self._agents):
            self._note("clock", who.pseudonym, f"{skew:.0f} s; hours are moved by {-shift}")
        group = message.group or ""
        for a in message.aggregates:
            self._rows.append(
                {
                    "agent": who.agent,
                    "series": self._series_of(a, group),
                    "hour": min(a.hour - shift, latest),
                    "signature": bytes.fromhex(a.signature),
                    "instructions": a.instructions,
                    "cycles": a.cycles,
                    "half_width": a.half_width,
                    "clock_ghz": a.clock_ghz,
                    "weight": a.weight,
                    "distance": a.distance,
                }
            )
        for o in message.observed:
            self._seconds.append(
                {
                    "agent": who.agent,
                    "hour": min(o.hour - shift, latest),
                    "machine_group": group,
                    "seconds": o.seconds,
                }
            )
        return len(message.aggregates)

    def _series_of(self, a: Aggregate, group: str) -> int:
        key = (a.design, a.model, a.model_version, group, a.label or "")
        found = self._series.get(key)
        if found is None:
            names = ("design", "model", "model_version", "machine_group", "label")
            values = dict(zip(names, key, strict=True))
            query = sa.select(series.c.id).where(*(series.c[n] == v for n, v in values.items()))
            found = self._connection.execute(query).scalar()
            if found is None:
                kind = self._kind_of(group, values["label"])
                made = self._connection.execute(series.insert().values(**values, kind=kind))
                (found,) = made.inserted_primary_key or (0,)
            self._series[key] = int(found)
        self._used.add(int(found))
        return int(found)

    def _kind_of(self, group: str, label: str) -> int:
        """The number of a group and label: that of another series of theirs, else one that was
        never given before."""
        pair = (series.c.machine_group == group, series.c.label == label)
        found = self._connection.execute(sa.select(series.c.kind).where(*pair).limit(1)).scalar()
        if found is None:
            made = self._connection.execute(kinds.insert())
            found = (made.inserted_primary_key or (0,))[0] - 1
        return int(found)

    def _forget(self, who: Who, message: Forget) -> int:
        self._flush()  # what came before it in this transaction goes, too
        mine = aggregates.delete().where(aggregates.c.agent == who.agent)
        if message.everything:
            count = self._connection.execute(mine).rowcount
            gone = observed.delete().where(observed.c.agent == who.agent)
            self._connection.execute(gone)
        else:
            count = 0
            raw = [bytes.fromhex(s) for s in message.signatures]
            for start in range(0, len(raw), 500):
                some = aggregates.c.signature.in_(raw[start : start + 500])
                count += self._connection.execute(mine.where(some)).rowcount
        self._note("forgotten", who.pseudonym, f"{count} aggregates")
        return int(count)

    def _note(self, what: str, who: str, detail: str) -> None:
        row = {"at": self._now, "what": what, "who": who, "detail": detail[:400]}
        self._connection.execute(audit.insert().values(**row))

    def _flush(self) -> None:
        for table, rows in (
            (aggregates, self._rows),
            (observed, self._seconds),
            (batches, self._batches),
        ):
            if rows:
                self._connection.execute(table.insert(), rows)
                rows.clear()
        if self._agents:
            self._connection.execute(_SEEN, list(self._agents.values()))
            self._agents.clear()


_SEEN: Final = (
    agents.update()
    .where(agents.c.id == sa.bindparam("row"))
    .values(seen=sa.bindparam("now"), skew=sa.bindparam("skew"), sequence=sa.bindparam("number"))
)
