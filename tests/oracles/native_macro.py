"""Macro rows of a native stream, by brute force: every access moves its line to the top of its
stack."""

from __future__ import annotations

FAR = 100_000_000


def native_macro(
    stream: list[tuple[int, list[tuple[int, bool]]]],
) -> list[tuple[int, int, int, int, int]]:
    """(pc, [(address, is store), ...]) each; gives pc, addr, fetch, load and store distance
    each."""
    fetched: list[int] = []
    stacks: tuple[list[int], list[int]] = ([], [])
    rows = []

    def distance(stack: list[int], line: int, touch: bool) -> int:
        d = 1 + stack.index(line) if line in stack else FAR
        if touch:
            stack[:] = [line, *(x for x in stack if x != line)]
        return d

    for pc, accesses in stream:
        row = (pc, accesses[0][0] if accesses else 0, distance(fetched, pc >> 6, True))
        found = [[distance(stacks[k], a >> 6, k == store) for k in (0, 1)] for a, store in accesses]
        rows.append((*row, *(found[0] if found else (0, 0))))
    return rows
