"""Events of long commands as people read them: a bar of programs, lines of a training."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from tracekit.progress import Progress

__all__ = ["Events", "echo", "in_words"]


class Events:
    """Takes events that say how many of something are ``done`` ``of`` how many, and shows them as
    `Progress`, unless ``quiet``."""

    def __init__(self, label: str, unit: str = "programs", *, quiet: bool = False) -> None:
        self._label, self._unit, self._quiet = label, unit, quiet
        self._progress: Progress | None = None
        self._of = 0

    def __call__(self, event: Mapping[str, Any]) -> None:
        """One event; those that count nothing are left out."""
        if "done" not in event:
            return
        if self._progress is not None and event["of"] != self._of:  # the work has a next part
            self._progress.close()
            self._progress = None
        if self._progress is None:
            self._of = event["of"]
            self._progress = Progress(self._label, self._of, self._unit, quiet=self._quiet)
        self._progress.update(event["done"], str(event.get("name", "")))

    def __enter__(self) -> Events:
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.close()


def echo(line: str) -> None:
    """An event of a training on standard error: in words on a terminal, else the JSON line."""
    print(in_words(json.loads(line)) if sys.stderr.isatty() else line, file=sys.stderr)


def in_words(event: Mapping[str, Any]) -> str:
    """``program 3 of 10: lua, rows 1,234``."""
    rest = {k: v for k, v in event.items() if k not in ("time", "event", "done", "of", "name")}
    head = str(event.get("event", ""))
    if "done" in event:
        head += f" {event['done']} of {event['of']}"
    parts = [str(event["name"])] if "name" in event else []
    parts += [f"{k.replace('_', ' ')} {_value(v)}" for k, v in rest.items()]
    return f"{head}: {', '.join(parts)}" if parts else head


def _value(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return "yes" if value else "no" if value is False else "none"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return " ".join(_value(v) for v in value)
    if isinstance(value, dict):
        return " ".join(f"{k} {_value(v)}" for k, v in value.items())
    return str(value)
