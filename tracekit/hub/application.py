"""The hub's paths: messages of agents, the repository, answers and pages."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import re
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import anyio
import sqlalchemy as sa
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from tracekit.errors import FormatError, UsageError
from tracekit.fleet.messages import (
    CLOCK_HEADER,
    MAX_BODY,
    parse_batch,
    parse_forget,
    parse_subscription,
)
from tracekit.hub.answering import Answering, Question
from tracekit.hub.intake import Busy, Intake, Message, Refused, Rotation
from tracekit.hub.limits import Rate
from tracekit.hub.model_errors import ModelErrors
from tracekit.hub.pages import Pages
from tracekit.hub.proxy import BehindProxy, Mistrusted
from tracekit.hub.tokens import Tokens, Who
from tracekit.text import note, shown

__all__ = ["Hub", "Settings"]

PATIENCE: Final = 15.0
"""Seconds that the body of a message may take."""
_CLOCK: Final = re.compile(r"[0-9]{1,11}(\.[0-9]{1,9})?")
_PLACE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+~-]{0,299}")
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass
class Settings:
    """``rate``, ``burst``: messages of an agent, a second and at once.  ``open_page``: anybody who
    reaches the hub may look; else a viewer's token is asked for.  ``interval``: seconds between
    releases.  ``repository``: the folder that is served, if any.  ``behind_proxy``: requests come
    from a proxy of this computer, which says whom it speaks for."""

    rate: float = 2.0
    burst: float = 60.0
    open_page: bool = False
    interval: float = 86_400.0
    repository: Path | None = None
    behind_proxy: bool = False
    clock: Callable[[], float] = field(default=time.time)


class Hub:
    """``application`` is the ASGI application; ``close`` writes what waits."""

    def __init__(self, engine: sa.Engine, settings: Settings) -> None:
        self._settings, self._engine = settings, engine
        self.intake = Intake(engine, clock=settings.clock)
        self.tokens = Tokens(engine)
        self.answering = Answering(
            engine,
            interval=settings.interval,
            clock=settings.clock,
            errors=ModelErrors(settings.repository),
        )
        self._pages = Pages(engine)
        self._rates = Rate(settings.rate, settings.burst)
        self._strangers = Rate(1.0, 20.0)
        routes = [
            Route("/v1/batches", self._receiver(parse_batch), methods=["POST"]),
            Route("/v1/forget", self._receiver(parse_forget), methods=["POST"]),
            Route("/v1/subscribe", self._receiver(parse_subscription), methods=["POST"]),
            Route("/v1/token", self._receiver(_rotation), methods=["POST"]),
            Route("/v1/fleet", self._json, methods=["GET"]),
            Route("/repository/{kind}/{name}", self._repository, methods=["GET"]),
            Route("/hub.css", self._style, methods=["GET"]),
            Route("/", self._page, methods=["GET"]),
            Route("/ab", self._page, methods=["GET"]),
            Route("/audit", self._page, methods=["GET"]),
        ]
        inner = Starlette(
            routes=routes,
            exception_handlers={sa.exc.SQLAlchemyError: _no_database, Exception: _failed},
        )
        self.application: Any = (
            BehindProxy(inner, self._mistrusted) if settings.behind_proxy else inner
        )

    def close(self) -> None:
        """Write what waits, and end."""
        self.intake.close()
        self._engine.dispose()

    def _mistrusted(self, peer: str, error: Mistrusted) -> Response:
        if self._strangers.wait(peer, self._settings.clock()) == 0:
            self.intake.note("refused", peer, f"{error.status}: {error}")
        return _error(error.status, str(error))

    # ---- agents

    def _receiver(self, parse: Callable[[bytes], Message]) -> Callable[[Request], Any]:
        async def receive(request: Request) -> Response:
            try:
                return await self._receive(request, parse)
            except Refused as e:
                return _error(e.status, str(e), last=e.last)
            except _Wait as e:
                return _error(e.status, str(e), e.seconds)

        return receive

    async def _receive(self, request: Request, parse: Callable[[bytes], Message]) -> Response:
        who = self._agent(request)
        clock = self._head(request, who)
        body = await self._body(request, who)
        try:
            message = parse(body)
        except FormatError as e:
            self.intake.note("refused", who.pseudonym, f"400: {shown(e)}")
            raise Refused(400, str(e)) from None
        agent = getattr(message, "agent", who.pseudonym)
        if agent != who.pseudonym:
            self.intake.note("refused", who.pseudonym, f"403: in the name of {agent}")
            raise Refused(403, "the message is another agent's")
        try:
            waiting: Future[dict[str, Any]] = self.intake.put(message, who, body, clock)
        except Busy:
            raise _Wait(503, "too many messages wait", 5) from None
        try:
            answer = await asyncio.wrap_future(waiting)
        except sa.exc.SQLAlchemyError:
            raise _Wait(503, "the database did not take it", 10) from None
        if isinstance(message, Rotation):
            self.tokens.forget()
        elif who.fresh:
            self.tokens.forget()  # older ones have ended
        if "deleted" in answer:
            self.answering.changed()
        return JSONResponse(answer)

    def _agent(self, request: Request) -> Who:
        """Whose the message is; raises Refused or _Wait."""
        now = self._settings.clock()
        peer = request.client.host if request.client is not None else ""
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        who = self.tokens.who(token, now) if kind.lower() == "bearer" else None
        if who is None or who.kind != "agent":
            if self._strangers.wait(peer, now) > 0:
                raise _Wait(429, "too many wrong tokens", 30)
            self.intake.note("refused", peer, "401: no token of an agent")
            raise Refused(401, "no token of an agent")
        if (seconds := self._rates.wait(who.pseudonym, now)) > 0:
            raise _Wait(429, "too many messages", seconds)
        return who

    def _head(self, request: Request, who: Who) -> float | None:
        """The agent's clock as it sends, None where it does not tell; raises Refused where that is
        no number, and where the body is said to be no JSON."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            self.intake.note("refused", who.pseudonym, f"415: {shown(kind)[:80]}")
            raise Refused(415, "the Content-Type is not application/json")
        text = request.headers.get(CLOCK_HEADER)
        if text is None:
            return None
        if not _CLOCK.fullmatch(text):
            self.intake.note("refused", who.pseudonym, f"400: a clock of {shown(text)[:40]}")
            raise Refused(400, f"{CLOCK_HEADER} is no number of seconds since 1970")
        return float(text)

    async def _body(self, request: Request, who: Who) -> bytes:
        """The body; raises Refused where it is too large, _Wait where it is too slow."""
        said = request.headers.get("content-length", "")
        if said.isdigit() and int(said) > MAX_BODY:
            self.intake.note("refused", who.pseudonym, f"413: a body of {said[:20]} bytes")
            raise Refused(413, f"more than {MAX_BODY} bytes")
        pieces, size = [], 0
        try:
            with anyio.fail_after(PATIENCE):
                async for piece in request.stream():
                    size += len(piece)
                    if size > MAX_BODY:
                        self.intake.note("refused", who.pseudonym, "413: a body without end")
                        raise Refused(413, f"more than {MAX_BODY} bytes")
                    pieces.append(piece)
        except TimeoutError:
            raise _Wait(408, f"the body took more than {PATIENCE:g} seconds", 1) from None
        except ClientDisconnect:
            raise _Wait(408, "gone", 1) from None
        return b"".join(pieces)

    # ---- users

    def _repository(self, request: Request) -> Response:
        kind, name = request.path_params["kind"], request.path_params["name"]
        folder = self._settings.repository
        right = kind in ("metadata", "targets") and _PLACE.fullmatch(name) is not None
        if folder is None or not right or ".." in name:
            return _error(404, "not here")
        place = folder / kind / name
        if not place.is_file():
            return _error(404, "not here")
        return FileResponse(place, media_type="application/octet-stream", headers=_HEADERS)

    def _may_look(self, request: Request) -> bool:
        if self._settings.open_page:
            return True
        kind, _, text = request.headers.get("authorization", "").partition(" ")
        token = text
        if kind.lower() == "basic":
            with contextlib.suppress(ValueError, binascii.Error):
                token = base64.b64decode(text, validate=True).decode().partition(":")[2]
        now = self._settings.clock()
        peer = request.client.host if request.client is not None else ""
        who = self.tokens.who(token, now)
        if who is None or who.kind != "viewer":
            if kind and self._strangers.wait(peer, now) == 0:
                self.intake.note("refused", peer, "401: no token of a viewer")
            return False
        return True

    def _json(self, request: Request) -> Response:
        if not self._may_look(request):
            return _unknown()
        try:
            question = question_of(dict(request.query_params))
        except UsageError as e:
            return _error(400, str(e))
        answer = self.answering.overview() if question is None else self.answering.ask(question)
        return JSONResponse({"schema": 2, **answer}, headers=_HEADERS)

    def _page(self, request: Request) -> Response:
        if not self._may_look(request):
            return _unknown()
        try:
            text = self._pages.page(request.url.path, dict(request.query_params), self.answering)
        except UsageError as e:
            return PlainTextResponse(f"{e}\n", 400, headers=_HEADERS)
        return Response(text, media_type="text/html; charset=utf-8", headers=_HEADERS)

    def _style(self, request: Request) -> Response:
        return Response(self._pages.style, media_type="text/css", headers=_HEADERS)


