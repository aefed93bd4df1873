"""A task: one piece of work on one trace, said in JSON, so that any computer can do it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tracekit._version import __version__
from tracekit.errors import FormatError, TracekitError, UsageError
from tracekit.io.remote import public_name
from tracekit.sim import plugins

__all__ = ["Outcome", "Task", "error_from", "error_to"]


@dataclass(frozen=True)
class Task:
    """``name`` is shown.  ``inputs``: addresses, in the order that the kind of task wants;
    ``options``: what else decides its result, as JSON; ``outputs``: what it writes.  ``label``
    tells apart tasks of one trace.  ``found``: options that decide nothing of the result: what
    other tasks did of it."""

    name: str
    inputs: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    label: str = ""
    found: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Name and label, for people."""
        return f"{self.name} {self.label}" if self.label else self.name

    def key(self, kind: str, common: str) -> str:
        """The same for the same task of this version of tracekit; ``common``: the options of all
        tasks as JSON.  The code of plug-ins that they name counts.  What the inputs hold is
        compared apart."""
        own = json.dumps(self.options, sort_keys=True)
        said = [
            *(__version__, kind, common, own, *plugins.contents(common + own)),
            *(self.name, self.label),
            [public_name(p) for p in (*self.inputs, *self.outputs)],
        ]
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Outcome:
    """What became of a task: its ``value``, or its ``error``; the ``seconds`` that it took, the
    ``content`` of its inputs; ``again``: an earlier run did it, and it was not done anew."""

    task: Task
    value: Any = None
    error: TracekitError | None = None
    seconds: float = 0.0
    content: tuple[str, ...] = ()
    again: bool = False


_ERRORS: dict[str, type[TracekitError]] = {
    e.__name__: e for e in (TracekitError, FormatError, UsageError)
}


def error_to(e: TracekitError) -> dict[str, Any]:
    """An error as JSON."""
    kind = type(e).__name__ if type(e).__name__ in _ERRORS else "TracekitError"
    return {
        "type": kind,
        "message": e.message,
        "path": e.path,
        "offset": e.offset,
        "hint": e.hint,
    }


def error_from(said: Mapping[str, Any]) -> TracekitError:
    """The error that `error_to` was given."""
    make = _ERRORS.get(str(said.get("type")), TracekitError)
    return make(
        str(said.get("message")),
        path=said.get("path"),
        offset=said.get("offset"),
        hint=said.get("hint"),
    )
