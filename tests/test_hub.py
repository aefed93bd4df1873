"""The hub: what is acknowledged is counted once, whatever happens; attacks are refused, logged, and
change nothing."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import secrets
import threading
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlalchemy", reason="needs the extra hub")
pytest.importorskip("alembic", reason="needs the extra hub")
pytest.importorskip("starlette", reason="needs the extra hub")
pytest.importorskip("uvicorn", reason="needs the extra hub")
pytest.importorskip("jinja2", reason="needs the extra hub")

import sqlalchemy as sa

from tests.hub_process import Process, batch_of, certificate, published, running, tokens
from tracekit.cli.main import main
from tracekit.errors import TracekitError
from tracekit.fleet import Batch, Forget, HubClient, HubError, Subscription, Token, read_token
from tracekit.fleet.messages import parse_batch
from tracekit.hub import open_database, prune, status
from tracekit.hub.intake import Intake, Refused
from tracekit.hub.limits import Rate
from tracekit.hub.tables import agents, aggregates, audit, batches, series, subscriptions
from tracekit.hub.tokens import Tokens, issue_agent, revoke


class Served:
    """A hub that runs, an agent of it, and its database seen from outside."""

    def __init__(self, folder: Path, process: Process, database: str, token: Token) -> None:
        self.folder, self.process, self.token = folder, process, token
        self.engine = open_database(database)

    def client(self, token: Token | None = None) -> HubClient:
        return HubClient(self.process.url, token or self.token)

    def count(self, table: sa.Table = aggregates) -> int:
        with self.engine.connect() as connection:
            return int(
                connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
            )

    def content(self) -> list[Any]:
        """Everything but the log."""
        with self.engine.connect() as connection:
            tables = (agents, aggregates, batches, series, subscriptions)
            return [connection.execute(sa.select(t).order_by(*t.primary_key)).all() for t in tables]

    def log(self) -> list[str]:
        with self.engine.connect() as connection:
            rows = connection.execute(sa.select(audit).order_by(audit.c.id))
            return [f"{r.what}: {r.detail}" for r in rows]

    def raw(self, path: str, body: bytes, **headers: str) -> tuple[int, dict[str, Any]]:
        made = http.client.HTTPConnection("127.0.0.1", self.process.port, timeout=30)
        with contextlib.closing(made) as connection:
            known = {
                "Authorization": f"Bearer {self.token.reveal()}",
                "Content-Type": "application/json",
                **headers,
            }
            connection.request("POST", path, body, known)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("hub")
    database = str(folder / "hub.db")
    (token,) = tokens(database, 1)
    with running(
        database, "--rate", "1000", "--burst", "1000", "--release-minutes", "0"
    ) as process:
        served = Served(folder, process, database, token)
        yield served
        served.engine.dispose()


@pytest.fixture
def agent(hub: Served) -> Token:
    with hub.engine.begin() as connection:
        return Token(issue_agent(connection))


def unchanged(hub: Served, attack: Any, status: int, logged: str) -> None:
    def lines() -> int:
        return sum(logged in line for line in hub.log())

    before, known = hub.content(), lines()
    found, answer = attack()
    assert found == status, answer
    assert "error" in answer and "Traceback" not in str(answer)
    until = time.monotonic() + 20
    while lines() == known:  # it waits for the thread that writes
        assert time.monotonic() < until, hub.log()
        time.sleep(0.02)
    assert hub.content() == before


def test_a_batch_is_counted_once(hub: Served, agent: Token) -> None:
    before = hub.count()
    with hub.client(agent) as client:
        batch = batch_of(agent.agent, 1, count=100)
        assert client.send(batch) == {"accepted": 100}
        assert client.send(batch) == {"duplicate": True}
        assert hub.count() == before + 100
        told = Subscription(agent.agent, time.time(), ("ns_8w", "ns_lsq"))
        assert client.subscribe(told) == {"subscribed": 2}
        assert hub.log()[-1] == "subscribed: 2 designs", "viewers see the log, and no name there"


def test_to_forget_deletes(hub: Served, agent: Token) -> None:
    with hub.client(agent) as client:
        first, second = batch_of(agent.agent, 1, count=10), batch_of(agent.agent, 2, count=10)
        client.send(first)
        client.send(second)
        before = hub.count()
        gone = tuple({a.signature for a in first.aggregates})
        request = Forget(agent.agent, secrets.token_hex(16), 3, time.time(), signatures=gone)
        assert client.forget(request) == {"deleted": 10}
        assert client.forget(request) == {"duplicate": True}
        assert hub.count() == before - 10
        rest = Forget(agent.agent, secrets.token_hex(16), 4, time.time(), everything=True)
        assert client.forget(rest) == {"deleted": 10}
        assert client.send(first) == {"duplicate": True}, "what was forgotten does not come back"
        assert hub.count() == before - 20


def test_tokens_rotate_and_end(hub: Served, agent: Token) -> None:
    with hub.client(agent) as client, hub.client(agent) as old:
        client.send(batch_of(agent.agent, 1))
        new = client.rotate()
        assert new.reveal() != agent.reveal()
        old.send(batch_of(agent.agent, 2))  # until the new one was used
        client.send(batch_of(agent.agent, 3))
        with pytest.raises(HubError) as caught:
            old.send(batch_of(agent.agent, 4))
        assert caught.value.status == 401 and caught.value.retry_after is None
        with hub.engine.begin() as connection:
            assert revoke(connection, agent.agent) == 1
        time.sleep(1.1)
        with pytest.raises(HubError, match="401"):
            client.send(batch_of(agent.agent, 4))
    with hub.engine.connect() as connection:
        text = str(connection.execute(sa.text("select * from tokens")).all())
    assert agent.reveal().rsplit(".", 1)[1] not in text


# ---- attacks


def test_a_forged_token(hub: Served) -> None:
    body = batch_of(hub.token.agent, 1).to_bytes()
    for text in (
        "",
        "x",
        f"tkh1.{hub.token.agent}.{'A' * 43}",
        "tkh1." + "0" * 32 + "." + "A" * 43,
    ):
        attack = lambda text=text: hub.raw("/v1/batches", body, Authorization=f"Bearer {text}")  # noqa: E731
        unchanged(hub, attack, 401, "401")


def test_in_the_name_of_another(hub: Served, agent: Token) -> None:
    body = batch_of(agent.agent, 1).to_bytes()
    unchanged(hub, lambda: hub.raw("/v1/batches", body), 403, "403: in the name of")


def test_a_replayed_report(hub: Served, agent: Token) -> None:
    with hub.client(agent) as client:
        old = batch_of(agent.agent, 1)
        client.send(old)
        client.send(batch_of(agent.agent, 5))
        head = {"Authorization": f"Bearer {agent.reveal()}"}
        before = hub.content()
        assert hub.raw("/v1/batches", old.to_bytes(), **head) == (200, {"duplicate": True})
        assert hub.content() == before
        other = batch_of(agent.agent, 1, weight=900.0).to_bytes()  # another report, its number
        unchanged(hub, lambda: hub.raw("/v1/batches", other, **head), 409, "409")
        unknown = batch_of(agent.agent, 3).to_bytes()
        unchanged(hub, lambda: hub.raw("/v1/batches", unknown, **head), 409, "409")
        with pytest.raises(HubError) as e:
            client.send(parse_batch(unknown))
        assert e.value.last == hub.raw("/v1/batches", unknown, **head)[1]["last"] >= 2
        again = old.to_bytes().replace(b'"sequence":1', b'"sequence":6')  # renumbered
        unchanged(hub, lambda: hub.raw("/v1/batches", again, **head), 409, "409")


@pytest.mark.parametrize(
    ("body", "status", "logged"),
    [
        (b" " * 300_000, 413, "413"),
        (b"[" * 200_000, 400, "nested"),
        (b'{"a":' * 100 + b"1" + b"}" * 100, 400, "nested"),
        (b"\x00\xff", 400, "400"),
        (b'{"version":1e999}', 400, "400"),
    ],
    ids=["oversized", "brackets", "nested", "bytes", "infinite"],
)
def test_a_body_without_bounds(hub: Served, body: bytes, status: int, logged: str) -> None:
    for path in ("/v1/batches", "/v1/forget", "/v1/subscribe"):
        unchanged(hub, lambda path=path: hub.raw(path, body), status, logged)


def test_a_body_that_does_not_say_its_size(hub: Served) -> None:
    def attack() -> tuple[int, dict[str, Any]]:
        made = http.client.HTTPConnection("127.0.0.1", hub.process.port, timeout=30)
        with contextlib.closing(made) as connection:
            connection.putrequest("POST", "/v1/batches")
            connection.putheader("Authorization", f"Bearer {hub.token.reveal()}")
            connection.putheader("Content-Type", "application/json")
            connection.putheader("Transfer-Encoding", "chunked")
            connection.endheaders()
            with contextlib.suppress(OSError):
                for _ in range(40):
                    connection.send(b"4000\r\n" + b" " * 0x4000 + b"\r\n")
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

    unchanged(hub, attack, 413, "413: a body without end")


SQL = "x'); drop table aggregates; --"
HTML = "<script>alert(1)</script>"
FIELDS = ("design", "model", "model_version", "signature", "label", "group", "agent", "batch")


@pytest.mark.parametrize("text", [SQL, HTML, "' or 1=1 --", '"><img src=x onerror=alert(1)>'])
@pytest.mark.parametrize("field", FIELDS)
def test_sql_and_html_in_every_name(hub: Served, field: str, text: str) -> None:
    value = json.loads(batch_of(hub.token.agent, 1).to_bytes())
    (value if field in ("group", "agent", "batch") else value["aggregates"][0])[field] = text
    body = json.dumps(value).encode()
    unchanged(hub, lambda: hub.raw("/v1/batches", body), 400, f"400: {field}"[:4])
    for number in ("hour", "instructions", "cycles", "weight", "clock_ghz", "distance"):
        value = json.loads(batch_of(hub.token.agent, 1).to_bytes())
        value["aggregates"][0][number] = text
        assert hub.raw("/v1/batches", json.dumps(value).encode())[0] == 400


@pytest.mark.parametrize("text", [SQL, HTML])
def test_sql_and_html_in_the_other_messages(hub: Served, text: str) -> None:
    me = hub.token.agent
    number = secrets.token_hex(16)
    wrong = Forget(me, number, 9, time.time(), signatures=(text,)).to_bytes()
    unchanged(hub, lambda: hub.raw("/v1/forget", wrong), 400, "400: signatures[0]")
    named = Forget(me, text, 9, time.time(), everything=True).to_bytes()
    unchanged(hub, lambda: hub.raw("/v1/forget", named), 400, "400: batch")
    told = Subscription(me, time.time(), (text,)).to_bytes()
    unchanged(hub, lambda: hub.raw("/v1/subscribe", told), 400, "400: designs[0]")
    unchanged(hub, lambda: hub.raw("/v1/token", json.dumps({"x": text}).encode()), 400, "400")


def test_clocks_of_agents(hub: Served, agent: Token) -> None:
    """An agent whose clock is three hours ahead: its hours are ours."""
    batch = batch_of(agent.agent, 1)
    value = json.loads(batch.to_bytes())
    value["sent"] += 3 * 3600
    for entry in (*value["aggregates"], *value["observed"]):
        entry["hour"] += 3
    head = {"Authorization": f"Bearer {agent.reveal()}"}
    assert hub.raw("/v1/batches", json.dumps(value).encode(), **head)[0] == 200
    with hub.engine.connect() as connection:
        mine = sa.select(aggregates.c.hour).join(agents, agents.c.id == aggregates.c.agent)
        query = mine.where(agents.c.pseudonym == agent.agent)
        assert set(connection.execute(query).scalars()) == {batch.aggregates[0].hour}
    assert any("clock: 10" in line for line in hub.log())
    for clock in ("soon", "-5", "1e9"):
        told = {**head, "Tracekit-Clock": clock}
        unchanged(hub, lambda told=told: hub.raw("/v1/batches", b"{}", **told), 400, "400: a clock")
    future = json.loads(batch_of(agent.agent, 2).to_bytes())
    future["aggregates"][0]["hour"] += 48
    body = json.dumps(future).encode()
    unchanged(hub, lambda: hub.raw("/v1/batches", body, **head), 422, "422")


def test_too_many_messages(tmp_path: Path) -> None:
    (token,) = tokens(str(tmp_path / "h.db"), 1)
    with running(tmp_path / "h.db", "--rate", "0.02", "--burst", "2") as process:
        with HubClient(process.url, token) as client:
            client.send(batch_of(token.agent, 1))
            client.send(batch_of(token.agent, 2))
            with pytest.raises(HubError) as caught:
                client.send(batch_of(token.agent, 3))
        assert caught.value.status == 429 and 10 <= (caught.value.retry_after or 0) <= 50
        assert process.stop() == 128 + 15


def test_a_bucket_fills_with_time() -> None:
    rate = Rate(each=2.0, burst=3.0)
    assert [rate.wait("a", 0.0) for _ in range(3)] == [0.0] * 3
    assert rate.wait("a", 0.0) == pytest.approx(0.5)
    assert rate.wait("b", 0.0) == 0.0
    assert rate.wait("a", 0.51) == 0.0
    assert rate.wait("a", 0.52) > 0
    assert 0 < rate.wait("a", -1e6) < 0.5, "a clock that is set back takes nothing away"


def test_a_revoked_token_ends_where_the_clock_is_set_back(tmp_path: Path) -> None:
    engine = open_database(str(tmp_path / "h.db"))
    with engine.begin() as connection:
        token = issue_agent(connection)
    known = Tokens(engine)
    who = known.who(token, 1e6)
    assert who is not None
    with engine.begin() as connection:
        revoke(connection, who.pseudonym)
    assert known.who(token, 1e6 + 0.5) == who
    assert known.who(token, 1e5) is None
    engine.dispose()


# ---- clocks

MINUTE = 1_790_000_000 // 3600 * 3600 + 50 * 60.0
"""The hub's clock, ten minutes before an hour ends."""


