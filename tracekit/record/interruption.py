"""Signals that end a recording: Ctrl-C, and what asks the whole command to end."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final

_ENDING: Final[tuple[int, ...]] = (signal.SIGTERM, signal.SIGHUP)


class TerminatedError(KeyboardInterrupt):
    """The signal ``number``, which only we were given: it ends the recording, and is for the
    program that was started, too."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class EndSignals:
    """Makes SIGTERM and SIGHUP end a recording as Ctrl-C does.  ``number``: the one that came."""

    def __init__(self) -> None:
        self.number: int | None = None
        for number in _ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
                signal.signal(number, self)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Handle the signal: raise `TerminatedError`."""
        self.number = number
        raise TerminatedError(number)


@contextlib.contextmanager
def asked_first(ask: Callable[[int], None]) -> Iterator[None]:
    """The first signal that would end a recording calls ``ask`` instead; the next one ends it.

    An exception may come between any two steps and lose what is in hand.  In the main thread only,
    where signals come.
    """
    before: dict[int, Callable[[int, FrameType | None], object]] = {}
    asked = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            before[number](number, frame)
        asked = True
        ask(number)

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, *_ENDING):
            handler = signal.getsignal(number)
            if handler is signal.default_int_handler or isinstance(handler, EndSignals):
                before[number] = handler
                signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
