"""Reading ahead by whoever has time: the thread that needs the next block, or one that would wait.

A reader's thread of its own would compete with both for two cores, and to say beforehand which of
the two reads leaves the other one idle.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator, Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class Ahead(Generic[T]):
    """An iterable's items in their order.  One thread iterates; another may ``help``.

    What the iterable raises is raised in the thread that was reading; its items end there.
    """

    def __init__(self, items: Iterable[T], depth: int = 2) -> None:
        self._items = iter(items)
        self._depth = depth
        self._ready: deque[T] = deque()
        self._reading = threading.Lock()
        self._ended = False

    def _read(self) -> None:
        try:
            self._ready.append(next(self._items))
        except StopIteration:
            self._ended = True
        except BaseException:
            self._ended = True
            raise

    def help(self) -> bool:
        """Reads one item where there is room; False where there is nothing to do just now."""
        if not self._reading.acquire(blocking=False):
            return False
        try:
            if self._ended or len(self._ready) >= self._depth:
                return False
            self._read()
            return True
        finally:
            self._reading.release()

    def __iter__(self) -> Generator[T, None, None]:
        while True:
            if not self._ready:
                with self._reading:
                    if not self._ready and not self._ended:
                        self._read()
                if not self._ready:
                    return
            yield self._ready.popleft()
