"""Tokens: an agent's right to report, or a viewer's to look; the database has their hashes alone.

A token has 256 random bits, so that SHA-256 without salt or stretching is enough to hide it.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from tracekit.errors import UsageError
from tracekit.hub.tables import agents, tokens

__all__ = ["Tokens", "Who", "issue_agent", "issue_viewer", "revoke", "revoke_viewers"]

_FORM: Final = re.compile(r"tk([hv])1\.([0-9a-f]{32})\.([A-Za-z0-9_-]{43})")
FRESH: Final = 1.0
"""Seconds for which a token is not looked up again: how long a revoked one may still work."""
MAX_KEPT: Final = 20_000


@dataclass(frozen=True)
class Who:
    """Whose token it is; ``agent`` is its row, 0 for a viewer."""

    token: int
    kind: str
    agent: int
    pseudonym: str
    fresh: bool


def hashed(token: str) -> str:
    """What the database has of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def issue_agent(connection: sa.Connection, pseudonym: str | None = None) -> str:
    """A token of a new agent, or one more of a known one."""
    now = time.time()
    if pseudonym is None:
        pseudonym = secrets.token_hex(16)
        made = connection.execute(agents.insert().values(pseudonym=pseudonym, created=now))
        (agent,) = made.inserted_primary_key or (0,)
    else:
        found = sa.select(agents.c.id).where(agents.c.pseudonym == pseudonym)
        agent = connection.execute(found).scalar()
        if agent is None:
            raise UsageError(f"no agent is called {pseudonym[:40]!r}")
    token = f"tkh1.{pseudonym}.{secrets.token_urlsafe(32)}"
    row = {"hash": hashed(token), "kind": "agent", "agent": agent, "created": now}
    connection.execute(tokens.insert().values(**row))
    return token


def issue_viewer(connection: sa.Connection) -> str:
    """A token with which one may look at the fleet."""
    token = f"tkv1.{secrets.token_hex(16)}.{secrets.token_urlsafe(32)}"
    row = {"hash": hashed(token), "kind": "viewer", "created": time.time()}
    connection.execute(tokens.insert().values(**row))
    return token


def revoke(connection: sa.Connection, name: str) -> int:
    """End all tokens of an agent; how many.  Raises UsageError where there is no such agent."""
    found = sa.select(agents.c.id).where(agents.c.pseudonym == name)
    agent = connection.execute(found).scalar()
    if agent is None:
        raise UsageError(f"no agent is called {name[:40]!r}")
    ended = tokens.update().where(tokens.c.agent == agent, tokens.c.revoked.is_(sa.false()))
    return int(connection.execute(ended.values(revoked=True)).rowcount)


def revoke_viewers(connection: sa.Connection) -> int:
    """End all tokens of viewers; how many."""
    ended = tokens.update().where(tokens.c.kind == "viewer", tokens.c.revoked.is_(sa.false()))
    return int(connection.execute(ended.values(revoked=True)).rowcount)


class Tokens:
    """Whose a token is, by the database; answers are kept for `FRESH` seconds."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._kept: dict[str, tuple[float, Who | None]] = {}
        self._query = (
            sa.select(tokens.c.id, tokens.c.kind, agents.c.id, agents.c.pseudonym, tokens.c.used)
            .select_from(tokens.outerjoin(agents, tokens.c.agent == agents.c.id))
            .where(tokens.c.hash == sa.bindparam("hash"), tokens.c.revoked.is_(sa.false()))
        )

    def who(self, token: str, now: float) -> Who | None:
        """Whose it is; None where it is nobody's, or revoked."""
        if _FORM.fullmatch(token) is None:
            return None
        key = hashed(token)
        until, found = self._kept.get(key, (0.0, None))
        if until - FRESH <= now < until:  # also where the clock was set back
            return found
        with self._engine.connect() as connection:
            row = connection.execute(self._query, {"hash": key}).first()
        found = None
        if row is not None:
            found = Who(row[0], row[1], row[2] or 0, row[3] or "", not row[4])
        if len(self._kept) >= MAX_KEPT:
            self._kept.clear()
        if found is not None:  # those of nobody take no memory
            self._kept[key] = (now + FRESH, found)
        return found

    def forget(self) -> None:
        """Look all up again."""
        self._kept.clear()
