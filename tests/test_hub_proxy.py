"""A hub behind a proxy that ends TLS: whom it takes a request for, and what it refuses."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import json
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy", reason="needs the extra hub")
pytest.importorskip("alembic", reason="needs the extra hub")
pytest.importorskip("starlette", reason="needs the extra hub")
pytest.importorskip("uvicorn", reason="needs the extra hub")
pytest.importorskip("jinja2", reason="needs the extra hub")

import sqlalchemy as sa

from tests.hub_process import Process, batch_of, certificate, running, tokens
from tracekit.cli.main import main
from tracekit.fleet import HubClient, Token
from tracekit.hub import open_database
from tracekit.hub.proxy import Mistrusted, client_of
from tracekit.hub.tables import aggregates, audit

WRONG = f"tkh1.{'ab' * 16}.{'x' * 43}"


class Proxy:
    """TLS at ``port``; each request goes on to the hub with what nginx adds by
    ``proxy_add_x_forwarded_for``."""

    def __init__(self, folder: Path, hub: int) -> None:
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def _forward(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                given = self.headers.get("X-Forwarded-For")
                headers = {
                    k: v for k, v in self.headers.items() if not k.lower().startswith("x-forwarded")
                }
                seen = self.client_address[0]
                headers["X-Forwarded-For"] = seen if given is None else f"{given}, {seen}"
                headers["X-Forwarded-Proto"] = "https"
                to = http.client.HTTPConnection("127.0.0.1", hub, timeout=30)
                with contextlib.closing(to):
                    to.request(self.command, self.path, body or None, headers)
                    found = to.getresponse()
                    text = found.read()
                self.send_response(found.status)
                for name, value in found.getheaders():
                    if name.lower() not in ("content-length", "connection"):
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = _forward

        self.authority = folder / "c.pem"
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.authority, folder / "k.pem")
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def post(self, sender: str, token: str, body: bytes = b"{}", **headers: str) -> int:
        """The status of a batch that an address of this computer sends by TLS."""
        context = ssl.create_default_context(cafile=str(self.authority))
        made = http.client.HTTPSConnection(
            "127.0.0.1", self.port, timeout=30, source_address=(sender, 0), context=context
        )
        known = {
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
            **headers,
        }
        with contextlib.closing(made):
            made.request("POST", "/v1/batches", body, known)
            return made.getresponse().status

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Served:
    """A hub behind a proxy, and its database seen from outside."""

    def __init__(self, process: Process, proxy: Proxy, token: Token, database: str) -> None:
        self.process, self.proxy, self.token = process, proxy, token
        self._engine = open_database(database)

    def count(self) -> int:
        with self._engine.connect() as connection:
            every = sa.select(sa.func.count()).select_from(aggregates)
            return int(connection.execute(every).scalar_one())

    def log(self) -> list[tuple[str, str]]:
        """Who and what, up to the last message that was acknowledged."""
        with self._engine.connect() as connection:
            rows = connection.execute(sa.select(audit).order_by(audit.c.id))
            return [(r.who, r.detail) for r in rows]

    def direct(self, sender: str, body: bytes, **headers: str) -> tuple[int, str]:
        """Past the proxy: status and error."""
        made = http.client.HTTPConnection(
            "127.0.0.1", self.process.port, timeout=30, source_address=(sender, 0)
        )
        known = {
            "Authorization": f"Bearer {self.token.reveal()}",
            "Content-Type": "application/json",
            **headers,
        }
        with contextlib.closing(made):
            made.request("POST", "/v1/batches", body, known)
            answer = made.getresponse()
            return answer.status, json.loads(answer.read()).get("error", "")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    certificate(tmp_path)
    database = str(tmp_path / "h.db")
    (token,) = tokens(database, 1)
    with running(database, "--behind-proxy") as process:
        proxy = Proxy(tmp_path, process.port)
        try:
            yield Served(process, proxy, token, database)
        finally:
            proxy.close()


def test_an_agent_reports_through_the_proxy(served: Served) -> None:
    url = f"https://127.0.0.1:{served.proxy.port}"
    with HubClient(url, served.token, authority=served.proxy.authority) as client:
        batch = batch_of(served.token.agent, 1)
        assert client.send(batch) == {"accepted": 2}
        assert client.send(batch) == {"duplicate": True}
    assert served.count() == 2


def test_limits_are_those_of_the_true_client(served: Served) -> None:
    """Whatever addresses it says that it speaks for."""
    post = served.proxy.post
    statuses = {post("127.0.0.2", WRONG, **{"X-Forwarded-For": f"10.0.0.{n}"}) for n in range(30)}
    assert statuses == {401, 429}
    for headers in ({}, {"X-Forwarded-For": "127.0.0.1"}):  # one a second is let through
        assert 429 in [post("127.0.0.2", WRONG, **headers) for _ in range(5)]
    assert post("127.0.0.3", WRONG) == 401, "another computer is not limited by that"
    body = batch_of(served.token.agent, 1).to_bytes()
    assert post("127.0.0.2", served.token.reveal(), body) == 200, "nor are tokens that are right"
    said = [who for who, detail in served.log() if "no token" in detail]
    assert set(said) == {"127.0.0.2", "127.0.0.3"}


def test_forged_headers_are_refused(served: Served) -> None:
    """Only the proxy's address says whom it speaks for, and by TLS alone."""
    body = batch_of(served.token.agent, 1).to_bytes()
    told = {"X-Forwarded-For": "10.0.0.1", "X-Forwarded-Proto": "https"}
    refused = []
    for sender, headers, status, why in (
        ("127.0.0.2", told, 403, "only the proxy"),
        ("127.0.0.2", {}, 403, "only the proxy"),
        ("127.0.0.1", {**told, "X-Forwarded-Proto": "http"}, 403, "X-Forwarded-Proto"),
        ("127.0.0.1", {"X-Forwarded-For": "10.0.0.1"}, 403, "X-Forwarded-Proto"),
        ("127.0.0.1", {**told, "X-Forwarded-For": "10.0.0.1, <b>"}, 400, "no address"),
        ("127.0.0.1", {**told, "X-Forwarded-For": "10.0.0.1,"}, 400, "no address"),
    ):
        found, error = served.direct(sender, body, **headers)
        assert (found, why in error) == (status, True), (headers, error)
        refused.append((sender, f"{status}: {error}"))
    assert served.count() == 0
    assert served.direct("127.0.0.1", body, **told)[0] == 200
    assert served.count() == 2
    assert served.log()[: len(refused)] == refused


