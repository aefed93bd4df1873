"""The hub's tables, and the database that holds them: SQLite, or PostgreSQL by its URL."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from tracekit.errors import FormatError, TracekitError, UsageError

__all__ = [
    "METADATA",
    "agents",
    "aggregates",
    "answers",
    "audit",
    "batches",
    "database_errors",
    "kinds",
    "observed",
    "open_database",
    "releases",
    "series",
    "subscriptions",
    "tokens",
]

METADATA: Final = sa.MetaData()
_Big = sa.BigInteger().with_variant(sa.Integer(), "sqlite")  # SQLite numbers rows by INTEGER alone

#: One row a computer.  ``sequence``: of its last message; ``skew``: its clock less ours, seconds.
agents = sa.Table(
    "agents",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("pseudonym", sa.String(32), nullable=False, unique=True),
    sa.Column("created", sa.Float, nullable=False),
    sa.Column("seen", sa.Float),
    sa.Column("skew", sa.Float, nullable=False, server_default="0"),
    sa.Column("sequence", sa.BigInteger, nullable=False, server_default="0"),
)
#: ``hash``: SHA-256 of the whole token; ``kind``: agent or viewer; ``expires``: None, or when.
tokens = sa.Table(
    "tokens",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("hash", sa.String(64), nullable=False, unique=True),
    sa.Column("kind", sa.String(8), nullable=False),
    sa.Column("agent", sa.Integer, sa.ForeignKey("agents.id", ondelete="CASCADE")),
    sa.Column("created", sa.Float, nullable=False),
    sa.Column("used", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("revoked", sa.Boolean, nullable=False, server_default=sa.false()),
)
subscriptions = sa.Table(
    "subscriptions",
    METADATA,
    sa.Column("agent", sa.Integer, sa.ForeignKey("agents.id"), primary_key=True),
    sa.Column("design", sa.String(64), primary_key=True),
)
#: Messages that were counted: what makes a second one of the same number a duplicate.
batches = sa.Table(
    "batches",
    METADATA,
    sa.Column("agent", sa.Integer, sa.ForeignKey("agents.id"), primary_key=True),
    sa.Column("sequence", sa.BigInteger, primary_key=True),
    sa.Column("batch", sa.String(32), nullable=False),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("received", sa.Float, nullable=False),
    sa.UniqueConstraint("agent", "batch"),
)
#: Numbers of pairs of group and label that were given, which ``cells`` of answers have (less 1).
#: They have no names, stay when a pair is gone, and are not given again.
kinds = sa.Table(
    "kinds", METADATA, sa.Column("id", sa.Integer, primary_key=True), sqlite_autoincrement=True
)
#: What aggregates share; "" is none of a group or label.  ``kind``: the number of these two.  Rows
#: that no aggregate has any more are deleted (serving.py).
series = sa.Table(
    "series",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("design", sa.String(64), nullable=False),
    sa.Column("model", sa.String(64), nullable=False),
    sa.Column("model_version", sa.String(64), nullable=False),
    sa.Column("machine_group", sa.String(64), nullable=False),
    sa.Column("label", sa.String(64), nullable=False),
    sa.Column("kind", sa.Integer, nullable=False, server_default="0"),
    sa.UniqueConstraint("design", "model", "model_version", "machine_group", "label"),
    sqlite_autoincrement=True,
)
aggregates = sa.Table(
    "aggregates",
    METADATA,
    sa.Column("id", _Big, primary_key=True),
    sa.Column("agent", sa.Integer, nullable=False),
    sa.Column("series", sa.Integer, nullable=False),
    sa.Column("hour", sa.Integer, nullable=False),
    sa.Column("signature", sa.LargeBinary(32), nullable=False),
    sa.Column("instructions", sa.BigInteger, nullable=False),
    sa.Column("cycles", sa.Float, nullable=False),
    sa.Column("half_width", sa.Float, nullable=False),
    sa.Column("clock_ghz", sa.Float, nullable=False),
    sa.Column("weight", sa.Float, nullable=False),
    sa.Column("distance", sa.Float),
    sqlite_autoincrement=True,  # a release ends at a number: no later row may have a smaller one
)
observed = sa.Table(
    "observed",
    METADATA,
    sa.Column("id", _Big, primary_key=True),
    sa.Column("agent", sa.Integer, nullable=False),
    sa.Column("hour", sa.Integer, nullable=False),
    sa.Column("machine_group", sa.String(64), nullable=False),
    sa.Column("seconds", sa.Float, nullable=False),
    sqlite_autoincrement=True,
)
#: Up to which row of aggregates and observed answers go; a release lets in k agents or more.
releases = sa.Table(
    "releases",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("at", sa.Float, nullable=False),
    sa.Column("last", sa.BigInteger, nullable=False),
    sa.Column("last_observed", sa.BigInteger, nullable=False),
)
#: What was shown, and of whom: ``cells`` is what a later answer is compared with (privacy.py).
answers = sa.Table(
    "answers",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("query", sa.String(600), nullable=False),
    sa.Column("release", sa.Integer, nullable=False),
    sa.Column("at", sa.Float, nullable=False),
    sa.Column("cells", sa.LargeBinary, nullable=False),
    sa.Column("answer", sa.LargeBinary, nullable=False),
    sa.UniqueConstraint("query", "release"),
)
audit = sa.Table(
    "audit",
    METADATA,
    sa.Column("id", _Big, primary_key=True),
    sa.Column("at", sa.Float, nullable=False),
    sa.Column("what", sa.String(32), nullable=False),
    sa.Column("who", sa.String(64), nullable=False),
    sa.Column("detail", sa.String(400), nullable=False),
)
sa.Index("aggregates_hour", aggregates.c.hour)
sa.Index("aggregates_agent", aggregates.c.agent)
sa.Index("audit_at", audit.c.at)

_MIGRATIONS: Final = Path(__file__).parent / "migrations"


def open_database(url: str, *, new: bool = True) -> sa.Engine:
    """A database whose schema is brought to this version: the path of a SQLite file, or a URL
    ``postgresql+psycopg://...``.  ``new``: a file that is not there is made, with mode 0600.

    Raises UsageError for another URL, TracekitError where it cannot be opened or is of a newer
    tracekit.
    """
    if url.startswith("postgresql+psycopg:"):
        try:
            engine = sa.create_engine(url, pool_pre_ping=True)
        except (sa.exc.ArgumentError, ValueError):  # which show the password
            raise UsageError(
                "is no URL postgresql+psycopg://USER@HOST/NAME", path=url.split(":")[0]
            ) from None
    elif "://" in url:
        scheme = url.split(":")[0]
        raise UsageError("is neither a file nor a URL postgresql+psycopg://", path=scheme)
    else:
        if not new and not Path(url).exists():
            raise TracekitError("no such file", path=url)
        with contextlib.suppress(OSError):  # which SQLite tells
            os.close(os.open(url, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        place = f"sqlite:///{Path(url).absolute()}"
        engine = sa.create_engine(place, connect_args={"timeout": 30})
        sa.event.listen(engine, "connect", _durable)
    try:
        with database_errors(url):
            _migrate(engine)
    except TracekitError:
        engine.dispose()
        raise
    return engine


@contextlib.contextmanager
def database_errors(url: str) -> Iterator[None]:
    """Errors of the database as `TracekitError`, which has its name without a password."""
    try:
        yield
    except sa.exc.SQLAlchemyError as e:
        cause = str(getattr(e, "orig", None) or e).split("\n")[0]
        # a disk that is full, a server that is away, another process that holds it
        passing = isinstance(e, sa.exc.OperationalError)
        what = "cannot be used" if passing else "no database of a hub"
        raise TracekitError(f"{what}: {cause}", path=_public(url)) from None


def _public(url: str) -> str:
    """What a message may show of it: no password, which may stand among the options, too."""
    return url if "://" not in url else str(sa.engine.make_url(url).set(query={}))


def _durable(connection: Any, _: object) -> None:
    """Write-ahead log, synced at each commit: what is committed outlasts a power failure."""
    for line in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "cache_size=-32000"):
        connection.execute(f"PRAGMA {line}")


def _migrate(engine: sa.Engine) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    with engine.begin() as connection:
        found = MigrationContext.configure(connection).get_current_revision()
        scripts = ScriptDirectory.from_config(config)
        if found == scripts.get_current_head():
            return
        if found is not None and found not in {s.revision for s in scripts.walk_revisions()}:
            path = _public(str(engine.url))
            raise FormatError(f"is of a newer tracekit (schema {found})", path=path)
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
