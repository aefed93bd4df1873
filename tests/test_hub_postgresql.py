"""The hub on PostgreSQL: a server of the distribution's package, as its own user."""

from __future__ import annotations

import getpass
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy", reason="needs the extra hub")
pytest.importorskip("alembic", reason="needs the extra hub")
pytest.importorskip("starlette", reason="needs the extra hub")
pytest.importorskip("uvicorn", reason="needs the extra hub")
pytest.importorskip("jinja2", reason="needs the extra hub")
try:
    import psycopg  # noqa: F401
except ImportError:  # it is there, and no libpq
    pytest.skip("needs the extra postgresql", allow_module_level=True)

import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext

import tracekit.hub
from tests.hub_process import batch_of, running, tokens
from tracekit.fleet import Forget, HubClient
from tracekit.hub import Answering, Question, open_database, prune, status
from tracekit.hub.tables import METADATA, series


def programs() -> Path | None:
    """The folder of initdb and postgres."""
    places = [*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
    if (found := shutil.which("initdb")) is not None:
        places.append(Path(found).resolve().parent)
    return next((p for p in places if (p / "initdb").exists()), None)


@pytest.fixture(scope="module")
def url():
    found = programs()
    if found is None:
        pytest.skip("no postgresql")
    user = getpass.getuser()
    if os.getuid() == 0:  # which postgres refuses to be
        try:
            user = pwd.getpwnam("postgres").pw_name
        except KeyError:
            try:
                user = pwd.getpwnam("nobody").pw_name
            except KeyError:
                pytest.skip("no user for postgres")
    as_user = {"user": user} if os.getuid() == 0 else {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if os.getuid() == 0:
            shutil.chown(folder, user)
        log = folder / "log"
        made = subprocess.run(
            [found / "initdb", "-D", folder / "data", "-U", "hub", "-A", "trust", "-N"],
            capture_output=True,
            cwd=folder,
            check=False,
            **as_user,
        )
        if made.returncode != 0:
            pytest.skip(f"initdb: {made.stderr.decode()[-200:]}")
        options = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={folder}"]
        with log.open("wb") as out:
            server = subprocess.Popen(
                [found / "postgres", "-D", folder / "data", *options],
                stdout=out,
                stderr=out,
                cwd=folder,
                **as_user,
            )
        try:
            until = time.monotonic() + 30
            while "ready to accept connections" not in log.read_text():
                assert server.poll() is None and time.monotonic() < until, log.read_text()
                time.sleep(0.05)
            yield f"postgresql+psycopg://hub@/postgres?host={folder}"
        finally:
            server.terminate()
            server.wait(30)


def test_the_hub_on_postgresql(url: str) -> None:
    made = tokens(url, 6)
    with running(url, "--burst", "100", "--release-minutes", "0") as process:
        for token in made:
            with HubClient(process.url, token) as client:
                batch = batch_of(token.agent, 1, count=40)
                assert client.send(batch) == {"accepted": 40}
                assert client.send(batch) == {"duplicate": True}
    engine = open_database(url)
    assert status(engine)["aggregates"] == 240
    answer = Answering(engine, interval=0.0).ask(Question())
    assert answer["best"] == "ns_8w" and answer["agents"] == 6
    with running(url) as process, HubClient(process.url, made[0]) as client:
        request = Forget(made[0].agent, "f" * 32, 2, time.time(), everything=True)
        assert client.forget(request) == {"deleted": 40}
    assert prune(engine, -1)["aggregates"] == 200
    engine.dispose()


@pytest.mark.parametrize("schema", ["0001", "0002"])
def test_an_older_schema_moves_to_this_one(url: str, schema: str) -> None:
    """Pairs of group and label are numbered by their first series, and numbers go on from there."""
    whole = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    with whole.connect() as connection:
        connection.execute(sa.text(f"CREATE DATABASE old{schema}"))
    whole.dispose()
    url = url.replace("/postgres?", f"/old{schema}?")
    config = Config()
    migrations = Path(tracekit.hub.__file__).parent / "migrations"
    config.set_main_option("script_location", str(migrations))
    old = sa.create_engine(url)
    with old.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, schema)
        for design, group, label in (("a", "g", "x"), ("a", "g", ""), ("b", "g", "x")):
            names = "design, model, model_version, machine_group, label"
            values = f"'{design}', 'm', '1', '{group}', '{label}'"
            connection.execute(sa.text(f"INSERT INTO series ({names}) VALUES ({values})"))
    old.dispose()
    engine = open_database(url)
    with engine.connect() as connection:
        assert not compare_metadata(MigrationContext.configure(connection), METADATA)
        query = sa.select(series.c.kind).order_by(series.c.id)
        assert connection.execute(query).scalars().all() == [0, 1, 0]
    token = tokens(url, 1)[0]
    with running(url) as process, HubClient(process.url, token) as client:
        assert client.send(batch_of(token.agent, 1, group="new")) == {"accepted": 2}
    with engine.connect() as connection:
        assert connection.execute(query).scalars().all() == [0, 1, 0, 2, 2]
    engine.dispose()