def test_without_a_proxy_nobody_speaks_for_others(tmp_path: Path) -> None:
    database = str(tmp_path / "h.db")
    (token,) = tokens(database, 1)
    with running(database) as process:
        hub = Served(process, None, token, database)  # type: ignore[arg-type]
        wrong = {"Authorization": f"Bearer {WRONG}", "X-Forwarded-Proto": "https"}
        statuses = {
            hub.direct("127.0.0.2", b"{}", **wrong, **{"X-Forwarded-For": f"10.0.0.{n}"})[0]
            for n in range(30)
        }
        assert statuses == {401, 429}
        forged = {"X-Forwarded-For": "<b>", "X-Forwarded-Proto": "http"}
        body = batch_of(token.agent, 1).to_bytes()
        assert hub.direct("127.0.0.2", body, **forged)[0] == 200, "nobody reads them"
        assert {who for who, detail in hub.log() if "no token" in detail} == {"127.0.0.2"}


def test_tokens_never_travel_in_clear(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for more in ([], ["--behind-proxy"]):
        command = ["hub", "serve", str(tmp_path / "h.db"), "--listen", "0.0.0.0:0", *more]
        assert main(command) == 2
        assert "other computers need TLS" in capsys.readouterr().err


def test_the_last_address_counts() -> None:
    https = (b"x-forwarded-proto", b"https")

    def client(*given: str, peer: str = "127.0.0.1") -> str:
        return client_of(peer, [(b"x-forwarded-for", g.encode()) for g in given] + [https])

    assert client() == "127.0.0.1"
    assert client("1.2.3.4, 5.6.7.8") == "5.6.7.8"
    assert client("1.2.3.4", "5.6.7.8") == "5.6.7.8", "another line, as HAProxy adds it"
    assert client("1.2.3.4, 127.0.0.1") == "127.0.0.1"
    assert client(" 2001:DB8::1 ", peer="::1") == "2001:db8::1"
    for peer in ("10.0.0.1", "127.0.0.2", "", "localhost"):
        with pytest.raises(Mistrusted):
            client("1.2.3.4", peer=peer)
    with pytest.raises(Mistrusted):
        client_of("127.0.0.1", [(b"x-forwarded-for", b"1.2.3.4"), https, https])
