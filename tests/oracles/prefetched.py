"""What a data cache and one behind it hold of a machine with stride or tagged prefetchers, by
walking uses of lines one after another."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from oracles.warm import LruSets

#: Kinds of uses, and rows for which others wait for a line: csrc/sim/prefetched_caches.cpp.
IN_ORDER, OUT_OF_ORDER, LOAD, STORE = range(4)
NEAR, FAR = 30, 120
Shape = tuple[int, int]


@dataclass
class Held:
    """A line in a cache."""

    dirty: bool
    prefetched: bool = False
    ready: int = 0


class Lines:
    """A cache whose sets each keep the lines used last."""

    def __init__(self, shape: Shape) -> None:
        sets, self.ways = shape
        self.sets: list[OrderedDict[int, Held]] = [OrderedDict() for _ in range(sets)]

    def find(self, line: int, touch: bool = True) -> Held | None:
        own = self.sets[line % len(self.sets)]
        if touch and line in own:
            own.move_to_end(line)
        return own.get(line)

    def put(self, line: int, held: Held) -> int | None:
        """The line that goes, if it is dirty."""
        own = self.sets[line % len(self.sets)]
        gone = own.popitem(last=False) if len(own) == self.ways else None
        own[line] = held
        return gone[0] if gone and gone[1].dirty else None

    def contents(self) -> list[list[tuple[int, bool, bool]]]:
        return [[(k, h.dirty, h.prefetched) for k, h in reversed(s.items())] for s in self.sets]


@dataclass
class Strides:
    """gem5's StridePrefetcher, of 64 entries that are told apart by bits of the pc."""

    of: dict[int, tuple[int, int, int, int]] = field(default_factory=dict)

    def wanted(self, pc: int, address: int) -> Iterator[int]:
        at = pc >> 2 & 63
        owner, last, step, trust = self.of.get(at, (0, 0, 0, 0))
        if owner != pc:
            self.of[at] = pc, address, 0, 4
            return
        moved = address - last
        same = moved == step != 0
        trust = min(7, trust + 1) if same else max(0, trust - 1)
        if not same and trust < 4:
            step = moved
        self.of[at] = pc, address, step, trust
        if trust < 4 or moved == 0:
            return
        far = moved if abs(moved) >= 64 else 64 if moved > 0 else -64
        yield from (address + far * k >> 6 for k in range(1, 5))


class Prefetched:
    """``kinds``: "none", "stride" or "tagged" of the data cache and the second one; ``l3``: None
    where there is none."""

    def __init__(
        self,
        in_order: bool,
        kinds: tuple[str, str],
        code: Shape,
        l1: Shape,
        l2: Shape,
        l3: Shape | None,
    ) -> None:
        self.skipped = OUT_OF_ORDER if in_order else IN_ORDER
        self.kinds, self.row, self.near = kinds, 0, False
        self.code, self.l1, self.l2 = LruSets(*code), Lines(l1), Lines(l2)
        self.l3 = Lines(l3) if l3 else None
        self.strides = Strides(), Strides(), Strides()

    def walk(self, uses: Sequence[tuple[int, int, int, int]]) -> None:
        """Uses: address, pc, kind, rows since the last one."""
        for address, pc, kind, rows in uses:
            self.row += rows
            if kind == self.skipped:
                continue
            self.heard = kind < LOAD or pc != 0
            if kind < LOAD:
                if not self.code.use(address >> 6, False)[0]:
                    self.ask(address, 0, self.strides[1])
                continue
            held = self.l1.find(address >> 6)
            if held is None:
                self.prefetch(0, address, pc)
                self.ask(address, pc, self.strides[1])
                self.fill(address >> 6, kind == STORE, False)
                continue
            held.dirty |= kind == STORE
            if held.prefetched or held.ready > self.row:
                held.prefetched = False
                self.prefetch(0, address, pc)

    def wanted(self, kind: str, strides: Strides, address: int, pc: int) -> list[int]:
        line = address >> 6
        if kind == "none" or not self.heard or (kind == "stride" and pc == 0):
            return []
        found = [line + 1, line + 2] if kind == "tagged" else list(strides.wanted(pc, address))
        return [w for w in found if w >> 6 == line >> 6]

    def prefetch(self, level: int, address: int, pc: int, strides: Strides | None = None) -> None:
        own = strides or self.strides[0]
        for line in self.wanted(self.kinds[level], own, address, pc):
            if (self.l2 if level else self.l1).find(line, touch=False):
                continue
            if level:
                self.fill_second(line, self.taken(line), True)
            else:
                self.ask(line << 6, pc, self.strides[2])
                self.fill(line, False, True)

    def fill(self, line: int, dirty: bool, prefetched: bool) -> None:
        gone = self.l1.put(line, Held(dirty, prefetched, self.row + (NEAR if self.near else FAR)))
        if gone is not None:
            if held := self.l2.find(gone):
                held.dirty = True
            else:
                self.fill_second(gone, True, False)

    def ask(self, address: int, pc: int, strides: Strides) -> None:
        held = self.l2.find(address >> 6)
        if held is None:
            self.prefetch(1, address, pc, strides)
            self.fill_second(address >> 6, self.taken(address >> 6), False)
            self.near = False
            return
        self.near = held.ready <= self.row
        if held.prefetched or not self.near:
            held.prefetched = False
            self.prefetch(1, address, pc, strides)

    def fill_second(self, line: int, dirty: bool, prefetched: bool) -> None:
        gone = self.l2.put(line, Held(dirty, prefetched, self.row + FAR))
        if gone is not None and self.l3:
            if held := self.l3.find(gone):
                held.dirty = True
            else:
                self.l3.put(gone, Held(True))

    def taken(self, line: int) -> bool:
        """Whether the third cache had it, and dirty."""
        if self.l3 is None:
            return False
        held = self.l3.find(line)
        if held is None:
            self.l3.put(line, Held(False))
            return False
        dirty, held.dirty = held.dirty, False
        return dirty
