"""What leaves the computer: batches of aggregates, in a queue on disk until the hub has them.

A batch is made in one transaction that takes its weights out of what is unsent, and keeps its
number, its name and its bytes until it is acknowledged.  So an outage, a kill or a lost answer
neither loses a weight nor counts one twice.  Where the queue is full no batches are made; weights
add up by signature and hour meanwhile, which takes little room.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import random
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from tracekit.agent.log import Log
from tracekit.agent.policy import Policy
from tracekit.agent.state import State
from tracekit.agent.vault import MAX_KEY
from tracekit.errors import FormatError, TracekitError
from tracekit.fleet.client import HubClient, HubError, Token
from tracekit.fleet.messages import (
    MAX_AGGREGATES,
    MAX_OBSERVED,
    Aggregate,
    Batch,
    Forget,
    Observed,
    Subscription,
    parse_batch,
    parse_forget,
)
from tracekit.io.files import read_private

__all__ = ["Reporter", "enqueue_everything", "enqueue_forget", "make_batch"]

FIRST_WAIT, LONGEST_WAIT = 30.0, 3600.0
LEAST: Final = 1e-9
"""Weights below that are not sent: the protocol has none."""
MAX_FORGOTTEN: Final = 2000


def keyed(signature: str, key: bytes) -> str:
    """The signature as the hub sees it."""
    return hmac.new(key, signature.encode(), hashlib.sha256).hexdigest()


def fleet_key(path: str) -> bytes:
    """The key that the fleet's agents share: 32 bytes or more, which nobody else may read.  White
    space around a key that is text does not count, so that an editor's last line break is none;
    in random bytes it does."""
    key = read_private(path, MAX_KEY)
    with contextlib.suppress(UnicodeDecodeError):
        if "".join(key.decode().split()).isprintable():
            key = key.strip()
    if len(key) < 32:
        raise TracekitError("is shorter than 32 bytes", path=path)
    return key


def _sequence(state: State) -> int:
    number = int(state.setting("sequence", "0")) + 1
    state.keep("sequence", str(number))
    return number


def make_batch(state: State, policy: Policy, agent: str, key: bytes, now: float) -> bool:
    """Put what is unsent into the queue, at most a batch of it; False where there is nothing."""
    # what the hub has must not come back as unsent after a power failure
    with state.transaction(durable=True) as db:
        rows = db.execute(
            "SELECT u.signature, u.hour, u.weight, s.instructions, programs.executable"
            " FROM unsent u JOIN signatures s USING (signature)"
            " JOIN programs ON programs.id = s.program"
            " WHERE EXISTS (SELECT 1 FROM predictions p WHERE p.signature = u.signature)"
            " AND u.weight >= ? ORDER BY u.hour LIMIT ?",
            (LEAST, MAX_AGGREGATES),
        ).fetchall()
        aggregates: list[Aggregate] = []
        for signature, hour, weight, instructions, executable in rows:
            found = db.execute(
                "SELECT design, model, model_version, cycles, half, clock_ghz, distance"
                " FROM predictions WHERE signature = ? ORDER BY design",
                (signature,),
            ).fetchall()
            if len(aggregates) + len(found) > MAX_AGGREGATES:
                break
            aggregates += [
                Aggregate(design=d, model=m, model_version=v, signature=keyed(signature, key),
                          hour=hour, instructions=instructions, cycles=c, half_width=h,
                          weight=weight, clock_ghz=g, distance=x,
                          label=policy.label(executable))
                for d, m, v, c, h, g, x in found
            ]  # fmt: skip
            db.execute("DELETE FROM unsent WHERE signature = ? AND hour = ?", (signature, hour))
        seen = db.execute(
            "SELECT hour, unsent FROM observed WHERE unsent > 0 ORDER BY hour LIMIT ?",
            (MAX_OBSERVED,),
        ).fetchall()
        if not aggregates and not seen:
            return False
        for hour, _ in seen:
            db.execute("UPDATE observed SET unsent = 0 WHERE hour = ?", (hour,))
        number = _sequence(state)
        batch = Batch(
            agent, os.urandom(16).hex(), number, now, tuple(aggregates),
            tuple(Observed(h, s) for h, s in seen), policy.group or None,
        )  # fmt: skip
        body = batch.to_bytes()
        parse_batch(body)  # the hub would refuse what this refuses
        db.execute("INSERT INTO queue (sequence, kind, body) VALUES (?, 'batch', ?)",
                   (number, body))  # fmt: skip
    return True


def enqueue_forget(state: State, agent: str, key: bytes, signatures: list[str], now: float) -> int:
    """Ask the hub to forget signatures, too, also those of batches that are in the queue; how many
    requests that takes."""
    hidden = {keyed(s, key) for s in signatures}
    with state.transaction(durable=True) as db:
        for number, body in db.execute(
            "SELECT sequence, body FROM queue WHERE kind = 'batch'"
        ).fetchall():
            batch = parse_batch(body)
            left = tuple(a for a in batch.aggregates if a.signature not in hidden)
            if len(left) < len(batch.aggregates):
                new = Batch(batch.agent, batch.batch, batch.sequence, batch.sent, left,
                            batch.observed, batch.group)  # fmt: skip
                db.execute("UPDATE queue SET body = ? WHERE sequence = ?", (new.to_bytes(), number))
        names = sorted(hidden)
        for begin in range(0, len(names), MAX_FORGOTTEN):
            number = _sequence(state)
            part = tuple(names[begin : begin + MAX_FORGOTTEN])
            request = Forget(agent, os.urandom(16).hex(), number, now, part)
            db.execute("INSERT INTO queue (sequence, kind, body) VALUES (?, 'forget', ?)",
                       (number, request.to_bytes()))  # fmt: skip
    return -(-len(names) // MAX_FORGOTTEN)


def enqueue_everything(state: State, agent: str, now: float) -> None:
    """Ask the hub to forget all that this agent has sent; what waits to be sent is dropped."""
    with state.transaction(durable=True) as db:
        db.execute("DELETE FROM queue")
        number = _sequence(state)
        request = Forget(agent, os.urandom(16).hex(), number, now, everything=True)
        db.execute("INSERT INTO queue (sequence, kind, body) VALUES (?, 'forget', ?)",
                   (number, request.to_bytes()))  # fmt: skip


def renumber(state: State, last: int) -> bool:
    """Give the messages that wait sequences above ``last``, which the hub has of this agent: the
    state that knew them is lost.  False where all of them are above it already."""
    with state.transaction(durable=True) as db:
        rows = db.execute(
            "SELECT sequence, kind, body FROM queue ORDER BY sequence DESC"
        ).fetchall()
        if not rows or rows[-1][0] > last:
            return False
        shift = last + 1 - rows[-1][0]
        for number, kind, body in rows:  # the largest first: no two have one number meanwhile
            parse = parse_batch if kind == "batch" else parse_forget
            with contextlib.suppress(FormatError):  # which sending it tells
                body = replace(parse(bytes(body)), sequence=number + shift).to_bytes()
            db.execute("UPDATE queue SET sequence = ?, body = ? WHERE sequence = ?",
                       (number + shift, body, number))  # fmt: skip
        state.keep("sequence", str(int(state.setting("sequence", "0")) + shift))
    return True


class Reporter:
    """Makes batches every ``report_minutes`` and sends the queue in its order."""

    def __init__(
        self,
        policy: Policy,
        state: State,
        token: Token,
        key: bytes,
        log: Log,
        connect: Callable[[], HubClient] | None = None,
    ) -> None:
        self.policy, self.state, self.token, self.key, self.log = policy, state, token, key, log
        self._connect = connect or self._client
        self._made = 0.0
        self._tried = self._due = 0.0
        self._wait = FIRST_WAIT
        self._renumbered = False
        self._random = random.Random()

    def _client(self) -> HubClient:
        p = self.policy
        return HubClient(p.url, self.token, authority=p.authority or None, timeout=10.0)

    def step(self, now: float) -> None:
        """What is due."""
        # Where the clock was set back nothing waits until it is that late again.
        if not 0 <= now - self._made < 60 * self.policy.report_minutes:
            self._made = now
            while self._queued() < 1e6 * self.policy.queue_mb:
                if not make_batch(self.state, self.policy, self.token.agent, self.key, now):
                    break
        if not self._tried <= now < self._due:
            self.send(now)

    def _queued(self) -> int:
        return int(
            self.state.db.execute("SELECT coalesce(sum(length(body)), 0) FROM queue").fetchone()[0]
        )

    def send(self, now: float) -> int:
        """Everything in the queue, until the hub does not answer; how many messages it has
        taken."""
        self._tried = now
        designs = "\n".join(self.policy.designs)
        subscribed = self.state.setting("subscribed") == designs
        if self._next(0) is None and subscribed:
            return 0
        done = number = 0
        self._renumbered = False
        try:
            with self._connect() as client:
                if not subscribed:
                    client.subscribe(Subscription(self.token.agent, now, self.policy.designs))
                    self.state.keep("subscribed", designs)
                while (row := self._next(number)) is not None:
                    number = row[0]
                    done += self._one(client, *row)
        except HubError as e:
            self._later(now, e)
        else:
            self._wait, self._due = FIRST_WAIT, now
            self.state.keep("hub_error", "")
        if done:
            self.log("reported", messages=done)
        return done

    def _next(self, after: int) -> tuple[int, str, bytes] | None:
        """The first message of the queue with a larger sequence: its sequence, kind and body."""
        row = self.state.db.execute(
            "SELECT sequence, kind, body FROM queue WHERE sequence > ? ORDER BY sequence LIMIT 1",
            (after,),
        ).fetchone()
        return None if row is None else (int(row[0]), str(row[1]), bytes(row[2]))

    def _one(self, client: HubClient, number: int, kind: str, body: bytes) -> bool:
        """Whether the hub has taken it; where it is to be sent under another number it waits
        there."""
        taken = False
        try:
            if kind == "batch":
                client.send(parse_batch(body))
            else:
                client.forget(parse_forget(body))
            taken = True
        except HubError as e:
            replayed = e.status == 409 and e.last is not None and e.last >= number
            if replayed and not self._renumbered:
                self._renumbered = renumber(self.state, e.last or 0)
                self.log("numbered anew", after=e.last)
                return False
            # Of two agents with one token each makes the other's numbers too small.
            if replayed or e.status not in (400, 409, 413, 422):
                self.state.db.execute(
                    "UPDATE queue SET attempts = attempts + 1 WHERE sequence = ?", (number,)
                )
                raise
            # It would be refused for ever, and all behind it would wait.
            self.state.count(f"message refused ({e.status})")
            self.log("message refused", status=e.status, message=str(e))
        except FormatError as e:
            self.state.count("message damaged")
            self.log("message damaged", message=str(e))
        self.state.db.execute("DELETE FROM queue WHERE sequence = ?", (number,))
        return taken

    def _later(self, now: float, e: HubError) -> None:
        wait = LONGEST_WAIT if e.retry_after is None else max(e.retry_after, self._wait)
        self._wait = min(2 * self._wait, LONGEST_WAIT)
        wait = min(wait, LONGEST_WAIT) * self._random.uniform(0.5, 1.0)
        self._due = now + wait
        event = "token refused" if e.status in (401, 403) else "hub not reached"
        self.state.keep("hub_error", f"{event}: {e}")
        self.log(event, status=e.status, message=str(e), again_in_s=round(wait))


def totals_of(state: State) -> dict[str, Any]:
    """What waits to be sent."""
    messages, size, attempts = state.db.execute(
        "SELECT count(*), coalesce(sum(length(body)), 0), coalesce(max(attempts), 0) FROM queue"
    ).fetchone()
    return {"messages": messages, "bytes": size, "attempts": attempts, "now": time.time()}
