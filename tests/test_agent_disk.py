"""An agent whose disk is full: what it was told to do waits, and nothing is lost."""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import sqlite3
import threading

import pytest

pytest.importorskip("psutil", reason="needs the extra agent")
pytest.importorskip("cryptography", reason="needs the extra agent")

from tracekit.agent import disk, running, schema, service
from tracekit.agent import state as state_module
from tracekit.agent.log import Log
from tracekit.agent.policy import Policy
from tracekit.agent.service import Agent
from tracekit.agent.simulated import Program, SimulatedComputer
from tracekit.agent.state import State
from tracekit.errors import TracekitError

DESIGNS = {"ns_8w": (2.0, 0.7), "ns_rob": (3.0, 0.9)}


@pytest.fixture
def agent(tmp_path):
    policy = Policy(
        state=str(tmp_path / "state"), designs=tuple(DESIGNS), cpu=0.05, keep_traces=True
    )
    programs = [Program("/usr/bin/one", 0.5, 4, 1e6), Program("/usr/bin/other", 0.2, 2, 1e6)]
    host = SimulatedComputer(programs, DESIGNS, seed=3, begin=1.8e9, trace_bytes=2000)
    with State(policy.folder) as state:
        yield Agent(policy, state, host, Log(io.StringIO()), seed=5)


def turn(agent: Agent, seconds: float) -> None:
    end = agent.host.now() + seconds
    while agent.host.now() < end:
        agent.step()
        agent.host.sleep(agent.policy.scan_seconds)


def total(agent: Agent, what: str, table: str = "programs") -> float:
    return agent.state.db.execute(f"SELECT coalesce(sum({what}), 0) FROM {table}").fetchone()[0]


def waits(agent: Agent) -> list[str | None]:
    events = [json.loads(line) for line in agent.log._to.getvalue().splitlines()]
    return [e.get("why") for e in events if e["event"] in ("waits", "goes on")]


@pytest.fixture(params=["database", "trace"])
def full(request, monkeypatch):
    """A switch: is the disk full, so that neither a row nor a trace can be written?"""
    now = {"is": False}
    transaction, write = State.transaction, service.write_bytes

    def no_row(self, **more):
        if now["is"] and request.param == "database":
            raise sqlite3.OperationalError("database or disk is full")
        return transaction(self, **more)

    def no_file(*arguments, **more):
        if now["is"]:
            try:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            except OSError as e:
                raise TracekitError(f"cannot write: {e.strerror}", path="x") from None
        return write(*arguments, **more)

    monkeypatch.setattr(State, "transaction", no_row)
    monkeypatch.setattr(service, "write_bytes", no_file)
    return now


def test_a_full_disk_is_waited_for(agent, full):
    turn(agent, 1800)
    agent.flush()
    seen, epochs = total(agent, "observed"), total(agent, "epochs")
    full["is"] = True
    turn(agent, 1800)
    assert total(agent, "epochs") == epochs
    full["is"] = False
    turn(agent, 1800)
    agent.flush()
    assert total(agent, "observed") == pytest.approx(3 * seen, rel=0.2), "what ran meanwhile, too"
    assert total(agent, "epochs") > epochs
    assert waits(agent)[0] == "disk full" and waits(agent)[-1] is None


def test_no_epoch_is_taken_where_little_is_free(agent, monkeypatch):
    monkeypatch.setattr(State, "room", lambda _: service.ROOM - 1)
    turn(agent, 1800)
    agent.flush()
    assert total(agent, "observed") > 0 and total(agent, "epochs") == 0
    assert total(agent, "epochs + predictions", "spent") == 0
    assert waits(agent) == ["disk full"]


@pytest.fixture
def starting(tmp_path, monkeypatch):
    """What an agent does that starts on a disk that is full: ``start`` with what its state says,
    time by time; what it made of the policy's seconds."""
    policy = Policy(state=str(tmp_path / "s"), designs=tuple(DESIGNS), scan_seconds=0.2)
    log = Log(io.StringIO())

    def start(*says: str, seconds: float | None = None):
        errors = [sqlite3.OperationalError(text) for text in says]

        def migrated(*arguments):
            if errors:
                try:
                    raise errors.pop(0)
                except sqlite3.OperationalError as e:
                    raise TracekitError(f"cannot be used: {e}", path="x") from None
            return schema.migrate(*arguments)

        monkeypatch.setattr(state_module, "migrate", migrated)
        monkeypatch.setattr(running, "_check_designs", lambda *_: None)
        monkeypatch.setattr(running, "_run", lambda agent, host, left: {"left": left})
        return running.serve(policy, seconds=seconds, log=log)

    start.log = log
    return start


FULL, VAGUE = "database or disk is full", "disk I/O error"


def events(log: Log) -> list[tuple[str, str | None]]:
    lines = map(json.loads, log._to.getvalue().splitlines())
    return [(e["event"], e.get("why")) for e in lines]


def test_a_disk_that_is_full_at_the_start_is_waited_for(starting, monkeypatch):
    monkeypatch.setattr(disk, "room", lambda _: 0)
    assert starting(FULL, VAGUE, FULL) == {"left": None}
    assert events(starting.log) == [("waits", "disk full"), ("goes on", None)]
    assert 0 < starting(FULL, seconds=60.0)["left"] < 59.9


def test_an_agent_that_waits_for_its_disk_ends(starting):
    found = starting(*[FULL] * 9, seconds=0.3)
    assert 0.3 <= found["seconds"] < 5 and (found["epochs"], found["known"]) == (0, 0)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM))
    timer.start()
    assert starting(*[FULL] * 500)["epochs"] == 0
    timer.join()
    assert events(starting.log) == [("waits", "disk full"), ("stopped", None)] * 2
    assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, set())


def test_what_no_room_would_mend_ends_it_at_the_start(starting):
    with pytest.raises(TracekitError, match="disk I/O error"):
        starting(VAGUE)
    with pytest.raises(TracekitError, match="locked"):
        starting("database is locked")
    assert events(starting.log) == []


def test_other_errors_end_it(agent, monkeypatch):
    def locked(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("database is locked")

    monkeypatch.setattr(State, "observe", locked)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        turn(agent, 600)


def test_a_full_disk_is_told(tmp_path):
    full = pytest.raises(TracekitError, match=r"state\.sqlite: cannot be used: .* full")
    with full, State(tmp_path) as state:
        state.db.execute("PRAGMA max_page_count = 1")
        with state.transaction():
            for n in range(1000):
                state.keep(str(n), "x" * 1000)
    with State(tmp_path) as state:
        assert state.setting("0") == "", "all of it or nothing"
