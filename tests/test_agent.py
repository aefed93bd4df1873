"""The agent's parts, and its loop on a simulated computer: budgets, weights, queue, forgetting."""

from __future__ import annotations

import dataclasses
import io
import json
import math
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import time
import types
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("psutil", reason="needs the extra agent")
pytest.importorskip("cryptography", reason="needs the extra agent")

import itertools

from tracekit.agent import processes
from tracekit.agent.allocation import spreads
from tracekit.agent.budget import CpuBudget, LossBudget
from tracekit.agent.host import Computer, Outcome
from tracekit.agent.log import Log
from tracekit.agent.overview import (
    _model_errors,
    forget,
    forget_everything,
    report,
    set_paused,
    status,
)
from tracekit.agent.policy import Policy
from tracekit.agent.processes import Watcher
from tracekit.agent.reporting import Reporter, keyed
from tracekit.agent.schema import STEPS, VERSION
from tracekit.agent.service import Agent, nearest
from tracekit.agent.simulated import Program, SimulatedComputer
from tracekit.agent.state import Known, State
from tracekit.agent.unit import unit_text
from tracekit.agent.vault import Vault, trace_key
from tracekit.cli.main import main
from tracekit.errors import FormatError, TracekitError, UsageError
from tracekit.fleet.client import HubError, Token
from tracekit.fleet.messages import parse_batch, parse_forget

DESIGNS = {"ns_8w": (2.0, 0.7), "ns_rob": (3.0, 0.9)}
PROGRAMS = [Program("/opt/secret name/prog", 0.5, 4, 1e6), Program("/usr/bin/other", 0.2, 2, 1e6)]
TOKEN = Token(f"tkh1.{'ab' * 16}.{'x' * 43}")
KEY = b"f" * 32


class Hub:
    """What was acknowledged; ``fail``: errors that come first."""

    def __init__(self) -> None:
        self.batches: dict[str, object] = {}
        self.bodies: list[bytes] = []
        self.forgotten: list[str] = []
        self.all_forgotten = False
        self.subscribed: tuple[str, ...] = ()
        self.fail: list[HubError] = []
        self.lose_answer = False
        self.last = 0

    def __call__(self):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def subscribe(self, message) -> None:
        self.subscribed = message.designs
        self.bodies.append(message.to_bytes())

    def send(self, batch) -> None:
        if self.fail:
            raise self.fail.pop()
        if batch.sequence <= self.last and batch.batch not in self.batches:
            raise HubError("a replay", status=409, retry_after=None, url="x", last=self.last)
        self.last = max(self.last, batch.sequence)
        self.bodies.append(batch.to_bytes())
        assert self.batches.setdefault(batch.batch, batch) == batch
        if self.lose_answer:
            self.lose_answer = False
            raise HubError("gone", status=0, retry_after=1.0, url="x")

    def forget(self, request) -> None:
        self.bodies.append(request.to_bytes())
        self.forgotten += request.signatures
        self.all_forgotten |= request.everything


@pytest.fixture
def made(tmp_path):
    """An agent on a simulated computer, and its hub."""

    states = []

    def make(programs=PROGRAMS, **more):
        policy = Policy(
            state=str(tmp_path / "state"), designs=tuple(DESIGNS), report_minutes=10.0,
            scan_seconds=30.0,
            **{"cpu": 0.05, "url": "http://127.0.0.1:1", **more},
        )  # fmt: skip
        state = State(policy.folder)
        states.append(state)
        host = SimulatedComputer(programs, DESIGNS, seed=3, begin=1.8e9, trace_bytes=2000)
        log, hub = Log(io.StringIO()), Hub()
        reporter = Reporter(policy, state, TOKEN, KEY, log, hub)
        return Agent(policy, state, host, log, reporter, seed=5), hub

    yield make
    for state in states:
        state.close()


def turn(agent: Agent, seconds: float) -> None:
    end = agent.host.now() + seconds
    while agent.host.now() < end:
        agent.step()
        agent.host.sleep(agent.policy.scan_seconds)


# ---- secrets


