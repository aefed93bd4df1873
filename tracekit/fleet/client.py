"""An agent's side of the wire: one connection, one message at a time, each with its answer."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import ssl
import threading
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tracekit.errors import FormatError, TracekitError, UsageError
from tracekit.fleet.messages import (
    CLOCK_HEADER,
    MAX_COUNT,
    Batch,
    Forget,
    Subscription,
    check_depth,
)
from tracekit.io.files import read_private
from tracekit.io.remote import is_this_computer
from tracekit.text import shown

__all__ = ["HubClient", "HubError", "Token", "read_token"]

_TOKEN: Final = re.compile(r"tkh1\.([0-9a-f]{32})\.([A-Za-z0-9_-]{43})")
MAX_ANSWER: Final = 1 << 20
TIMEOUT: Final = 30.0
"""Seconds that the hub has for each step of an answer."""
PATIENCE: Final = 4
"""Times as many it has for all of an answer."""


class HubError(TracekitError):
    """The hub refused a message, or is not to be reached.

    ``status``: its HTTP status, 0 where no hub answered.  ``retry_after``: seconds after which
    the same message may be sent again; None where it would be refused again.  ``last``: the largest
    sequence that the hub has of this agent, where it refused the message's for being none above it.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        retry_after: float | None,
        url: str,
        last: int | None = None,
    ) -> None:
        super().__init__(message, path=url)
        self.status, self.retry_after, self.last = status, retry_after, last


class Token:
    """An agent's right to report: its pseudonym and a secret, which no message shows."""

    def __init__(self, text: str) -> None:
        found = _TOKEN.fullmatch(text.strip())
        if found is None:
            raise FormatError("is no token of a hub: tkh1.PSEUDONYM.SECRET")
        self.agent, self._text = found[1], found[0]

    def reveal(self) -> str:
        """The whole token."""
        return self._text

    def __repr__(self) -> str:
        return f"Token({self.agent})"


def read_token(path: str | Path) -> Token:
    """The token in a file that nobody else may read (mode 0600); raises `TracekitError` where
    others may, FormatError where it holds none."""
    data = read_private(path, 1024)
    try:
        return Token(data.decode("ascii"))
    except (UnicodeDecodeError, FormatError):
        raise FormatError("is no token of a hub: tkh1.PSEUDONYM.SECRET", path=str(path)) from None


class HubClient:
    """A hub at ``url`` (https, or http of this computer).  ``authority``: a file of certificates
    that the hub's is checked against instead of the system's.  Close it, or use ``with``."""

    def __init__(
        self,
        url: str,
        token: Token,
        *,
        authority: str | Path | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        parts = urllib.parse.urlsplit(url)
        local = is_this_computer(parts.hostname)
        if parts.hostname is None or parts.scheme not in ("https", "http"):
            raise UsageError("is no https URL of a hub", path=url)
        if parts.username or parts.password or parts.query or parts.fragment:
            raise UsageError("a hub's URL has a host, a port and a path alone", path=parts.hostname)
        if parts.scheme == "http" and not local:
            raise UsageError("a token does not travel without TLS", path=url, hint="use https")
        self._url, self._token = url, token
        self._prefix = parts.path.rstrip("/")
        try:
            port = parts.port
        except ValueError:
            raise UsageError("has no port that can be", path=url) from None
        self._http: http.client.HTTPConnection
        self._patience = PATIENCE * timeout
        if parts.scheme == "https":
            try:
                context = ssl.create_default_context(cafile=authority)
            except (OSError, ssl.SSLError) as e:
                raise FormatError(f"no certificates: {e}", path=str(authority)) from None
            self._http = http.client.HTTPSConnection(
                parts.hostname, port, timeout=timeout, context=context
            )
        else:
            self._http = http.client.HTTPConnection(parts.hostname, port, timeout=timeout)

    def send(self, batch: Batch) -> dict[str, Any]:
        """Report; the hub's answer: {"accepted": n} or {"duplicate": true}.  What it says here is
        on its disk."""
        return self._post("/v1/batches", batch.to_bytes(), "accepted")

    def forget(self, request: Forget) -> dict[str, Any]:
        """Delete; the answer {"deleted": n}."""
        return self._post("/v1/forget", request.to_bytes(), "deleted")

    def subscribe(self, subscription: Subscription) -> dict[str, Any]:
        """Tell the designs; the answer {"subscribed": n}."""
        return self._post("/v1/subscribe", subscription.to_bytes(), "subscribed")

    def rotate(self) -> Token:
        """A new token; the old one ends with the first message that the new one brings."""
        text = self._post("/v1/token", b"{}", "token")["token"]
        new = Token(text if isinstance(text, str) else "")
        if new.agent != self._token.agent:
            raise FormatError("the new token is another agent's", path=self._url)
        self._token = new
        return new

    def close(self) -> None:
        """End the connection."""
        self._http.close()

    def __enter__(self) -> HubClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _post(self, path: str, body: bytes, told: str) -> dict[str, Any]:
        """The answer to a message, which has the key ``told``.  What is no hub's answer (a proxy's
        page, say) neither acknowledges nor refuses, whatever its status."""
        head = {
            "Authorization": f"Bearer {self._token.reveal()}",
            "Content-Type": "application/json",
        }
        for attempt in (0, 1):
            head[CLOCK_HEADER] = f"{time.time():.3f}"
            fresh = self._http.sock is None
            try:
                self._http.request("POST", self._prefix + path, body, head)
                with self._deadline():
                    answer = self._http.getresponse()
                    data = answer.read(MAX_ANSWER + 1)
                break
            except (OSError, UnicodeError, http.client.HTTPException) as e:  # a name that is none
                self._http.close()
                # A kept connection may have been closed meanwhile; messages may come twice.
                if attempt == 0 and not fresh and not isinstance(e, socket.timeout):
                    continue
                raise HubError(
                    f"not to be reached: {e or type(e).__name__}",
                    status=0,
                    retry_after=60.0,
                    url=self._url,
                ) from None
        value = self._value(data)
        if answer.status == 200 and (told in value or value.get("duplicate") is True):
            return value
        if answer.status == 200 or "error" not in value:
            why = f"what answers ({answer.status}) is no hub"
            raise HubError(why, status=0, retry_after=60.0, url=self._url)
        again = answer.status in (408, 429) or answer.status >= 500
        wait = answer.headers.get("Retry-After", "")
        last = value.get("last")
        raise HubError(
            f"refused ({answer.status}): {shown(value['error'])[:300]}",
            status=answer.status,
            retry_after=(float(wait) if wait.isdecimal() else 60.0) if again else None,
            url=self._url,
            last=last if type(last) is int and 0 <= last < MAX_COUNT else None,
        )

    @contextlib.contextmanager
    def _deadline(self) -> Iterator[None]:
        """An answer of a byte now and then ends, too: its connection is cut."""
        found = self._http.sock

        def cut() -> None:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(found, socket.SHUT_RDWR)  # below TLS

        timer = threading.Timer(self._patience, cut)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _value(self, data: bytes) -> dict[str, Any]:
        try:
            if len(data) > MAX_ANSWER:
                raise ValueError
            check_depth(data, 16)
            value = json.loads(data)
        except (ValueError, FormatError):
            value = None
        if not isinstance(value, dict):
            self._http.close()
            return {}
        return value
