"""Names of CPUs that damage has changed."""

from __future__ import annotations

__all__ = ["FEW_ROWS", "damaged_name_of"]

#: A stream of no more rows than this may come from a name that is damaged in that many lines.
FEW_ROWS = 2
#: How many times as many rows the stream has whose name it then is: where the names differ in a
#: digit they may well be two CPUs'.
FAR_MORE, FAR_MORE_BY_NUMBER = 16, 1000


def damaged_name_of(name: str, rows: int, others: dict[str, int]) -> str | None:
    """The one of ``others`` (names and rows) that a stream of few rows is a damaged name of: it
    differs in one character."""
    if rows > FEW_ROWS:
        return None
    for other, more in others.items():
        differ = [(a, b) for a, b in zip(name, other, strict=False) if a != b]
        if len(name) != len(other) or len(differ) != 1:
            continue
        numbers = all(c.isdigit() for c in differ[0])
        if more >= (FAR_MORE_BY_NUMBER if numbers else FAR_MORE) * max(rows, 1):
            return other
    return None
