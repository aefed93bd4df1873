"""The messages of agents to the hub: version 1, JSON, every field checked on both sides.

A message holds names of designs, models, groups and labels that the operator of the fleet gave,
keyed hashes, numbers and pseudonyms.  It has no field for an address, a file, an argument or a
host.

Parsing takes bytes of anybody: a key that is missing, unknown or twice there, another type, a
number that is not finite or out of its range, or a text of other characters is refused by
`FormatError`, which names the place (``aggregates[3].cycles``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final

from tracekit.errors import FormatError

__all__ = [
    "CLOCK_HEADER",
    "MAX_AGGREGATES",
    "MAX_BODY",
    "VERSION",
    "Aggregate",
    "Batch",
    "Forget",
    "Observed",
    "Subscription",
    "check_depth",
    "parse_batch",
    "parse_forget",
    "parse_subscription",
]

VERSION: Final = 1
CLOCK_HEADER: Final = "Tracekit-Clock"
"""A header of HTTP: the agent's clock as it sends, seconds since 1970.  It is not in the message,
which is the same on every attempt."""
MAX_BODY: Final = 262_144
"""Bytes of a message."""
MAX_DEPTH: Final = 4
"""Brackets inside one another in a message; the messages have three."""
MAX_AGGREGATES: Final = 100
MAX_OBSERVED: Final = 100
MAX_FORGOTTEN: Final = 2_000
MAX_SUBSCRIBED: Final = 200
MAX_COUNT: Final = 1 << 53
"""The most instructions, cycles and seconds of one aggregate, and the largest sequence."""
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+ -]{0,63}")
"""Designs, models, versions, groups and labels."""
_HEX32: Final = re.compile(r"[0-9a-f]{32}")
_HEX64: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Aggregate:
    """What one distinct epoch takes on one design.

    ``hour``: when it was sampled, in whole hours since 1970 (UTC).  ``signature``: HMAC-SHA-256 of
    the epoch's signature under a key that the fleet's agents share and the hub does not have, 64
    hexadecimal digits.  ``instructions``: of the epoch.  ``cycles``: predicted, of the design's own
    clock of ``clock_ghz`` GHz.  ``half_width``: half of the prediction's 90 % interval, in cycles.
    ``weight``: CPU seconds on the agent's computer that the epoch stands for in that hour.
    ``distance``: how far the program lies outside the model's training, 0 inside, in the model's
    own unit; None where the model does not tell.  ``label``: only where the policy allows it.
    """

    design: str
    model: str
    model_version: str
    signature: str
    hour: int
    instructions: int
    cycles: float
    half_width: float
    weight: float
    clock_ghz: float
    distance: float | None = None
    label: str | None = None


@dataclass(frozen=True, slots=True)
class Observed:
    """CPU seconds of all the processes that the agent's policy admits, in an hour, since its last
    batch: what the weights of aggregates are compared with."""

    hour: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Batch:
    """A report.  ``agent``: the pseudonym that the token says, 32 hexadecimal digits.  ``batch``:
    32 random hexadecimal digits; the same on every attempt to send it.  ``sequence``: larger with
    each batch or Forget of the agent.  ``sent``: the agent's clock when this was made, seconds
    since 1970."""

    agent: str
    batch: str
    sequence: int
    sent: float
    aggregates: tuple[Aggregate, ...]
    observed: tuple[Observed, ...] = ()
    group: str | None = None

    def to_bytes(self) -> bytes:
        """The message."""
        return _bytes(self)


@dataclass(frozen=True, slots=True)
class Forget:
    """Delete this agent's aggregates of these signatures, or (``everything``) all that it sent."""

    agent: str
    batch: str
    sequence: int
    sent: float
    signatures: tuple[str, ...] = ()
    everything: bool = False

    def to_bytes(self) -> bytes:
        """The message."""
        return _bytes(self)


@dataclass(frozen=True, slots=True)
class Subscription:
    """The designs that the agent predicts from here on."""

    agent: str
    sent: float
    designs: tuple[str, ...]

    def to_bytes(self) -> bytes:
        """The message."""
        return _bytes(self)


def _bytes(message: Batch | Forget | Subscription) -> bytes:
    """UTF-8 JSON without spaces; None is left out."""
    value = {"version": VERSION, **_present(asdict(message))}
    for key in ("aggregates", "observed"):
        if key in value:
            value[key] = [_present(v) for v in value[key]]
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def _present(value: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in value.items() if v is not None}


# ---- reading

_Check = Callable[[Any], Any]


def _text(pattern: re.Pattern[str], what: str) -> _Check:
    def check(value: Any) -> str:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise ValueError(f"is not {what}")
        return value

    return check


def _whole(least: int, most: int) -> _Check:
    def check(value: Any) -> int:
        if type(value) is not int or not least <= value <= most:
            raise ValueError(f"is not a whole number from {least} to {most}")
        return value

    return check


def _number(least: float, most: float) -> _Check:
    def check(value: Any) -> float:
        if type(value) not in (int, float) or not least <= value <= most:
            raise ValueError(f"is not a number from {least:g} to {most:g}")
        return float(value)

    return check


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError("is neither true nor false")
    return value


def _version(value: Any) -> int:
    if type(value) is not int or value != VERSION:
        raise ValueError(f"is not {VERSION}, the version that is spoken here")
    return value


_name = _text(NAME, "a name of 1 to 64 letters, digits, spaces and ._+-")
_agent = _text(_HEX32, "32 hexadecimal digits")
_signature = _text(_HEX64, "64 hexadecimal digits")
_hour = _whole(0, 10_000_000)
_instant = _number(0, 1e11)

