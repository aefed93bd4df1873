"""Stages of a pipeline, each in a thread of its own: reading, parsing and encoding overlap.

The stages spend their time in C with the GIL released, so threads are enough.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterable
from typing import Any, TypeVar

T = TypeVar("T")
_END = object()

#: Seconds to wait for a stage to end.  One that a device keeps for longer dies with the process.
_PATIENCE = 10.0


class Stopped(Exception):
    """The consumer went away."""


def overlap(
    make: Callable[[], Iterable[T]],
    depth: int = 2,
    on_stop: Callable[[], None] | None = None,
    meanwhile: Callable[[], bool] | None = None,
) -> Generator[T, None, None]:
    """Iterates ``make()`` in a thread, at most ``depth`` items ahead; its exception is raised here.

    ``on_stop`` is called when the consumer goes away; it wakes up a ``make()`` that waits for
    something.  ``meanwhile`` is what the consumer does, as long as it says True, before it waits.
    """
    items: queue.Queue[Any] = queue.Queue(depth)
    stop = threading.Event()
    failure: list[BaseException] = []

    def put(item: Any) -> None:
        while not stop.is_set():
            try:
                items.put(item, timeout=0.2)
                return
            except queue.Full:
                continue
        raise Stopped

    def take() -> Any:
        while meanwhile is not None and items.empty() and meanwhile():
            pass
        return items.get()

    def work() -> None:
        try:
            for item in make():
                put(item)
        except Stopped:
            return
        except BaseException as e:
            failure.append(e)
        try:
            put(_END)
        except Stopped:
            return

    thread = threading.Thread(target=work, daemon=True, name="tracekit-stage")
    thread.start()
    try:
        while (item := take()) is not _END:
            yield item
        if failure:
            raise failure[0]
    finally:
        stop.set()
        if on_stop is not None:
            on_stop()
        thread.join(_PATIENCE)