class Clocks:
    """A hub whose clock stands at ``now``, and one agent of it."""

    def __init__(self, folder: Path, now: float) -> None:
        self.now = now
        self.engine = open_database(str(folder / "h.db"))
        with self.engine.begin() as connection:
            self.token = Token(issue_agent(connection))
        self.intake = Intake(self.engine, clock=lambda: self.now)
        self.count = 0

    def send(self, made: float, clock: float | None) -> dict[str, Any]:
        """A batch of the hour in which it was made; ``clock``: the agent's as it is sent."""
        self.count += 1
        found = Tokens(self.engine).who(self.token.reveal(), 0.0)
        assert found is not None
        one = batch_of(self.token.agent, self.count).aggregates[0]
        batch = Batch(
            self.token.agent, secrets.token_hex(16), self.count, made,
            (dataclasses.replace(one, hour=int(made // 3600)),), (),
        )  # fmt: skip
        return self.intake.put(batch, found, batch.to_bytes(), clock).result(30)

    def hours(self) -> list[int]:
        """Of what is there, in its order, less the hub's own."""
        with self.engine.connect() as connection:
            every = connection.execute(sa.select(aggregates.c.hour).order_by(aggregates.c.id))
            return [h - int(self.now // 3600) for h in every.scalars()]

    def close(self) -> None:
        self.intake.close()
        self.engine.dispose()


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("minutes", [20, 40])
def test_what_waited_for_the_hub_keeps_its_hours(
    tmp_path: Path, minutes: float, told: bool
) -> None:
    """A batch an hour while the hub is away for a day, sent at once when it is back."""
    first = MINUTE - 40 * 60
    hub = Clocks(tmp_path, first + 24 * 3600 + 60 * minutes)
    for k in range(25):
        assert hub.send(first + 3600 * k, hub.now if told else None) == {"accepted": 1}
    assert hub.hours() == list(range(-24, 1))
    hub.close()


@pytest.mark.parametrize("told", [True, False])
def test_no_batch_is_lost_by_a_wrong_clock(tmp_path: Path, told: bool) -> None:
    """Whole hours leave up to half an hour over: what would be of the next hour is of this one."""
    hub = Clocks(tmp_path, MINUTE)
    ahead = (0, 4, 6, 10, 20, 29, 31, 45, 60, 75, 85, 95, 600)
    for minutes in ahead:
        made = hub.now + 60 * minutes
        assert hub.send(made, made if told else None) == {"accepted": 1}, minutes
    # set right since: it was made an hour ahead, and is sent by the right clock
    assert hub.send(hub.now + 3600, hub.now) == {"accepted": 1}
    # right when it was made, set back since
    assert hub.send(hub.now, hub.now - 3 * 3600) == {"accepted": 1}
    assert all(hour in (-1, 0) for hour in hub.hours()), hub.hours()
    count = len(hub.hours())
    for minutes in (-10, -40, -85, -600):
        made = hub.now + 60 * minutes
        assert hub.send(made, made if told else None) == {"accepted": 1}, minutes
    if told:  # else it may have waited
        assert all(hour in (-1, 0) for hour in hub.hours()[count:]), hub.hours()
    hub.close()


def test_the_clock_is_told_as_it_is_sent(
    hub: Served, agent: Token, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent whose clock is three hours behind, and whose batch has waited for ten."""
    real = time.time
    monkeypatch.setattr("tracekit.fleet.client.time.time", lambda: real() - 3 * 3600)
    batch = batch_of(agent.agent, 1)
    hours = {a.hour for a in batch.aggregates}
    with hub.client(agent) as client:
        client.send(dataclasses.replace(batch, sent=real() - 13 * 3600))
    with hub.engine.connect() as connection:
        mine = sa.select(aggregates.c.hour).join(agents, agents.c.id == aggregates.c.agent)
        found = set(connection.execute(mine.where(agents.c.pseudonym == agent.agent)).scalars())
    latest = int(real() // 3600)
    assert found == {min(h + 3, latest) for h in hours}


def test_only_json_is_taken(hub: Served, agent: Token) -> None:
    body = batch_of(agent.agent, 1).to_bytes()
    head = {"Authorization": f"Bearer {agent.reveal()}", "Content-Type": "text/plain"}
    unchanged(hub, lambda: hub.raw("/v1/batches", body, **head), 415, "415: text/plain")
    head["Content-Type"] = "Application/JSON; charset=utf-8"
    assert hub.raw("/v1/batches", body, **head)[0] == 200


# ---- what lasts


def test_one_commit_for_all_that_wait(tmp_path: Path) -> None:
    engine = open_database(str(tmp_path / "h.db"))
    with engine.begin() as connection:
        made = [Token(issue_agent(connection)) for _ in range(50)]
    known = Tokens(engine)
    intake = Intake(engine)
    waiting = []
    for token in made:
        who = known.who(token.reveal(), time.time())
        assert who is not None
        batch = batch_of(token.agent, 1)
        waiting.append(intake.put(batch, who, batch.to_bytes()))
        waiting.append(intake.put(batch, who, batch.to_bytes()))  # a twin in the same commit
    assert [w.result(30) for w in waiting] == [{"accepted": 2}, {"duplicate": True}] * 50
    assert intake.commits < 20
    wrong = batch_of(made[0].agent, 1, weight=7.0)
    who = known.who(made[0].reveal(), time.time())
    assert who is not None
    with pytest.raises(Refused, match="another message"):
        intake.put(wrong, who, wrong.to_bytes()).result(30)
    intake.close()
    assert status(engine)["aggregates"] == 100
    engine.dispose()


def test_what_is_old_is_deleted(tmp_path: Path) -> None:
    engine = open_database(str(tmp_path / "h.db"))
    with engine.begin() as connection:
        token = Token(issue_agent(connection))
    who = Tokens(engine).who(token.reveal(), time.time())
    assert who is not None
    intake = Intake(engine)
    for i, hours in enumerate((1, 24 * 40)):
        hour = int(time.time() // 3600) - hours
        batch = batch_of(token.agent, i + 1, hour=hour)
        intake.put(batch, who, batch.to_bytes()).result(30)
    intake.close()
    assert prune(engine, 30)["aggregates"] == 2
    assert status(engine)["aggregates"] == 2
    replay = batch_of(token.agent, 1)
    again = Intake(engine)
    assert prune(engine, 0)["batches"] == 2
    with pytest.raises(Refused, match="no message that is known"):
        again.put(replay, who, replay.to_bytes()).result(30)
    again.close()
    engine.dispose()


def test_series_that_nobody_has_are_deleted(tmp_path: Path) -> None:
    """Groups and labels are kept no longer than what they name, and a hub that still has a series
    in mind writes it anew."""
    engine = open_database(str(tmp_path / "h.db"))
    with engine.begin() as connection:
        token = Token(issue_agent(connection))
    who = Tokens(engine).who(token.reveal(), time.time())
    assert who is not None
    intake = Intake(engine)

    def put(number: int, label: str, hours: int) -> None:
        hour = int(time.time() // 3600) - hours
        batch = batch_of(token.agent, number, hour=hour, label=label)
        assert intake.put(batch, who, batch.to_bytes()).result(30) == {"accepted": 2}

    def labels() -> list[str]:
        names = sa.select(series.c.label).distinct().order_by(series.c.label)
        with engine.connect() as connection:
            return list(connection.execute(names).scalars())

    def read() -> int:
        joined = sa.select(sa.func.count()).select_from(
            aggregates.join(series, aggregates.c.series == series.c.id)
        )
        with engine.connect() as connection:
            return int(connection.execute(joined).scalar_one())

    put(1, "old", 24 * 40)
    put(2, "new", 1)
    assert prune(engine, 30)["series"] == 2 and labels() == ["new"] and read() == 2
    put(3, "old", 1)  # whose numbers this hub knows, and nobody else any more
    assert labels() == ["new", "old"] and read() == 4
    intake.close()
    assert prune(engine, 30)["series"] == 0 and labels() == ["new", "old"]
    engine.dispose()


def test_the_hub_deletes_what_is_old(tmp_path: Path) -> None:
    (token,) = tokens(str(tmp_path / "h.db"), 1)
    with running(tmp_path / "h.db") as process, HubClient(process.url, token) as client:
        client.send(batch_of(token.agent, 1, hour=int(time.time() // 3600) - 24 * 40))
        client.send(batch_of(token.agent, 2))
    engine = open_database(str(tmp_path / "h.db"))
    with running(tmp_path / "h.db", "--keep-days", "30"):
        until = time.monotonic() + 20
        while status(engine)["aggregates"] != 2:
            assert time.monotonic() < until
            time.sleep(0.05)
    engine.dispose()


def hammer(folder: Path, seconds: float, every: float, agents_: int) -> None:
    """Agents send without a break while the hub is killed every so often: at the end each batch is
    there once, those that were acknowledged and those that had to be sent again."""
    database = str(folder / "h.db")
    made = tokens(database, agents_)
    options = ("--rate", "100000", "--burst", "100000")
    place = {"hub": Process(database, *options)}  # none while there is none
    sent = [0] * len(made)
    acknowledged = [0] * len(made)
    again = [0] * len(made)
    waiting: list[Batch | None] = [None] * len(made)
    stop = threading.Event()
    failures: list[str] = []

    def agent(number: int) -> None:
        while not stop.is_set() or waiting[number] is not None:
            hub = place.get("hub")
            if hub is None:
                time.sleep(0.01)
                continue
            try:
                with HubClient(hub.url, made[number], timeout=10) as client:
                    send(client, number)
            except HubError as e:
                if e.retry_after is None:
                    failures.append(str(e))
                    return
                again[number] += 1
                time.sleep(0.05)

    def send(client: HubClient, number: int) -> None:
        """One after another, first the one that was not acknowledged."""
        while not stop.is_set() or waiting[number] is not None:
            if (batch := waiting[number]) is None:
                batch = waiting[number] = batch_of(made[number].agent, sent[number] + 1, count=20)
                sent[number] += 1
            client.send(batch)
            waiting[number] = None
            acknowledged[number] += 1

    threads = [threading.Thread(target=agent, args=(n,)) for n in range(len(made))]
    for thread in threads:
        thread.start()
    until = time.monotonic() + seconds
    kills = 0
    while time.monotonic() < until:
        time.sleep(every)
        before = sum(acknowledged)
        place.pop("hub").kill()
        kills += 1
        with contextlib.closing(open_database(database).raw_connection()) as connection:
            found = connection.execute("select count(*) from batches").fetchone()[0]
        assert before <= found <= sum(sent), "acknowledged and lost"
        place["hub"] = Process(database, *options)  # at a port of its own: the old one may be taken
    stop.set()
    for thread in threads:
        thread.join(60)
    place["hub"].stop()
    assert not failures
    assert acknowledged == sent and sum(sent) > kills and sum(again) > 0
    engine = open_database(database)
    assert status(engine)["batches"] == sum(sent)
    assert status(engine)["aggregates"] == 20 * sum(sent)
    with engine.connect() as connection:
        distinct = sa.text(
            "select count(*) from (select distinct agent, signature, series from aggregates)"
        )
        assert connection.execute(distinct).scalar_one() == 20 * sum(sent)
    engine.dispose()


def test_killed_under_load(tmp_path: Path) -> None:
    hammer(tmp_path, seconds=2.0, every=1.0, agents_=4)


@pytest.mark.slow
def test_killed_every_ten_seconds(tmp_path: Path) -> None:
    hammer(tmp_path, seconds=60.0, every=10.0, agents_=16)


# ---- commands


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    database = str(tmp_path / "h.db")

    def run(*args: str) -> dict[str, Any]:
        assert main(["hub", *args, "--json"]) == 0, capsys.readouterr().err
        return json.loads(capsys.readouterr().out)

    token = run("token", database)["token"]
    (tmp_path / "token").write_text(token + "\n")
    (tmp_path / "token").chmod(0o644)
    with pytest.raises(TracekitError, match="others may read it"):
        read_token(tmp_path / "token")
    (tmp_path / "token").chmod(0o600)
    pseudonym = read_token(tmp_path / "token").agent
    assert run("token", database, "--agent", pseudonym)["token"] != token
    assert run("token", database, "--viewer")["token"].startswith("tkv1.")
    assert run("status", database)["agents"] == 1
    assert run("revoke", database, pseudonym)["revoked"] == 2
    assert run("revoke", database, "--viewers")["revoked"] == 1
    assert "hidden" in run("ask", database)
    assert run("prune", database, "--days", "1")["aggregates"] == 0
    for wrong in (
        ["hub"],
        ["hub", "--demo"],
        ["hub", "--demo", "--traces", "x", "--agents", "2"],
        ["hub", "--demo", "--traces", "x", "--port", "70000"],
        ["hub", "--demo", "--traces", "x", "--port", "-1"],
        ["hub", "--demo", "status", database],
        ["hub", "--demo", "serve", database],
        ["hub", "revoke", database, "nobody"],
        ["hub", "revoke", database],
        ["hub", "serve", database, "--listen", "0.0.0.0:0"],
        ["hub", "serve", database, "--listen", "x"],
        ["hub", "serve", database, "--listen", "127.0.0.1:\u00b2"],
        ["hub", "serve", database, "--keep-days", "inf"],
        ["hub", "prune", database, "--days", "inf"],
        ["hub", "token", database, "--viewer", "--agent", "x"],
        ["hub", "ask", database, "--label", SQL],
    ):
        try:
            code = main(wrong)
        except SystemExit as e:
            code = int(str(e.code))
        assert code == 2, wrong
        assert "Traceback" not in capsys.readouterr().err


def test_tls(tmp_path: Path) -> None:
    """The hub's own certificate; agents check it."""
    pair = certificate(tmp_path)
    (token,) = tokens(str(tmp_path / "h.db"), 1)
    with running(tmp_path / "h.db", *pair) as process:
        assert process.url.startswith("https://")
        with HubClient(process.url, token, authority=tmp_path / "c.pem") as client:
            assert client.send(batch_of(token.agent, 1)) == {"accepted": 2}
        with HubClient(process.url, token) as client, pytest.raises(HubError, match="not to be"):
            client.send(batch_of(token.agent, 2))


def test_models_by_tls(tmp_path: Path) -> None:
    pytest.importorskip("tuf", reason="needs the extra hub")
    from tracekit.repository import ModelStore

    pair = certificate(tmp_path)
    made = published(tmp_path)
    with running(tmp_path / "h.db", *pair, "--repository", str(tmp_path / "r")) as process:
        root, fingerprint, place = (
            made.root_file(1),
            made.fingerprint(1),
            process.url + "/repository",
        )
        known = ModelStore.trust(
            root, fingerprint, place, tmp_path / "s", authority=str(tmp_path / "c.pem")
        )
        assert known.get("m").version == 1
        unknown = ModelStore.trust(root, fingerprint, place, tmp_path / "t")
        with pytest.raises(TracekitError, match="not to be reached"):
            unknown.get("m")


def test_what_only_asks_makes_no_database(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "ghost.db"
    for action in ("status", "ask", "revoke"):
        args = ["hub", action, str(path), *(["a"] if action == "revoke" else [])]
        assert main(args) == 1
        assert f"{path}: no such file" in capsys.readouterr().err
    assert not path.exists()