class _Wait(Exception):
    """A message that may be sent again in ``seconds``."""

    def __init__(self, status: int, why: str, seconds: float) -> None:
        super().__init__(why)
        self.status, self.seconds = status, seconds


def question_of(values: dict[str, str]) -> Question | None:
    """The question in a URL; None where it has none.  Raises UsageError."""
    known = {"kind", "group", "label", "since", "until", "first", "second"}
    if not values:
        return None
    if strange := set(values) - known:
        raise UsageError(f"{min(strange)[:40]!r} is not among {', '.join(sorted(known))}")
    days = {}
    for key in ("since", "until"):
        if key in values:
            if not re.fullmatch(r"[0-9]{1,5}", values[key]):
                raise UsageError(f"{key} is no whole number of days since 1970")
            days[key] = int(values[key])
    kind = values.get("kind", "fleet")
    if kind not in ("fleet", "ab"):
        raise UsageError("kind is fleet or ab")
    designs = tuple(values[k] for k in ("first", "second") if k in values)
    if designs and kind != "ab":
        raise UsageError("first and second are of kind ab")
    chosen = {k: values[k] for k in ("group", "label") if values.get(k)}
    return Question(kind=kind, designs=designs, **chosen, **days)  # type: ignore[arg-type]


def _rotation(body: bytes) -> Rotation:
    if body.strip() != b"{}":
        raise FormatError("the body is not {}")
    return Rotation()


def _error(
    status: int, why: str, wait: float | None = None, *, last: int | None = None
) -> Response:
    """``wait``: seconds after which to try again; ``last``: the agent's last sequence."""
    headers = dict(_HEADERS)
    if wait is not None:
        headers["Retry-After"] = str(max(1, round(wait)))
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    more = {} if last is None else {"last": last}
    return JSONResponse({"error": shown(why)[:400], **more}, status, headers=headers)


def _unknown() -> Response:
    headers = {**_HEADERS, "WWW-Authenticate": 'Basic realm="hub", charset="UTF-8"'}
    return PlainTextResponse("a viewer's token is needed, as the password\n", 401, headers=headers)


async def _no_database(request: Request, error: Exception) -> Response:
    """The database is away, or its disk is full: not for ever."""
    note(f"the database failed: {type(error).__name__}")
    return _error(503, "the database does not answer", 10)


async def _failed(request: Request, error: Exception) -> Response:
    """What nobody thought of: the answer tells nothing of it."""
    if isinstance(error, HTTPException):
        return _error(error.status_code, error.detail)
    return _error(500, type(error).__name__)
