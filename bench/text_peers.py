"""Plain readers of the same text, to measure against: what one writes when there is no tracekit."""

from __future__ import annotations

import re

_EXEC = re.compile(rb" *(\d+): (\S+): 0x(\w+).*?FetchSeq=(\d+)")


def per_line_python(text: bytes) -> tuple[int, int]:
    """A reader of a line at a time, as in most papers' scripts: (committed rows, last retire
    tick)."""
    rows, last, waiting, seq = 0, 0, set(), 0
    for line in text.split(b"\n"):
        if line.startswith(b"O3PipeView:fetch:"):
            seq = int(line.split(b":", 6)[5])
        elif line.startswith(b"O3PipeView:retire:"):
            tick = int(line.split(b":")[2])
            if seq in waiting:
                waiting.discard(seq)
                last = max(last, tick)
        elif m := _EXEC.match(line):
            rows += 1
            waiting.add(int(m[4]))
    return rows, last