_AGGREGATE: Final[dict[str, _Check]] = {
    "design": _name,
    "model": _name,
    "model_version": _name,
    "signature": _signature,
    "hour": _hour,
    "instructions": _whole(1, MAX_COUNT),
    "cycles": _number(1e-3, MAX_COUNT),
    "half_width": _number(0, MAX_COUNT),
    "weight": _number(1e-9, 1e9),
    "clock_ghz": _number(1e-3, 1e3),
}
_AGGREGATE_MORE: Final[dict[str, _Check]] = {"distance": _number(0, 1e12), "label": _name}
_OBSERVED: Final[dict[str, _Check]] = {"hour": _hour, "seconds": _number(0, 1e9)}
_HEAD: Final[dict[str, _Check]] = {
    "version": _version,
    "agent": _agent,
    "batch": _agent,
    "sequence": _whole(1, MAX_COUNT),
    "sent": _instant,
}


def _object(
    value: Any, place: str, needed: dict[str, _Check], more: dict[str, _Check]
) -> dict[str, Any]:
    if type(value) is not dict:
        raise FormatError(f"{place or 'the message'} is not an object")
    out = {}
    for key, item in value.items():
        check = needed.get(key) or more.get(key)
        if check is None:
            raise FormatError(f"{place}: {key[:40]!r} is not among the keys")
        try:
            out[key] = check(item)
        except ValueError as e:
            raise FormatError(f"{place}{'.' if place else ''}{key} {e}") from None
    if len(out) < len(needed) + len(more):
        for key in needed:
            if key not in out:
                raise FormatError(f"{place}{'.' if place else ''}{key} is missing")
    return out


def _list(value: Any, place: str, least: int, most: int) -> list[Any]:
    if type(value) is not list or not least <= len(value) <= most:
        raise FormatError(f"{place} is not a list of {least} to {most}")
    return value


def _any(value: Any) -> Any:
    return value


def check_depth(data: bytes, most: int = MAX_DEPTH) -> None:
    """Raise `FormatError` where JSON text has more than ``most`` brackets inside one another;
    brackets in strings do not count.  Without parsing: a parser's own stack is finite."""
    depth = 0
    for m in _BRACKETS.finditer(data):
        c = m[0]
        if c in (b"[", b"{"):
            depth += 1
            if depth > most:
                raise FormatError(f"nested more than {most} deep")
        elif c in (b"]", b"}"):
            depth -= 1


_BRACKETS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.S)


def _pairs(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    count = 0
    for key, value in pairs:
        out[key] = value
        count += 1
    if len(out) != count:
        raise ValueError("a key stands twice in an object")
    return out


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is no number")


def _loaded(data: bytes) -> Any:
    if len(data) > MAX_BODY:
        raise FormatError(f"more than {MAX_BODY} bytes")
    check_depth(data)
    try:
        return json.loads(
            data.decode("utf-8"), object_pairs_hook=_pairs, parse_constant=_no_constant
        )
    except (ValueError, RecursionError) as e:
        raise FormatError(f"not JSON: {e}") from None


def parse_batch(data: bytes) -> Batch:
    """A batch; raises FormatError."""
    more: dict[str, _Check] = {"group": _name, "observed": _any}
    head = _object(_loaded(data), "", {**_HEAD, "aggregates": _any}, more)
    aggregates = tuple(
        Aggregate(**_object(v, f"aggregates[{i}]", _AGGREGATE, _AGGREGATE_MORE))
        for i, v in enumerate(_list(head["aggregates"], "aggregates", 0, MAX_AGGREGATES))
    )
    observed = tuple(
        Observed(**_object(v, f"observed[{i}]", _OBSERVED, {}))
        for i, v in enumerate(_list(head.get("observed", []), "observed", 0, MAX_OBSERVED))
    )
    return Batch(
        agent=head["agent"],
        batch=head["batch"],
        sequence=head["sequence"],
        sent=head["sent"],
        aggregates=aggregates,
        observed=observed,
        group=head.get("group"),
    )


def parse_forget(data: bytes) -> Forget:
    """A request to forget; raises FormatError."""
    more: dict[str, _Check] = {"signatures": _any, "everything": _flag}
    head = _object(_loaded(data), "", _HEAD, more)
    everything = head.get("everything", False)
    signatures = _list(head.get("signatures", []), "signatures", 0, MAX_FORGOTTEN)
    for i, s in enumerate(signatures):
        if not isinstance(s, str) or not _HEX64.fullmatch(s):
            raise FormatError(f"signatures[{i}] is not 64 hexadecimal digits")
    if bool(signatures) == everything:
        raise FormatError("either signatures or everything is needed")
    return Forget(
        agent=head["agent"],
        batch=head["batch"],
        sequence=head["sequence"],
        sent=head["sent"],
        signatures=tuple(signatures),
        everything=everything,
    )


def parse_subscription(data: bytes) -> Subscription:
    """A subscription; raises FormatError."""
    needed: dict[str, _Check] = {
        "version": _version,
        "agent": _agent,
        "sent": _instant,
        "designs": _any,
    }
    head = _object(_loaded(data), "", needed, {})
    designs = _list(head["designs"], "designs", 0, MAX_SUBSCRIBED)
    for i, name in enumerate(designs):
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise FormatError(f"designs[{i}] is not a name")
    return Subscription(agent=head["agent"], sent=head["sent"], designs=tuple(designs))
