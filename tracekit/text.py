"""Text of others (names in traces, cards, ELF files, paths) on a terminal: nothing that it does not
show as it is."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from typing import TextIO

__all__ = ["Escaped", "counted", "html_table", "note", "shown"]

#: What moves the cursor or hides text: C0 and C1 controls, and marks of writing direction.
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2028\u2029\u2066-\u2069]"
)


def shown(text: object) -> str:
    """``text`` on one line, whatever it holds: what cannot be printed is escaped as in Python."""
    s = str(text)
    if s.isprintable():
        return s
    return "".join(c if c.isprintable() else _escape(c) for c in s)


def _escape(c: str) -> str:
    return c.encode("unicode_escape").decode()


def counted(count: int, noun: str, plural: str = "") -> str:
    """A number and what it counts: ``1 row``, ``2,000 rows``; ``plural`` where it takes no s."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def note(text: object) -> None:
    """``tracekit: text`` on a line of standard error, whatever ``text`` holds."""
    sys.stderr.write(f"tracekit: {shown(text)}\n")


def html_table(caption: str, rows: Iterable[Sequence[str]], head: Sequence[str] = ()) -> str:
    """A table for notebooks, in which texts of others are texts."""
    import html

    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(c)}</{tag}>" for c in cells) + "</tr>"

    body = (line(head, "th") if head else "") + "".join(line(r, "td") for r in rows)
    return f"<table><caption>{html.escape(caption)}</caption>{body}</table>"


class Escaped:
    """A text stream that takes no control characters but tabs and ends of lines: whatever a command
    prints, a terminal does not obey it.  ``failed``: the error of a write, which argparse hides."""

    def __init__(self, to: TextIO) -> None:
        self._to = to
        self.failed: OSError | None = None

    def write(self, text: str) -> int:
        """Write ``text`` with its control characters escaped."""
        if not text.isprintable():
            text = _CONTROL.sub(lambda found: _escape(found[0]), text)
        try:
            return self._to.write(text)
        except OSError as e:
            self.failed = e
            raise

    def __getattr__(self, name: str) -> object:
        return getattr(self._to, name)
