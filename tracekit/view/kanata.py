"""Konata's format, Kanata 0004: a line an event, in the order of cycles.

github.com/shioyadan/Konata/blob/master/docs/kanata-log-format.md describes the format.  Arrows go
from the end of the producer's stage X to the begin of the consumer's.
"""

from __future__ import annotations

from collections.abc import Iterator

from tracekit.text import shown
from tracekit.view.stages import View

__all__ = ["kanata"]


def kanata(view: View, other: View | None = None) -> Iterator[str]:
    """The file's lines: stages in lane 0, retirements, and an arrow for each register that a row
    reads from one of the last 1,000 rows.

    ``other``: the same rows elsewhere, on the same clock (`beside`); its stages are in lane 1, and
    each row's text says by how much later they are.
    """
    events: list[tuple[int, int, str]] = []  # cycle, row, line; a row's own lines stay in order
    views = (view,) if other is None else (view, other)
    marks: dict[int, list[str]] = {}
    for v in views:
        for m in v.marks:
            of = f"{v.of}: " if other is not None else ""
            marks.setdefault(m.row, []).append(f"{of}{m.track}, {m.what}")
    retirement = 0
    for row, text in enumerate(view.texts):
        lanes = [_lane(v, row, lane) for lane, v in enumerate(views)]
        lines = sorted((e for lane in lanes for e in lane), key=lambda e: e[0])
        if not lines:
            continue
        first = lines[0][0]
        ends = [int(v.retired[row]) for v in views]
        head = [f"I\t{row}\t{view.begin + row}\t0", f"L\t{row}\t0\t{_label(text)}"]
        if other is not None and min(ends) >= 0:
            head.append(f"L\t{row}\t0\t{_label(f'  [{ends[1] - ends[0]:+d}]')}")
            times = f"{view.of} retires at {ends[0]:,}, {other.of} at {ends[1]:,}"
            head.append(f"L\t{row}\t1\t{_label(times)}")
        head += [f"L\t{row}\t1\t{_label(what)}\\n" for what in marks.get(row, ())]
        head += [f"W\t{row}\t{p}\t0" for p in view.producers[row] if row - p <= 1000]
        events += [(first, row, line) for line in head]
        events += [(cycle, row, line) for cycle, line in lines]
        last = max(*ends, lines[-1][0])
        flushed = 0 if ends[0] >= 0 else 1
        events.append((last, row, f"R\t{row}\t{retirement}\t{flushed}"))
        retirement += 1
    events.sort(key=lambda e: e[:2])
    yield "Kanata\t0004\n"
    at = events[0][0] if events else 0
    yield f"C=\t{at}\n"
    for cycle, _, line in events:
        if cycle > at:
            yield f"C\t{cycle - at}\n"
            at = cycle
        yield f"{line}\n"


def _lane(view: View, row: int, lane: int) -> list[tuple[int, str]]:
    """Begin and end of each stage of a row.  Stages of no time are not seen, but X, where arrows
    begin and end."""
    stages = [
        (int(c), name)
        for c, name in zip(view.starts[row].tolist(), view.stages, strict=True)
        if c >= 0
    ]
    out = []
    for k, (cycle, name) in enumerate(stages):
        until = stages[k + 1][0] if k + 1 < len(stages) else max(int(view.retired[row]), cycle)
        if until > cycle or name == "X":
            out.append((cycle, f"S\t{row}\t{lane}\t{name}"))
            out.append((until, f"E\t{row}\t{lane}\t{name}"))
    return out


def _label(text: str) -> str:
    return shown(text.replace("\t", " ")).replace("\\", "/")
