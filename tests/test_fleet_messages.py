"""Messages of agents: what goes out comes back, and whatever else is refused by its place."""

from __future__ import annotations

import contextlib
import http.server
import json
import socket
import threading
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit.errors import FormatError, UsageError
from tracekit.fleet import (
    Aggregate,
    Batch,
    Forget,
    HubClient,
    HubError,
    Observed,
    Subscription,
    Token,
    parse_batch,
    parse_forget,
    parse_subscription,
)
from tracekit.fleet.messages import MAX_BODY, check_depth

AGENT, NUMBER, SIGNATURE = "a" * 32, "0123456789abcdef" * 2, "f" * 64
TOKEN = f"tkh1.{AGENT}.{'s' * 43}"
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._+ -]{0,63}", fullmatch=True)
HEX = st.text("0123456789abcdef", min_size=64, max_size=64)


def aggregate(**changed: Any) -> Aggregate:
    values: dict[str, Any] = {
        "design": "ns_8w",
        "model": "mixture-x86",
        "model_version": "3",
        "signature": SIGNATURE,
        "hour": 490_000,
        "instructions": 100_000,
        "cycles": 81_000.5,
        "half_width": 900.0,
        "weight": 2.5,
        "clock_ghz": 2.0,
    }
    return Aggregate(**{**values, **changed})


def batch(**changed: Any) -> Batch:
    values: dict[str, Any] = {
        "agent": AGENT,
        "batch": NUMBER,
        "sequence": 1,
        "sent": 1.764e9,
        "aggregates": (aggregate(),),
    }
    return Batch(**{**values, **changed})


@given(
    st.lists(
        st.builds(
            aggregate,
            design=NAMES,
            signature=HEX,
            cycles=st.floats(1e-3, 1e15),
            weight=st.floats(1e-9, 1e9),
            distance=st.none() | st.floats(0, 1e12),
            label=st.none() | NAMES,
        ),
        max_size=100,
    ),
    st.none() | NAMES,
)
def test_a_batch_comes_back(aggregates: list[Aggregate], group: str | None) -> None:
    sent = batch(aggregates=tuple(aggregates), group=group, observed=(Observed(490_000, 12.5),))
    assert parse_batch(sent.to_bytes()) == sent


def test_the_other_messages_come_back() -> None:
    some = Forget(AGENT, NUMBER, 2, 1.0, signatures=(SIGNATURE,))
    everything = Forget(AGENT, NUMBER, 2, 1.0, everything=True)
    told = Subscription(AGENT, 1.0, ("ns_8w", "o3_small"))
    assert parse_forget(some.to_bytes()) == some
    assert parse_forget(everything.to_bytes()) == everything
    assert parse_subscription(told.to_bytes()) == told


def broken(**changed: Any) -> bytes:
    """A good batch with these keys of its aggregate changed; None takes one away."""
    value = json.loads(batch().to_bytes())
    value["aggregates"][0].update(changed)
    value["aggregates"][0] = {k: v for k, v in value["aggregates"][0].items() if v is not None}
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("design", "<b>x</b>"),
        ("design", "'; drop table aggregates; --"),
        ("design", ""),
        ("design", "x" * 65),
        ("design", "../x"),
        ("design", 7),
        ("model_version", None),
        ("signature", SIGNATURE.upper()),
        ("signature", SIGNATURE + "\n"),
        ("hour", 1.5),
        ("hour", True),
        ("instructions", 0),
        ("instructions", 10**400),
        ("cycles", 0),
        ("cycles", float("nan")),
        ("cycles", float("inf")),
        ("cycles", "1"),
        ("half_width", -1),
        ("weight", 0),
        ("clock_ghz", False),
        ("distance", -0.1),
        ("label", ["a"]),
        ("path", "/home/x"),
    ],
)
def test_a_wrong_field_is_refused_by_its_place(key: str, value: Any) -> None:
    with pytest.raises(FormatError, match=rf"aggregates\[0\].*{key}|not JSON"):
        parse_batch(broken(**{key: value}))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"null",
        b"\xff",
        b"{",
        b'{"version": 1}',
        b'{"version":1,"version":1}',
        batch().to_bytes().replace(b'"version":1', b'"version":2'),
        batch().to_bytes().replace(b'"version":1', b'"version":true'),
        batch().to_bytes().replace(b'"sequence":1', b'"sequence":0'),
        batch(aggregates=(aggregate(),) * 101).to_bytes(),
        b"[" * 100_000,
        b'{"a":' * 5 + b"1" + b"}" * 5,
        b" " * (MAX_BODY + 1),
    ],
)
def test_a_wrong_message_is_refused(data: bytes) -> None:
    for parse in (parse_batch, parse_forget, parse_subscription):
        with pytest.raises(FormatError):
            parse(data)


