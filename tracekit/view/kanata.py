"""Konata's format, Kanata 0004: a line an event, in the order of cycles.

github.com/shioyadan/Konata/blob/master/docs/kanata-log-format.md describes the format.
"""

from __future__ import annotations

from collections.abc import Iterator

from tracekit.text import shown
from tracekit.view.stages import View

__all__ = ["kanata"]


def kanata(view: View) -> Iterator[str]:
    """The file's lines: stages in lane 0, retirements, and an arrow for each register that a row
    reads from one of the last 1,000 rows."""
    events: list[tuple[int, int, int, str]] = []  # cycle, row, order, line
    retirement = 0
    for row, text in enumerate(view.texts):
        stages = [
            (int(c), name)
            for c, name in zip(view.starts[row].tolist(), view.stages, strict=True)
            if c >= 0
        ]
        end = int(view.retired[row])
        if not stages:
            continue
        first = stages[0][0]
        add = events.append
        add((first, row, 0, f"I\t{row}\t{view.begin + row}\t0"))
        add((first, row, 1, f"L\t{row}\t0\t{_label(text)}"))
        for producer in view.producers[row]:
            if row - producer <= 1000:
                add((first, row, 4, f"W\t{row}\t{producer}\t0"))
        for k, (cycle, name) in enumerate(stages):
            until = stages[k + 1][0] if k + 1 < len(stages) else max(end, cycle)
            if until > cycle:  # stages of no time are not seen
                add((cycle, row, 3, f"S\t{row}\t0\t{name}"))
                add((until, row, 2, f"E\t{row}\t0\t{name}"))
        add((max(end, stages[-1][0]), row, 9, f"R\t{row}\t{retirement}\t{0 if end >= 0 else 1}"))
        retirement += 1
    events.sort(key=lambda e: (e[0], e[1], e[2]))
    yield "Kanata\t0004\n"
    at = events[0][0] if events else 0
    yield f"C=\t{at}\n"
    for cycle, _, _, line in events:
        if cycle > at:
            yield f"C\t{cycle - at}\n"
            at = cycle
        yield f"{line}\n"


def _label(text: str) -> str:
    return shown(text.replace("\t", " ")).replace("\\", "/")
