"""Whom a proxy of this computer speaks for.

The proxy ends TLS and adds two headers to each request: the address that it came from, at the end
of ``X-Forwarded-For``, and ``X-Forwarded-Proto: https``.  What stands before that address the
sender wrote, and it is not believed.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

__all__ = ["BehindProxy", "Mistrusted", "client_of"]

TRUSTED: Final = ("127.0.0.1", "::1")
"""Where the proxy's connections come from."""

Scope = MutableMapping[str, Any]
Application = Callable[[Scope, Any, Any], Awaitable[None]]


class Mistrusted(Exception):
    """A request that nobody who is trusted forwarded: ``status`` of HTTP and why."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


def client_of(peer: str, headers: list[tuple[bytes, bytes]]) -> str:
    """The address that a request came from: ``peer`` where the proxy's computer asks for itself.

    Raises `Mistrusted` where the peer is not the proxy, where the last address of X-Forwarded-For
    is none, or where the request came to the proxy without TLS.
    """
    if peer not in TRUSTED:
        raise Mistrusted(403, "only the proxy of this computer speaks to this hub")
    found = b",".join(v for k, v in headers if k == b"x-forwarded-for").decode("latin-1")
    if not found.strip():
        return peer
    last = found.rpartition(",")[2].strip()
    try:
        client = str(ipaddress.ip_address(last))
    except ValueError:
        raise Mistrusted(400, "the last of X-Forwarded-For is no address") from None
    how = [v.strip().lower() for k, v in headers if k == b"x-forwarded-proto"]
    if how != [b"https"]:
        raise Mistrusted(403, "the proxy does not say X-Forwarded-Proto: https")
    return client


class BehindProxy:
    """An ASGI application whose requests have their true client.  ``refuse`` answers those that
    nobody who is trusted forwarded; it is told the peer."""

    def __init__(
        self, inner: Application, refuse: Callable[[str, Mistrusted], Application]
    ) -> None:
        self._inner, self._refuse = inner, refuse

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """One request."""
        peer = (scope.get("client") or ("", 0))[0]
        try:
            scope["client"] = (client_of(peer, scope["headers"]), 0)
        except Mistrusted as e:
            await self._refuse(peer, e)(scope, receive, send)
            return
        await self._inner(scope, receive, send)
