"""One line on a terminal: how far, how fast, how long still.  Nothing where stderr is no
terminal."""

from __future__ import annotations

import sys
import time


class Progress:
    def __init__(self, label: str, total: int | None, *, quiet: bool = False) -> None:
        self._label, self._total = label, total
        self._on = not quiet and sys.stderr.isatty()
        self._start = time.monotonic()
        self._shown = 0.0
        self._width = 0

    def update(self, done_bytes: int, rows: int) -> None:
        """``done_bytes`` of the input, ``rows`` instructions so far."""
        now = time.monotonic()
        if not self._on or now - self._shown < 0.2:
            return
        self._shown = now
        seconds = max(now - self._start, 1e-9)
        rate = done_bytes / seconds
        line = f"{self._label}: {done_bytes / 1e6:,.0f} MB"
        if self._total:
            line += f" of {self._total / 1e6:,.0f} ({100 * done_bytes / self._total:.0f} %)"
        line += f", {rate / 1e6:,.0f} MB/s, {rows / seconds / 1e6:.2f} M instructions/s"
        if self._total and rate > 0:
            line += f", {clock((self._total - done_bytes) / rate)} left"
        self._show(line)

    def _show(self, line: str) -> None:
        sys.stderr.write("\r" + line.ljust(self._width))
        sys.stderr.flush()
        self._width = len(line)

    def close(self) -> None:
        if self._on and self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
            sys.stderr.flush()


def clock(seconds: float) -> str:
    """12 s, 3:05, 2:03:05."""
    s = max(int(seconds + 0.5), 0)
    if s < 60:
        return f"{s} s"
    if s < 3600:
        return f"{s // 60}:{s % 60:02d}"
    return f"{s // 3600}:{s // 60 % 60:02d}:{s % 60:02d}"
