"""What caches hold after accesses, by walking them: true LRU, first caches and one behind them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence


class LruSets:
    """A cache of sets that each keep the lines used last: line -> whether it is dirty."""

    def __init__(self, sets: int, ways: int) -> None:
        self.ways = ways
        self.set: list[OrderedDict[int, bool]] = [OrderedDict() for _ in range(sets)]

    def of(self, line: int) -> OrderedDict[int, bool]:
        """The set of a line."""
        return self.set[line % len(self.set)]

    def use(self, line: int, dirty: bool) -> tuple[bool, tuple[int, bool] | None]:
        """Whether it was there, and the line that had to go for it."""
        own = self.of(line)
        there = line in own
        own[line] = own.pop(line, False) or dirty
        return there, own.popitem(last=False) if len(own) > self.ways else None


def first_cache(
    accesses: Sequence[tuple[int, bool]], sets: int, ways: int
) -> list[list[tuple[int, bool]]]:
    """Each set's lines with their dirty bits, the one used last first, after (line, write)."""
    cache = LruSets(sets, ways)
    for line, write in accesses:
        cache.use(line, write)
    return [list(reversed(s.items())) for s in cache.set]


def second_cache(
    accesses: Sequence[tuple[int, bool]], first: tuple[int, int], second: tuple[int, int]
) -> list[set[int]]:
    """Each set's lines of the cache behind a first one, which gets what the first does not have
    and takes back what leaves it dirty."""
    a, b = LruSets(*first), LruSets(*second)
    for line, write in accesses:
        there, gone = a.use(line, write)
        if not there:
            b.use(line, False)
        if gone is not None and gone[1]:
            b.use(gone[0], True)
    return [set(s) for s in b.set]