def test_traces_at_rest(tmp_path, monkeypatch):
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    key = trace_key(tmp_path)
    file = tmp_path / "key"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and trace_key(tmp_path) == key
    sealed = Vault(key).seal(b"addresses" * 100, "a.trace")
    assert b"addresses" not in sealed and Vault(key).open(sealed, "a.trace") == b"addresses" * 100
    for other, name, text in (
        (bytes(32), "a.trace", sealed), (key, "b.trace", sealed), (key, "a.trace", sealed[:-1]),
        (key, "a.trace", sealed[:30] + bytes([sealed[30] ^ 1]) + sealed[31:]),
        (key, "a.trace", b"x" + sealed), (key, "a.trace", b""),
    ):  # fmt: skip
        with pytest.raises(FormatError):
            Vault(other).open(text, name)
    file.chmod(0o640)
    with pytest.raises(TracekitError, match="others may read it"):
        trace_key(tmp_path)
    given = tmp_path / "credentials"
    given.mkdir()
    (given / "tracekit-agent-key").write_bytes(b"c" * 32)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(given))
    assert trace_key(tmp_path) == b"c" * 32
    (given / "tracekit-agent-key").write_bytes(b"short")
    with pytest.raises(TracekitError, match="5 bytes"):
        trace_key(tmp_path)


# ---- budgets


def test_cpu_is_never_spent_ahead():
    b = CpuBudget(0.01, 0.0, cost=4.0)
    b.pass_time(300)
    assert not b.enough and b.period == 400
    b.pass_time(401)
    assert b.enough
    b.spend(6.0)
    b.pass_time(601)
    assert b.tokens == pytest.approx(0.01 * 601 - 6)
    b.pass_time(100)  # the clock was set back
    b.pass_time(10**6)
    assert b.tokens == 36.0
    b.learn(8.0)
    assert b.cost == 8.0


def test_loss_is_by_process():
    b = LossBudget(0.001)
    assert not b.allows(1, "a", 0, 1.0) and b.allows(1, "a", 0, 2.1)
    assert not b.allows(1, "a", 2 << 30, 40.0) and b.allows(1, "a", 2 << 30, 100.0)
    b.lose(1, "a", 0.05)
    assert not b.allows(1, "a", 0, 90.0) and b.allows(1, "a", 0, 101.0)
    assert b.allows(2, "b", 0, 2.1) and not b.allows(2, "a", 0, 49.0)
    b.forget_all_but({2}, {"b"})
    assert b.lost == {}


# ---- the loop


def test_weights_add_up_to_what_was_seen(made, tmp_path):
    agent, hub = made()
    turn(agent, 6 * 3600)
    agent.flush()
    s = status(agent.policy, agent.state)
    rows = agent.state.db.execute("SELECT observed, covered, pending FROM programs").fetchall()
    for observed, covered, pending in rows:
        assert observed == pytest.approx(covered + pending)
    weights = agent.state.db.execute("SELECT sum(weight) FROM signatures").fetchone()[0]
    assert weights == pytest.approx(sum(r[1] for r in rows))
    assert s["covered_share"] > 0.95 and s["signatures"] <= 6
    taken, known = agent.state.db.execute("SELECT sum(taken), sum(known) FROM spent").fetchone()
    assert taken > 100 and known > 0.9 * taken  # few signatures, and all come again
    # CPU stays in the budget of 5 %, traces are gone
    spent = agent.state.db.execute("SELECT sum(agent + epochs + predictions) FROM spent").fetchone()
    assert 0.03 * 6 * 3600 < spent[0] <= 0.05 * 6 * 3600 + 4
    assert s["traces"] == 0 and not list(agent.policy.folder.glob("*.trace"))
    # what the hub has is what was covered, once
    sent: dict[tuple[str, str], float] = {}
    for b in hub.batches.values():
        for a in b.aggregates:
            sent[a.design, a.signature] = sent.get((a.design, a.signature), 0.0) + a.weight
    unsent = agent.state.db.execute("SELECT coalesce(sum(weight), 0) FROM unsent").fetchone()[0]
    assert sum(sent.values()) / 2 == pytest.approx(weights - unsent)
    seen = sum(o.seconds for b in hub.batches.values() for o in b.observed)
    assert seen == pytest.approx(
        agent.state.db.execute("SELECT sum(seconds - unsent) FROM observed").fetchone()[0]
    )
    assert hub.subscribed == tuple(DESIGNS)
    found = report(agent.policy, agent.state)
    assert found["designs"][0]["time_over_best"] == 1 and len(found["designs"]) == 2
    assert found["model_errors"]
    half = found["designs"][1]["half_interval"]
    withdrawn = dataclasses.replace(
        agent.policy, model="repository:gone", store=str(tmp_path / "s")
    )
    alone = report(withdrawn, agent.state)
    assert not alone["model_errors"]
    # what the model adds is the spread of its error of one design against the other's, by program
    (m00, m01), (_, m11) = _model_errors(agent.policy, sorted(DESIGNS))
    share = np.array([r[1] for r in rows]) / sum(r[1] for r in rows)
    added = math.sqrt(half**2 - alone["designs"][1]["half_interval"] ** 2)
    expected = 1.96 * math.sqrt((m00 - 2 * m01 + m11) * (share**2).sum())
    assert added == pytest.approx(expected, rel=0.5)


