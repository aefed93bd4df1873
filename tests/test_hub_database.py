"""The hub's database: its schemas, who may read it, and what is told where it cannot be used."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy", reason="needs the extra hub")
pytest.importorskip("alembic", reason="needs the extra hub")
pytest.importorskip("starlette", reason="needs the extra hub")
pytest.importorskip("uvicorn", reason="needs the extra hub")
pytest.importorskip("jinja2", reason="needs the extra hub")

import sqlalchemy as sa

import tracekit.hub
from tests.hub_process import batch_of, running, tokens
from tracekit.cli.main import main
from tracekit.errors import TracekitError, UsageError
from tracekit.fleet import HubClient, HubError
from tracekit.hub import open_database
from tracekit.hub.tables import METADATA
from tracekit.hub.tokens import issue_agent


def test_the_database_moves_to_this_schema(tmp_path: Path) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.runtime.migration import MigrationContext

    engine = open_database(str(tmp_path / "h.db"))
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []
        assert connection.execute(sa.text("pragma synchronous")).scalar() == 2
        assert connection.execute(sa.text("pragma journal_mode")).scalar() == "wal"
    with engine.begin() as connection:
        connection.execute(sa.text("update alembic_version set version_num = '9999'"))
    engine.dispose()
    with pytest.raises(TracekitError, match="newer tracekit"):
        open_database(str(tmp_path / "h.db"))


def schema_of(path: Path) -> list[str]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        found = connection.execute("select sql from sqlite_master where sql is not null")
        return sorted(" ".join(s.replace('"', "").split()) for (s,) in found)


def test_a_database_of_the_first_schema(tmp_path: Path) -> None:
    """Its rows stay, with their indices; numbers of rows that are gone are not given again."""
    from alembic import command
    from alembic.config import Config

    path = tmp_path / "old.db"
    config = Config()
    config.set_main_option(
        "script_location", str(Path(tracekit.hub.__file__).parent / "migrations")
    )
    old = sa.create_engine(f"sqlite:///{path}")
    with old.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        connection.execute(sa.text("insert into releases values (1, 0.0, 700, 80)"))
        for n in (3, 9):
            row = f"({n}, 1, 2, 3, x'00', 4, 5.0, 6.0, 7.0, 8.0, null)"
            connection.execute(sa.text(f"insert into aggregates values {row}"))
        for n, label in ((7, "late"), (8, ""), (9, "late")):
            series_ = f"insert into series values ({n}, 'd{n}', 'm', '1', '', '{label}')"
            connection.execute(sa.text(series_))
    old.dispose()
    open_database(str(path)).dispose()
    open_database(str(tmp_path / "new.db")).dispose()
    assert schema_of(path) == schema_of(tmp_path / "new.db")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("select id, weight from aggregates").fetchall() == [
            (3, 8.0), (9, 8.0)
        ]  # fmt: skip
        numbers = dict(connection.execute("select id, kind from series"))
        assert numbers == {7: 0, 8: 1, 9: 0}, "as they were counted when answers were kept"
        connection.execute("delete from series")
        last = dict(connection.execute("select name, seq from sqlite_sequence"))
    assert last == {"aggregates": 700, "observed": 80, "series": 9, "kinds": 2}


def test_what_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "no.db").write_bytes(b"nothing of the kind" * 100)
    with pytest.raises(TracekitError, match="no database of a hub"):
        open_database(str(tmp_path / "no.db"))
    with pytest.raises(UsageError, match="neither a file nor"):
        open_database("mysql://x")
    with contextlib.closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("create table agents (x)")
    with pytest.raises(TracekitError, match="cannot be used: table agents already exists"):
        open_database(str(tmp_path / "other.db"))


def test_what_the_database_cannot_do_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = str(tmp_path / "h.db")
    assert main(["hub", "token", database]) == 0
    with contextlib.closing(sqlite3.connect(database)) as other:
        other.execute("drop table tokens")
    assert main(["hub", "token", database]) == 1
    assert "h.db: cannot be used: no such table: tokens" in capsys.readouterr().err
    (token,) = tokens(str(tmp_path / "served.db"), 1)
    with running(tmp_path / "served.db") as process, HubClient(process.url, token) as client:
        with contextlib.closing(sqlite3.connect(tmp_path / "served.db")) as other:
            other.execute("drop table tokens")
        with pytest.raises(HubError) as refused:
            client.send(batch_of(token.agent, 1))
    assert (refused.value.status, refused.value.retry_after) == (503, 10.0)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://u:secret@host:port/x",
        "postgresql+psycopg:u:secret@x",
        "postgresql+psycopg://u:secret@[::1/x",
        "postgresql+psycopg://u:secret@/x?host=/nowhere",
        "postgresql+psycopg://u@/x?host=/nowhere&password=secret",
    ],
)
def test_no_message_has_the_password(url: str) -> None:
    pytest.importorskip("psycopg", reason="needs the extra postgresql")
    with pytest.raises(TracekitError) as refused:
        open_database(url)
    assert "secret" not in str(refused.value)


def test_the_database_is_for_its_user_alone(tmp_path: Path) -> None:
    engine = open_database(str(tmp_path / "h.db"))
    with engine.begin() as connection:
        issue_agent(connection)
        assert {p.name: p.stat().st_mode & 0o777 for p in tmp_path.iterdir()} == {
            "h.db": 0o600, "h.db-wal": 0o600, "h.db-shm": 0o600
        }  # fmt: skip
    engine.dispose()
