"""What a worker does: tasks of one kind, one after another, each with its own result or error."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from tracekit._version import __version__
from tracekit.cluster.content import content_of
from tracekit.cluster.kinds import KINDS
from tracekit.cluster.packing import from_text, to_text
from tracekit.cluster.task import Task, error_to
from tracekit.errors import TracekitError
from tracekit.io.remote import redacted

__all__ = ["OTHER_VERSION", "perform"]

#: What a worker with another version says instead of results.
OTHER_VERSION = "other version:"


def perform(
    version: str, kind: str, common: str, tasks: Sequence[str], threads: int | None
) -> list[str]:
    """Results as `to_text` makes them: ``value`` or ``error``, ``seconds`` and ``content``.

    ``version``: the asking tracekit's, which must be this one.  ``threads`` that a task may use.
    Never raises for what is wrong with a task: libraries that log exceptions log their arguments,
    and an address may hold a password.
    """
    if version != __version__:
        return [f"{OTHER_VERSION}{__version__}"]
    options = from_text(common)
    return [_one(kind, options, from_text(t), threads) for t in tasks]


def _one(kind: str, common: dict[str, Any], said: dict[str, Any], threads: int | None) -> str:
    task = Task(
        said["name"], tuple(said["inputs"]), said["options"], tuple(said["outputs"]), said["label"]
    )
    begin = time.perf_counter()
    out: dict[str, Any] = {}
    try:
        value = KINDS[kind](task, {**common, **task.options, **said["found"]}, threads)
        content = value.pop("content", None)
        if content is None:
            content = [content_of(p) for p in task.inputs]
        out = {"value": value, "content": content}
    except TracekitError as e:
        out = {"error": error_to(e)}
    except MemoryError:
        out = {"error": error_to(TracekitError("out of memory", path=task.name))}
    except Exception as e:
        where = f"{type(e).__name__}: {e}" if str(e) else type(e).__name__
        out = {"error": error_to(TracekitError(redacted(where)[:1000], path=task.name))}
    return to_text({**out, "seconds": time.perf_counter() - begin})