def test_an_outage_loses_nothing_and_counts_nothing_twice(made):
    agent, hub = made()
    turn(agent, 1800)
    before = len(hub.batches)
    hub.fail = [HubError("away", status=0, retry_after=60.0, url="x") for _ in range(7)]
    hub.lose_answer = True  # received once, acknowledged the second time
    turn(agent, 3 * 3600)
    agent.reporter.send(agent.host.now())
    assert not hub.fail and len(hub.batches) > before + 5
    assert agent.state.db.execute("SELECT count(*) FROM queue").fetchone()[0] == 0
    numbers = [b.sequence for b in hub.batches.values()]
    assert numbers == sorted(numbers)
    weight = sum(a.weight for b in hub.batches.values() for a in b.aggregates) / 2
    all_, unsent = agent.state.db.execute(
        "SELECT (SELECT sum(weight) FROM signatures), (SELECT coalesce(sum(weight), 0) FROM unsent)"
    ).fetchone()
    assert weight == pytest.approx(all_ - unsent)


def test_the_queue_is_bounded_and_a_refused_message_does_not_block(made):
    agent, hub = made(queue_mb=0.005)
    hub.fail = [HubError("away", status=503, retry_after=3600.0, url="x") for _ in range(50)]
    turn(agent, 5 * 3600)
    size = agent.state.db.execute("SELECT sum(length(body)), max(length(body)) FROM queue")
    total, largest = size.fetchone()
    assert 5000 <= total < 5000 + largest
    hub.fail = [HubError("wrong", status=400, retry_after=None, url="x")]
    agent.reporter.send(agent.host.now())
    assert agent.state.db.execute("SELECT count(*) FROM queue").fetchone()[0] == 0
    assert status(agent.policy, agent.state)["counts"]["message refused (400)"] == 1


def test_a_wrong_token_waits(made):
    agent, hub = made()
    hub.fail = [HubError("revoked", status=401, retry_after=None, url="x")]
    turn(agent, 1500)
    assert not hub.batches and agent.state.db.execute("SELECT count(*) FROM queue").fetchone()[0]
    assert status(agent.policy, agent.state)["hub_error"] == "token refused: x: revoked"
    assert "token refused" in agent.log._to.getvalue()
    agent.reporter.send(agent.host.now())
    assert hub.batches and status(agent.policy, agent.state)["hub_error"] is None


def test_a_new_state_goes_on_where_the_hub_is(made):
    """The hub has had 50 messages of this token: those of a new state come after them."""
    agent, hub = made()
    hub.last = 50
    turn(agent, 3600)
    agent.reporter.send(agent.host.now())
    numbers = [b.sequence for b in hub.batches.values()]
    assert len(numbers) > 3 and numbers == list(range(51, 51 + len(numbers)))
    weight = sum(a.weight for b in hub.batches.values() for a in b.aggregates) / 2
    all_, unsent = agent.state.db.execute(
        "SELECT (SELECT sum(weight) FROM signatures), (SELECT coalesce(sum(weight), 0) FROM unsent)"
    ).fetchone()
    assert weight == pytest.approx(all_ - unsent)
    assert "message refused (409)" not in status(agent.policy, agent.state)["counts"]


def test_only_what_was_taken_is_reported(made):
    agent, hub = made()
    hub.fail = [HubError("away", status=503, retry_after=3600.0, url="x")]
    turn(agent, 1500)
    hub.fail = [HubError("wrong", status=422, retry_after=None, url="x")]
    waiting = agent.state.db.execute("SELECT count(*) FROM queue").fetchone()[0]
    assert agent.reporter.send(agent.host.now()) == waiting - 1


