"""The hub as a process: its database, its paths, uvicorn."""

from __future__ import annotations

import ipaddress
import logging
import re
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
import uvicorn

from tracekit.errors import TracekitError, UsageError
from tracekit.hub.application import Hub, Settings
from tracekit.hub.tables import (
    agents,
    aggregates,
    answers,
    audit,
    batches,
    observed,
    open_database,
    series,
)
from tracekit.text import note

__all__ = ["Place", "place_of", "prune", "serve"]

CONNECTIONS: Final = 4096


@dataclass(frozen=True)
class Place:
    """Where the hub listens."""

    host: str
    port: int

    @property
    def local(self) -> bool:
        """Whether this computer alone reaches it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def place_of(text: str) -> Place:
    """HOST:PORT; raises UsageError."""
    host, _, port = text.rpartition(":")
    host = host.strip("[]")
    if not host or not re.fullmatch("[0-9]{1,5}", port) or not int(port) < 1 << 16:
        raise UsageError(f"{text[:80]!r} is not HOST:PORT")
    return Place(host, int(port))


def serve(
    url: str,
    place: Place,
    settings: Settings,
    *,
    certificate: Path | None = None,
    key: Path | None = None,
    keep_days: float | None = None,
    ready: Callable[[int], None] = lambda port: None,
    stop: threading.Event | None = None,
) -> None:
    """Serve until a signal asks to end, or ``stop`` is set; ``ready`` is told the port.  Each hour
    what is older than ``keep_days`` is deleted.

    Raises UsageError where tokens would travel in clear: another computer needs TLS here, or at a
    proxy of this computer, which reaches the hub at 127.0.0.1.
    """
    if certificate is None and not place.local:
        raise UsageError(
            "other computers need TLS",
            hint="--certificate and --key, or --behind-proxy at 127.0.0.1 and a proxy there",
        )
    if (certificate is None) != (key is None):
        raise UsageError("--certificate and --key go together")
    for path in (certificate, key):
        if path is not None and not path.is_file():
            raise TracekitError("is not there", path=str(path))
    if settings.repository is not None and not (settings.repository / "metadata").is_dir():
        raise TracekitError("is no repository", path=str(settings.repository))
    listening = _listening(place)
    engine = open_database(url)
    hub = Hub(engine, settings)
    ended = threading.Event()
    if keep_days is not None:
        aging = threading.Thread(target=_age, args=(engine, hub, keep_days, ended), daemon=True)
        aging.start()
    config = uvicorn.Config(
        hub.application,
        log_level=logging.WARNING,
        access_log=False,
        server_header=False,
        date_header=False,
        lifespan="off",
        backlog=1024,
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=75,
        proxy_headers=False,  # see proxy.py: of several addresses the proxy's own counts
        ssl_certfile=None if certificate is None else str(certificate),
        ssl_keyfile=None if key is None else str(key),
        ws="none",
    )
    server = _Server(config, lambda: ready(listening.getsockname()[1]), stop)
    try:
        server.run(sockets=[listening])
    finally:
        ended.set()
        hub.close()
        listening.close()


def _age(engine: sa.Engine, hub: Hub, days: float, ended: threading.Event) -> None:
    """Delete what is old, at once and each hour after that."""
    while True:
        try:
            if prune(engine, days)["aggregates"]:
                hub.answering.changed()
        except sa.exc.SQLAlchemyError as e:
            note(f"nothing was deleted this hour: {type(e).__name__}")
        if ended.wait(3600):
            return


class _Server(uvicorn.Server):
    """Tells when it listens."""

    def __init__(
        self, config: uvicorn.Config, ready: Callable[[], None], stop: threading.Event | None
    ) -> None:
        super().__init__(config)
        self._ready, self._stop = ready, stop

    async def on_tick(self, counter: int) -> bool:
        """Whether to end; uvicorn asks ten times a second."""
        ended = self._stop is not None and self._stop.is_set()
        return bool(await super().on_tick(counter)) or ended

    async def startup(self, sockets: Any = None) -> None:
        """As uvicorn's, and then the word."""
        await super().startup(sockets=sockets)
        if self.started:
            self._ready()


def _listening(place: Place) -> socket.socket:
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((place.host, place.port))
        made.listen(1024)
    except OSError as e:
        made.close()
        where = f"{place.host}:{place.port}"
        raise TracekitError(f"cannot listen: {e.strerror}", path=where) from None
    return made


def prune(engine: sa.Engine, days: float, *, now: float | None = None) -> dict[str, int]:
    """Delete what is older than so many days: aggregates, observations, answers, the log, and
    what tells repeated messages, of which the agents' last sequences stay; then the series, with
    their groups and labels, that no aggregate has any more.  How many rows of each.
    """
    then = (time.time() if now is None else now) - days * 86_400
    done = {}
    with engine.begin() as connection:
        for name, table, old in (
            ("aggregates", aggregates, aggregates.c.hour < then // 3600),
            ("observed", observed, observed.c.hour < then // 3600),
            ("batches", batches, batches.c.received < then),
            ("answers", answers, answers.c.at < then),
            ("audit", audit, audit.c.at < then),
        ):
            done[name] = int(connection.execute(table.delete().where(old)).rowcount)
        row = {"at": time.time(), "what": "pruned", "who": "", "detail": f"before {days:g} days"}
        connection.execute(audit.insert().values(**row))
    done["series"] = _drop_series(engine)
    return done


def _drop_series(engine: sa.Engine) -> int:
    """Delete series that are not in use; how many.  The long look at all aggregates locks nothing;
    what came since has larger numbers.  Intake checks its series when its rows are written."""
    with engine.connect() as connection:
        last = connection.execute(sa.select(sa.func.max(aggregates.c.id))).scalar() or 0
        query = sa.select(aggregates.c.series).where(aggregates.c.id <= last).distinct()
        used = set(connection.execute(query).scalars())
        every = connection.execute(sa.select(series.c.id)).scalars().all()
    unused = [number for number in every if number not in used]
    newer = sa.select(aggregates.c.series).where(aggregates.c.id > last)
    count = 0
    for first in range(0, len(unused), 500):
        with engine.begin() as connection:
            if connection.dialect.name == "postgresql":  # SQLite has one writer at a time
                connection.execute(sa.text("LOCK TABLE series IN EXCLUSIVE MODE"))
            some = series.c.id.in_(unused[first : first + 500])
            gone = series.delete().where(some, series.c.id.not_in(newer))
            count += int(connection.execute(gone).rowcount)
    return count


def status(engine: sa.Engine) -> dict[str, Any]:
    """How many rows of each there are, and when an agent was last seen."""
    count = sa.func.count()
    with engine.connect() as connection:
        numbers = {
            table.name: int(connection.execute(sa.select(count).select_from(table)).scalar_one())
            for table in (agents, aggregates, batches, observed, audit)
        }
        seen = connection.execute(sa.select(sa.func.max(agents.c.seen))).scalar()
    return {**numbers, "last_seen": seen}