def test_brackets_in_strings_do_not_count() -> None:
    check_depth(b'["[[[[[[", "\\"[[[[[["]', 1)
    with pytest.raises(FormatError, match="more than 1 deep"):
        check_depth(b'["]", []]', 1)


def test_to_forget_takes_either() -> None:
    for changed in ({"signatures": (SIGNATURE,), "everything": True}, {}):
        with pytest.raises(FormatError, match="either"):
            parse_forget(Forget(AGENT, NUMBER, 2, 1.0, **changed).to_bytes())


def test_a_token_goes_nowhere_in_clear() -> None:
    token = Token(TOKEN)
    assert "sss" not in repr(token)
    with pytest.raises(UsageError, match="without TLS"):
        HubClient("http://hub.example", token)
    for url in ("ftp://x", "https://u:p@hub.example", "hub.example", "https://hub.example:x"):
        with pytest.raises(UsageError):
            HubClient(url, token)
    with pytest.raises(FormatError, match="no token"):
        Token("tkh1.abc.def")


def test_what_is_no_hub_acknowledges_and_refuses_nothing() -> None:
    """A page of a proxy, whatever its status: the message is sent again."""
    answers: list[tuple[int, bytes, str]] = [
        (200, b"<html>maintenance</html>", ""),
        (200, b"{}", ""),
        (200, b'{"error": "x"}', ""),
        (400, b"<html>plain HTTP to an HTTPS port</html>", ""),
        (413, b"[]", ""),
        (429, b'{"error": "too many messages"}', "\u00b2"),
        (200, b'{"accepted": 0}', ""),
    ]

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            status, body, wait = answers.pop(0)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Retry-After", wait)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    batch = Batch(AGENT, NUMBER, 1, 1.0, ())
    with HubClient(f"http://127.0.0.1:{server.server_port}", Token(TOKEN)) as client:
        for status in (0, 0, 0, 0, 0, 429):
            with pytest.raises(HubError) as refused:
                client.send(batch)
            assert refused.value.status == status and refused.value.retry_after == 60.0
        assert client.send(batch) == {"accepted": 0}
    server.shutdown()
    server.server_close()


def test_a_hub_that_answers_without_end() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            connection, _ = server.accept()
            with connection, contextlib.suppress(OSError):
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
                while True:
                    connection.sendall(b" ")
                    time.sleep(0.1)

        thread = threading.Thread(target=drip)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        began = time.monotonic()
        with HubClient(url, Token(TOKEN), timeout=0.5) as client, pytest.raises(HubError) as told:
            client.send(Batch(AGENT, NUMBER, 1, 1.0, ()))
        assert told.value.status == 0 and time.monotonic() - began < 30
        thread.join()


@pytest.mark.parametrize("url", ["https://hub..example", "http://127.0.0.1:9/é"])
def test_a_hub_whose_name_is_none(url: str) -> None:
    with HubClient(url, Token(TOKEN)) as client, pytest.raises(HubError, match="not to be reached"):
        client.send(Batch(AGENT, NUMBER, 1, 1.0, ()))