def test_nothing_but_results_leaves(made):
    """No name of a program, no pc, no signature as it is; everything that was sent is looked at."""
    agent, hub = made(labels={"/usr/bin/*": "mine"}, group="desk")
    turn(agent, 2 * 3600)
    forget(agent.policy.__class__(**{**agent.policy.__dict__, "url": ""}), agent.state,
           "/usr/bin/other", now=1.0)  # fmt: skip
    sent = b"\n".join(hub.bodies)
    assert len(hub.bodies) > 5
    signatures = [s for (s,) in agent.state.db.execute("SELECT signature FROM signatures")]
    assert signatures and keyed(signatures[0], KEY).encode() in sent
    secrets = ["secret", "prog", "other", "/usr", "/opt", os.uname().nodename, *signatures]
    secrets += [str(agent.policy.folder), "sketch", "executable", "pid", Path.home().name]
    for secret in secrets:
        assert secret.encode() not in sent, secret
    known = {"version", "agent", "batch", "sequence", "sent", "aggregates", "observed", "group",
             "designs"}  # fmt: skip
    keys = set().union(*(json.loads(b) for b in hub.bodies))
    assert keys <= known
    for b in hub.batches.values():
        for a in b.aggregates:
            assert a.label in (None, "mine") and a.hour == int(a.hour)


def test_forget_is_for_ever_and_travels(made, tmp_path):
    agent, hub = made(keep_traces=True)
    token, key = tmp_path / "token", tmp_path / "fleet"
    token.write_text(f"tkh1.{'ab' * 16}.{'x' * 43}")
    key.write_bytes(KEY)
    for f in (token, key):
        f.chmod(0o600)
    hub.fail = [HubError("away", status=0, retry_after=60.0, url="x")] * 500
    turn(agent, 2 * 3600)
    policy = Policy(**{**agent.policy.__dict__, "token_file": str(token), "key_file": str(key)})
    name = PROGRAMS[0].executable
    own = [s for (s,) in agent.state.db.execute(
        "SELECT signature FROM signatures JOIN programs ON programs.id = program"
        " WHERE executable = ?", (name,))]  # fmt: skip
    traces = len(list(policy.folder.glob("*.trace")))
    with pytest.raises(UsageError, match="nothing is known"):
        forget(policy, agent.state, "/nothing", now=0)
    found = forget(policy, agent.state, "/opt/*", now=agent.host.now())
    assert found["programs"] == 1 and found["signatures"] == len(own) > 0
    assert found["traces"] > 0
    assert len(list(policy.folder.glob("*.trace"))) == traces - found["traces"]
    hub.fail = []
    agent.reporter.send(agent.host.now())
    hidden = {keyed(s, KEY) for s in own}
    assert set(hub.forgotten) == hidden
    assert not any(a.signature in hidden for b in hub.batches.values() for a in b.aggregates)
    assert any(b.aggregates for b in hub.batches.values())  # the other program's
    for body in hub.bodies[1:]:
        parse = parse_forget if b'"signatures"' in body else parse_batch
        assert parse(body).agent == TOKEN.agent
    everything = b"".join(p.read_bytes() for p in policy.folder.iterdir())
    assert name.encode() not in everything and own[0].encode() not in everything


def test_everything_is_forgotten(made, tmp_path):
    """Also what is older than anything that is known here."""
    agent, hub = made(keep_traces=True)
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text(TOKEN.reveal())
    turn(agent, 2 * 3600)
    hub.fail = [HubError("away", status=0, retry_after=60.0, url="x")] * 500
    turn(agent, 3600)
    sent = len(hub.batches)
    policy = dataclasses.replace(agent.policy, token_file=str(token))
    found = forget_everything(policy, agent.state, now=agent.host.now())
    assert found["programs"] == 2 and found["signatures"] > 1 and found["requests_to_hub"] == 1
    hub.fail = []
    assert agent.reporter.send(agent.host.now()) == 1
    assert hub.all_forgotten and len(hub.batches) == sent, "what waited is not sent"
    assert not list(policy.folder.glob("*.trace"))
    kept = b"".join(p.read_bytes() for p in policy.folder.iterdir())
    assert PROGRAMS[0].executable.encode() not in kept


