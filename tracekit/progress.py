"""How far, how fast, how long still: a bar on a terminal and in notebooks, else plain lines."""

from __future__ import annotations

import sys
import time
from typing import Any

__all__ = ["Progress", "clock"]

#: Seconds until a bar shows, and between two plain lines.
DELAY, PLAIN_EVERY = 0.5, 10.0


class Progress:
    """Progress of one task on standard error.

    ``total``: how much there is to do, in ``unit``; None where nobody knows.  Rate and time left
    follow from what `update` says is done.  On a terminal and in notebooks it is tqdm's bar, which
    is cleared at the end; elsewhere a whole line every ten seconds, so that logs stay readable.
    """

    def __init__(
        self, label: str, total: int | None, unit: str = "rows", *, quiet: bool = False
    ) -> None:
        self._label, self._total, self._unit, self._quiet = label, total, unit, quiet
        self._start = self._shown = time.monotonic()
        self._bar: Any = None
        if not quiet and (sys.stderr.isatty() or _in_notebook()):
            self._bar = _bar(label, total, unit)

    def update(self, done: int, note: str = "") -> None:
        """``done`` units are done, of all; ``note`` is shown behind."""
        if self._bar is not None:
            if note:
                self._bar.set_postfix_str(note, refresh=False)
            self._bar.update(done - self._bar.n)
        elif not self._quiet and (now := time.monotonic()) - self._shown >= PLAIN_EVERY:
            self._shown = now
            sys.stderr.write(self._line(done, now - self._start, note) + "\n")
            sys.stderr.flush()

    def _line(self, done: int, seconds: float, note: str) -> str:
        rate = done / seconds
        line = f"{self._label}: {_short(done)}{self._unit}"
        if self._total:
            line += f" of {_short(self._total)}{self._unit} ({100 * done / self._total:.0f} %)"
        line += f", {_short(rate)}{self._unit}/s"
        if self._total and rate > 0:
            line += f", {clock((self._total - done) / rate)} left"
        return f"{line}, {note}" if note else line

    def close(self) -> None:
        """Clear the bar."""
        if self._bar is not None:
            self._bar.close()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _in_notebook() -> bool:
    """Whether this process is a notebook's kernel; ipykernel may be imported without being one."""
    kernel = sys.modules.get("ipykernel.kernelapp")
    return kernel is not None and bool(kernel.IPKernelApp.initialized())


def _bar(label: str, total: int | None, unit: str) -> Any:
    from tqdm.auto import tqdm

    tqdm.monitor_interval = 0  # no thread of its own beside those that work
    return tqdm(
        total=total,
        desc=label,
        unit=unit if unit == "B" else f" {unit}",
        unit_scale=True,
        delay=DELAY,
        leave=False,
        dynamic_ncols=True,
    )


def _short(number: float) -> str:
    """1.23 G, 45.6 M, 789; a space stands behind each."""
    for power, prefix in ((9, "G"), (6, "M"), (3, "k")):
        if number >= 10**power:
            return f"{number / 10**power:.3g} {prefix}"
    return f"{number:.3g} "


def clock(seconds: float) -> str:
    """12 s, 3:05, 2:03:05."""
    s = max(int(seconds + 0.5), 0)
    if s < 60:
        return f"{s} s"
    if s < 3600:
        return f"{s // 60}:{s % 60:02d}"
    return f"{s // 3600}:{s // 60 % 60:02d}:{s % 60:02d}"
