"""An agent on a real process and a hub, by TLS: an epoch is taken, predicted, reported and answered
for, and forgotten at both ends."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("psutil", reason="needs the extra agent")
pytest.importorskip("cryptography", reason="needs the extra agent")
pytest.importorskip("sqlalchemy", reason="needs the extra hub")
pytest.importorskip("alembic", reason="needs the extra hub")
pytest.importorskip("starlette", reason="needs the extra hub")
pytest.importorskip("uvicorn", reason="needs the extra hub")
pytest.importorskip("jinja2", reason="needs the extra hub")

import sqlalchemy as sa

from tests.hub_process import certificate, tokens
from tests.hub_process import running as hub_running
from tests.test_agent_worker import BUSY, PYTHON, USER, running
from tests.test_record import _why_not
from tracekit.agent.host import Computer
from tracekit.agent.log import Log
from tracekit.agent.policy import read_policy
from tracekit.agent.running import reporter_of
from tracekit.agent.service import Agent
from tracekit.agent.state import State
from tracekit.agent.vault import trace_key
from tracekit.cli.main import main
from tracekit.fleet import Token
from tracekit.hub import open_database
from tracekit.hub.tables import aggregates, audit, observed, series, subscriptions

pytestmark = [
    pytest.mark.skipif(_why_not() is not None, reason=_why_not() or ""),
    pytest.mark.skipif(sys.version_info < (3, 11), reason="TOML needs Python 3.11"),
]

POLICY = """
[programs]
executables = ["{program}"]
[budget]
cpu = "50%"
loss = "10%"
[when]
idle = false
mains = false
[predict]
designs = ["ns_8w", "ns_lsq"]
epoch = 5000
[agent]
state = "{folder}/state"
scan_seconds = 0.5
{user}
[hub]
url = "https://127.0.0.1:{port}"
authority = "{folder}/c.pem"
token_file = "{folder}/token"
key_file = "{folder}/fleet-key"
group = "lab"
report_minutes = 0.01
"""


def policy_file(folder: Path, port: int, token: Token) -> Path:
    for name, secret in (("token", token.reveal()), ("fleet-key", os.urandom(32).hex())):
        (folder / name).touch(0o600)
        (folder / name).write_text(secret)
    user = f'user = "{USER}"' if USER else ""
    program = os.path.realpath(PYTHON)
    (folder / "agent.toml").write_text(
        POLICY.format(program=program, folder=folder, user=user, port=port)
    )
    return folder / "agent.toml"


def test_an_epoch_is_reported_and_forgotten(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    pair = certificate(tmp_path)
    database = str(tmp_path / "h.db")
    (token,) = tokens(database, 1)
    engine = open_database(database)

    def every(table: sa.Table) -> list[sa.Row]:
        with engine.connect() as connection:
            return list(connection.execute(sa.select(table)).all())

    with hub_running(database, *pair, "--burst", "1000") as hub:
        path = policy_file(tmp_path, hub.port, token)
        policy = read_policy(path)

        def work(state: State, ended) -> None:
            host = Computer(policy, trace_key(policy.folder), lowest_priority=False)
            with (tmp_path / "log").open("a") as to:
                log = Log(to)
                agent = Agent(policy, state, host, log, reporter_of(policy, state, log), seed=1)
                agent.cpu.cost, agent._due = 0.5, 0.0
                until = time.monotonic() + 300
                while not ended() and time.monotonic() < until:
                    agent.step()
                    host.sleep(0.5)
            assert ended(), (tmp_path / "log").read_text()

        with running(BUSY), State(policy.folder) as state:
            work(state, lambda: every(aggregates))
            signatures = state.db.execute("SELECT signature FROM signatures").fetchall()
            known = set(state.db.execute("SELECT design, cycles FROM predictions"))
        sent, of = every(aggregates), {s.id: s for s in every(series)}
        assert {of[r.series].design for r in sent} == {"ns_8w", "ns_lsq"}
        assert {of[r.series].machine_group for r in sent} == {"lab"}
        assert {of[r.series].model for r in sent} == {"default-x86"}
        assert {(of[r.series].design, r.cycles) for r in sent} <= known
        assert {s.design for s in every(subscriptions)} == {"ns_8w", "ns_lsq"}
        assert sum(r.seconds for r in every(observed)) > 0
        # The hub has a keyed hash of the signature, and nothing that tells the program.
        raw = {bytes.fromhex(s) for (s,) in signatures}
        assert raw and not raw & {bytes(r.signature) for r in sent}
        assert os.path.realpath(PYTHON).encode() not in Path(database).read_bytes()

        # Nobody runs the program any more; it is forgotten here at once, there with the next turn.
        assert main(["agent", "forget", os.path.realpath(PYTHON), "--policy", str(path)]) == 0
        capsys.readouterr()
        with State(policy.folder) as state:
            assert not state.db.execute("SELECT * FROM signatures").fetchall()
            work(state, lambda: not every(aggregates))
            assert state.db.execute("SELECT count(*) FROM queue").fetchone()[0] <= 1
        assert [r.detail for r in every(audit) if r.what == "forgotten"] == [
            f"{len(sent)} aggregates"
        ]
    engine.dispose()
    said = [json.loads(line)["event"] for line in (tmp_path / "log").read_text().splitlines()]
    assert "sampled" in said and "reported" in said and "message refused" not in said