def test_what_is_forgotten_while_an_epoch_is_taken(made, tmp_path, monkeypatch):
    """While it is stepped, and while it is predicted: nothing of it comes back."""
    agent, _ = made([PROGRAMS[0]], url="")
    name = PROGRAMS[0].executable
    keep, predictions = agent._keep, agent.host._predictions
    for when in ("stepped", "predicted"):

        def forgets(*args, by=keep if when == "stepped" else predictions):
            forget(agent.policy, agent.state, name, now=agent.host.now())
            return by(*args)

        place = (agent, "_keep") if when == "stepped" else (agent.host, "_predictions")
        agent._due, agent.cpu.tokens = 0.0, 100.0
        agent.look()
        agent.host.sleep(3000.0)
        with monkeypatch.context() as changed:
            changed.setattr(*place, forgets)
            agent.step()
        assert not agent.state.programs()
        assert not list(agent.policy.folder.glob("*.trace"))
    agent._seconds[name] = 5.0  # seen before, and not yet written down
    agent.state.forget()
    agent.flush()
    assert not agent.state.programs()
    agent.host.sleep(60.0)
    agent.step()
    agent.flush()
    assert agent.state.programs() == {name}, "it runs on"


def test_time_without_predictions_is_not_covered(made, monkeypatch):
    agent, _ = made(url="")
    with monkeypatch.context() as changed:
        changed.setattr(agent.host, "_predictions", lambda *_: [])
        turn(agent, 2 * 3600)
    state, now = agent.state, agent.host.now()
    assert state.db.execute("SELECT sum(weight) FROM signatures").fetchone()[0] > 0
    assert status(agent.policy, state)["covered_share"] == 0.0
    assert not any(p["covered_seconds"] for p in report(agent.policy, state)["programs"])
    turn(agent, 3600)
    (weight,) = state.db.execute(
        "SELECT sum(weight) FROM signatures JOIN (SELECT DISTINCT signature FROM predictions)"
        " USING (signature)"
    ).fetchone()
    found = status(agent.policy, state)
    assert found["covered_share"] * found["observed_seconds"] == pytest.approx(weight)
    state.observe(now + 80 * 86_400, {p.executable: 0.0 for p in PROGRAMS}, {})
    state.prune(now + 80 * 86_400)
    assert not state.db.execute("SELECT * FROM signatures").fetchall()
    after = status(agent.policy, state)
    assert after["covered_share"] == pytest.approx(found["covered_share"])


def test_a_clock_that_is_set(made, monkeypatch):
    """An agent that began in 1970, as computers without a clock do, and one whose clock was a year
    ahead: budgets are of time that passed, and nothing waits for a year."""
    agent, hub = made()
    host, ahead = agent.host, [0.0]
    monkeypatch.setattr(host, "now", lambda: host._time + ahead[0])
    turn(agent, 3600)
    alive = agent.state.db.execute("SELECT sum(alive) FROM programs").fetchone()[0]
    for jump in (365 * 86_400.0, -365 * 86_400.0):
        ahead[0] += jump
        before = len(hub.batches)
        turn(agent, 2 * 3600)
        assert len(hub.batches) > before, "it reports on"
        today = agent.state.db.execute(
            "SELECT taken FROM spent WHERE day = ?", (int(host.now() // 86_400),)
        ).fetchone()
        assert today is not None and today[0] > 0, "it samples on"
    now = agent.state.db.execute("SELECT sum(alive) FROM programs").fetchone()[0]
    assert now - alive < 5 * 3600 * len(PROGRAMS), "programs were not there for a year"


def test_programs_that_nobody_runs_are_forgotten(made):
    agent, _ = made()
    turn(agent, 3600)
    state, now = agent.state, agent.host.now()
    state.refuse(now - 100 * 86_400, "/opt/refused", "not dumpable")
    state.observe(now - 100 * 86_400, {"/opt/old": 5.0}, {})
    agent.state.prune(now - 90 * 86_400)
    here = {e for (e,) in state.db.execute("SELECT executable FROM programs")}
    assert here == {p.executable for p in PROGRAMS}
    assert state.db.execute("SELECT count(*) FROM signatures").fetchone()[0]


def test_a_state_of_the_first_version(tmp_path):
    db = sqlite3.connect(tmp_path / "state.sqlite")
    db.executescript(STEPS[0])
    db.executescript("INSERT INTO programs (executable) VALUES ('/x'); PRAGMA user_version = 1")
    db.close()
    with State(tmp_path) as state:
        (seen,) = state.db.execute("SELECT seen FROM programs").fetchone()
        assert seen == pytest.approx(time.time(), abs=60), "as if it had run just now"


def test_pause_and_a_kill_between_stepping_and_prediction(made, monkeypatch):
    agent, _ = made()
    set_paused(agent.state, True)
    turn(agent, 3600)
    assert status(agent.policy, agent.state)["paused"]
    assert agent.state.db.execute("SELECT count(*) FROM signatures").fetchone()[0] == 0
    set_paused(agent.state, False)

    class Killed(Exception):
        pass

    def killed(*_: object):
        raise Killed

    monkeypatch.setattr(agent.host, "_predictions", killed)
    with pytest.raises(Killed):
        turn(agent, 3600)
    monkeypatch.undo()
    stray = agent.policy.folder / "0123.trace"
    stray.write_bytes(b"x")
    again = Agent(agent.policy, agent.state, agent.host, agent.log, None, seed=1)
    assert not stray.exists() and len(agent.state.unpredicted()) == 1
    turn(again, 3600)
    assert not agent.state.unpredicted() and not list(agent.policy.folder.glob("*.trace"))


def test_a_program_that_cannot_be_sampled_is_left_alone(made, monkeypatch):
    agent, _ = made([PROGRAMS[0]])
    asked: list[float] = []

    def refuse(*_: object) -> Outcome:
        asked.append(agent.host.now())
        return Outcome(why="RecordError", message="it runs under a seccomp filter")

    monkeypatch.setattr(agent.host, "sample", refuse)
    turn(agent, 12 * 3600)
    gaps = [b - a for a, b in itertools.pairwise(asked)]
    assert 3 <= len(asked) <= 8 and gaps == sorted(gaps)
    assert report(agent.policy, agent.state)["programs"][0]["refused"] == "RecordError"


def test_epochs_go_where_answers_differ(made):
    """Of two programs that run alike the one whose epochs differ more has more of them."""
    even = [("/a", 1.0, (10.0, 12.0))] * 6
    uneven = [("/b", 1.0, (10.0, 12.0 + 3 * (k % 2))) for k in range(6)]
    found = spreads(even + uneven)
    assert found["/b"] > found[None] > found["/a"] > 0
    # a long epoch counts for more: by hand, shares (10, 12) / 11 and (10, 15) / 12.5
    a, b = (10 / 11, 12 / 11), (10 / 12.5, 15 / 12.5)
    rows = [("/c", 3.0, (10.0, 12.0)), ("/c", 1.0, (10.0, 15.0))]
    means = [(3 * x + y) / 4 for x, y in zip(a, b, strict=True)]
    squares = sum((1.5 * (x - m)) ** 2 + (0.5 * (y - m)) ** 2
                  for x, y, m in zip(a, b, means, strict=True))  # fmt: skip
    assert spreads(rows)["/c"] == pytest.approx(squares**0.5)
    assert spreads(rows)[None] == pytest.approx(squares**0.5)
    assert spreads(even) == {None: 1.0, "/a": 1.0} and spreads([]) == {None: 1.0}

    alike = [Program(name, 0.5, 12, 1e6) for name in ("/opt/even", "/opt/uneven")]
    agent, _ = made(alike)
    real = agent.host._predictions

    seen = {"uneven": False, "number": 0}

    def predictions(rng, designs):
        """The two designs take the same; on every second epoch of one program they do not."""
        one, other = real(rng, designs)
        seen["number"] += seen["uneven"]
        slow = 3.0 if seen["uneven"] and seen["number"] % 2 else 1.0
        return [dataclasses.replace(one, cycles=other.cycles * slow), other]

    def sample(choose, *rest, own=agent.host.sample):
        def chosen():
            pid = choose()
            seen["uneven"] = agent._look.processes[pid].executable == "/opt/uneven"
            return pid

        return own(chosen, *rest)

    agent.host._predictions, agent.host.sample = predictions, sample
    turn(agent, 10 * 3600)
    epochs = {p["executable"]: p["epochs"] for p in report(agent.policy, agent.state)["programs"]}
    assert epochs["/opt/uneven"] > 1.4 * epochs["/opt/even"] > 0


def test_a_process_is_chosen_when_the_worker_is_ready(made, monkeypatch):
    """Programs that live for seconds end while a worker starts: another process is taken."""
    agent, _ = made([Program("/usr/bin/cc1", 0.9, 2, 40.0)])
    real, pids = agent.host.sample, []

    def late(choose, *rest):
        agent.host.sleep(40.0)  # every process has ended since, and there are others
        before = set(agent._look.processes)

        def asked():
            pids.append(choose())
            assert pids[-1] not in before
            return pids[-1]

        return real(asked, *rest)

    monkeypatch.setattr(agent.host, "sample", late)
    turn(agent, 3600)
    taken = agent.state.db.execute("SELECT sum(taken) FROM spent").fetchone()[0]
    none = status(agent.policy, agent.state)["counts"].get("no epoch: nothing runs", 0)
    assert taken >= 1 and taken == sum(p is not None for p in pids)
    assert none == sum(p is None for p in pids)
    assert report(agent.policy, agent.state)["programs"][0]["refused"] is None


def test_who_waits_for_the_loss_budget_is_named(made, monkeypatch):
    agent, _ = made([Program("/usr/bin/short", 0.9, 2, 60.0), PROGRAMS[0]], loss=1e-5)
    turn(agent, 4 * 3600)
    short, long = (
        next(p for p in report(agent.policy, agent.state)["programs"] if p["executable"] == name)
        for name in ("/usr/bin/short", "/opt/secret name/prog")
    )
    assert (short["epochs"], short["refused"]) == (0, "loss budget")
    assert long["epochs"] > 0 and long["refused"] is None
    events = [json.loads(line) for line in agent.log._to.getvalue().splitlines()]
    held = [e["executable"] for e in events if e["event"] == "no epoch yet"]
    assert held.count("/usr/bin/short") == 1


def test_disk_is_bounded(made):
    agent, _ = made(keep_traces=True, disk_mb=1.0)
    agent.host._trace = os.urandom(20_000)
    turn(agent, 2 * 3600)
    assert agent.state.used() <= 1.0e6
    assert agent.state.db.execute("SELECT count(*) FROM traces").fetchone()[0] > 0


def test_nearest():
    a, b = b"\xff\xff" + bytes(254), bytes(254) + b"\xff\xff"
    known = [Known("a", a, frozenset()), Known("b", b, frozenset())]
    assert nearest(b, known) == (known[1], 0.0)
    assert nearest(a, known[1:])[1] == pytest.approx(1.0)
    assert nearest(a, [])[0] is None


# ---- files and commands


def test_states_of_other_versions_and_other_files_are_refused(tmp_path):
    with State(tmp_path) as state:
        assert state.db.execute("PRAGMA user_version").fetchone()[0] == VERSION
        assert state.db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    db = sqlite3.connect(tmp_path / "state.sqlite")
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(FormatError, match="version 99"):
        State(tmp_path)
    for file in tmp_path.iterdir():
        file.unlink()
    (tmp_path / "state.sqlite").write_bytes(b"no database" * 100)
    with pytest.raises(FormatError, match="no state of an agent"):
        State(tmp_path)
    with pytest.raises(TracekitError, match="no agent has run"):
        State(tmp_path / "none", create=False)


def test_commands(tmp_path, capsys):
    policy = tmp_path / "p.toml"
    user = '[agent]\nuser = "nobody"\n' if os.geteuid() == 0 else "[agent]\n"
    policy.write_text(f'{user}state = "{tmp_path}/s"\n')

    def run(*args: str) -> dict:
        assert main(["agent", *args, "--policy", str(policy), "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    assert main(["agent", "status", "--policy", str(policy)]) == 1
    assert "no agent has run" in capsys.readouterr().err
    State(tmp_path / "s").close()
    assert run("pause") == {"schema": 2, "paused": True}
    assert run("status")["paused"]
    assert run("resume")["paused"] is False
    assert run("report")["designs"] == []
    assert "ExecStart=" in run("unit")["unit"]
    assert main(["agent", "forget", "/x", "--policy", str(policy)]) == 2
    assert "--everything" in capsys.readouterr().err
    assert main(["agent", "forget", "--policy", str(policy)]) == 2
    assert main(["agent", "forget", "/x", "--everything", "--policy", str(policy)]) == 2
    capsys.readouterr()
    assert run("forget", "--everything")["requests_to_hub"] == 0
    for wrong in ("nan", "-1", "inf"):
        with pytest.raises(SystemExit):
            main(["agent", "run", "--seconds", wrong, "--policy", str(policy)])
    for action in ("status", "report"):
        assert main(["agent", action, "--policy", str(policy)]) == 0


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_takes_the_unit(tmp_path):
    policy = tmp_path / "a policy $x 50%.toml"
    key = tmp_path / "key"
    key.write_bytes(bytes(32))
    unit = tmp_path / "tracekit-agent.service"
    unit.write_text(unit_text(str(policy), key=str(key)))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--user", str(unit)],
        capture_output=True, text=True,
        env={**os.environ, "XDG_RUNTIME_DIR": os.environ.get("XDG_RUNTIME_DIR", str(tmp_path))},
    )  # fmt: skip
    assert done.returncode == 0 and not done.stderr, done.stderr
    with pytest.raises(UsageError):
        unit_text("a\nb")


def stat_text(idle: float, total: float) -> str:
    """/proc/stat, as far as it is read."""
    return f"cpu {round(total - idle)} 0 0 {round(idle)} 0 0 0 0 0 0\n"


@pytest.mark.parametrize(
    ("idle_share", "plugged", "key", "why"),
    [(0.9, True, "", ""), (0.001, True, "idle", "busy"), (0.9, False, "mains", "on battery"),
     (0.001, None, "idle", "busy"), (0.9, None, "", "")],
)  # fmt: skip
def test_when_it_works(tmp_path, monkeypatch, idle_share, plugged, key, why):
    """While a core is idle and on mains, unless the policy says otherwise."""
    import psutil

    battery = None if plugged is None else types.SimpleNamespace(power_plugged=plugged)
    monkeypatch.setattr(psutil, "sensors_battery", lambda: battery, raising=False)
    # of each core's time; half a core is enough where there is but one
    looks = iter([(0.0, 0.0), (1000 * idle_share, 1000.0)])
    monkeypatch.setattr(processes, "_read", lambda path, read=processes._read: (
        stat_text(*next(looks)) if path == "/proc/stat" else read(path)
    ))  # fmt: skip
    policy = Policy(state=str(tmp_path), user="nobody" if os.geteuid() == 0 else "")
    host = Computer(policy, bytes(32))
    host.look()
    assert host.allowed(policy) == why
    if key:
        assert host.allowed(dataclasses.replace(policy, **{key: False})) == ""


def test_the_watcher_sees_what_it_may(tmp_path):
    """A user's processes by the policy, never itself, its workers, or what is not dumpable."""
    busy = "import ctypes\n{}\nprint('ready', flush=True)\nwhile True: pass"
    hidden = "ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)"
    started = [
        subprocess.Popen([sys.executable, "-c", busy.format(extra)], stdout=subprocess.PIPE)
        for extra in ("", hidden)
    ]
    try:
        assert all(p.stdout.readline() for p in started)
        plain, secret = (p.pid for p in started)
        watcher = Watcher(os.geteuid(), lambda exe, cgroup: "python" in exe)
        watcher.look(0.0)
        time.sleep(0.3)
        look = watcher.look(1.0)
        assert plain in look.processes and look.user[plain] >= 0.0
        assert os.getpid() not in look.processes
        watcher.ours.add(plain)
        assert plain not in watcher.look(2.0).processes
        watcher.ours.discard(plain)
        forks = "import os\nif os.fork(): print('ready', flush=True)\nwhile True: pass"
        started.append(
            subprocess.Popen(
                [sys.executable, "-c", forks], stdout=subprocess.PIPE, start_new_session=True
            )
        )
        assert started[-1].stdout.readline()
        worker = started[-1].pid
        (helper,) = Path(f"/proc/{worker}/task/{worker}/children").read_text().split()
        assert {worker, int(helper)} <= set(watcher.look(2.3).processes)
        watcher.ours.add(worker)
        assert not {worker, int(helper)} & set(watcher.look(2.6).processes)
        os.killpg(worker, signal.SIGKILL)
        started.append(subprocess.Popen([sys.executable, "-c", busy.format("")], stdout=-1))
        assert started[-1].stdout.readline()
        stat, tick = Path(f"/proc/{started[-1].pid}/stat"), os.sysconf("SC_CLK_TCK")

        def ran() -> float:
            return int(stat.read_text().rpartition(")")[2].split()[11]) / tick

        while (before := ran()) < 0.2:  # on a busy computer that takes a while
            time.sleep(0.05)
        young = watcher.look(3.0)
        # all that it ran, not what it ran since a first look
        assert before <= young.user[started[-1].pid] <= ran()
        if os.geteuid() != 0:  # root's files in /proc are root's anyway
            assert secret not in look.processes
            assert "not dumpable" in look.refused.values()
        assert plain not in Watcher(os.geteuid(), lambda *_: False).look(0.0).processes
        assert plain not in Watcher(12345, lambda *_: True).look(0.0).processes
    finally:
        for p in started:
            p.kill()
            p.communicate()
