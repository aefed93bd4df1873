"""Measured latencies and throughputs put into the entries of an instruction table."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Final, Protocol

from tracekit.hardware.entries import Entry, Measured, MemoryPorts

__all__ = ["measured_entries"]

#: A throughput that differs from the table's by less is what loops around the kernel cost.
_SAME: Final = 0.2
#: The same of instructions with memory operands, which share the ports of loads and stores.
_SAME_MEMORY: Final = 0.5
#: A latency so near to a whole number of cycles is one.
_WHOLE: Final = 0.2
#: Of the forms of one entry that were measured, so many must agree for the others to follow.
_AGREE: Final = 0.6


class _Table(Protocol):
    """An `InstructionTable`."""

    @property
    def width(self) -> int: ...
    @property
    def ports(self) -> tuple[str, ...]: ...
    @property
    def memory(self) -> MemoryPorts: ...
    @property
    def entries(self) -> Mapping[str, Entry]: ...


def measured_entries(
    table: _Table, nearest: Mapping[str, str], measured: Mapping[str, Measured]
) -> dict[str, Entry]:
    """The table's entries with what was measured of some forms; ``nearest``: the form whose entry
    stands for each of these.

    The forms of one class of a scheduling model have one entry.  Where most of those that were
    measured come to one new entry, the rest of the class gets it too.
    """
    changed = dict(table.entries)
    votes: dict[tuple[Entry, bool], Counter[Entry]] = defaultdict(Counter)
    for form, m in measured.items():
        base = table.entries[nearest[form]]
        changed[form] = _entry(table, form, base, m)
        if form in table.entries and m.latency is not None and m.reciprocal_throughput is not None:
            votes[base, _has_memory(form)][changed[form]] += 1
    winners = {}
    for key, counts in votes.items():
        entry, n = counts.most_common(1)[0]
        if n >= _AGREE * counts.total():
            winners[key] = entry
    for form, base in table.entries.items():
        if form not in measured:
            changed[form] = winners.get((base, _has_memory(form)), base)
    return changed


def _memory_operands(form: str) -> list[str]:
    operands = form.partition(" ")[2].split(", ")
    return [o for o in operands if o != "mm" and o.startswith(("m", "[")) and form[:3] != "lea"]


def _has_memory(form: str) -> bool:
    return bool(_memory_operands(form))


def _of_memory(table: _Table, form: str) -> float:
    """Cycles that the ports of loads and stores take at least for one such instruction."""
    found = _memory_operands(form)
    if not found:
        return 0.0
    m = table.memory
    first = form.partition(" ")[2].startswith(found[0])
    vector = bool(re.search(r"[xyz]mm", form))
    loads = (m.load_vector if vector else m.load).bit_count()
    stores = (m.store_data_vector if vector else m.store_data).bit_count()
    size = int((re.search(r"m(\d+)", found[0]) or [0, 64])[1]) // 8
    read = -(-size // m.load_bytes) / loads
    return max(read, -(-size // m.store_bytes) / stores) if first else read


def _entry(table: _Table, form: str, base: Entry, measured: Measured) -> Entry:
    latency = base.latency
    if measured.latency is not None:
        latency = max(0.0, measured.latency)
        whole = float(round(latency))
        latency = whole if abs(latency - whole) <= _WHOLE else latency
    wanted = measured.reciprocal_throughput
    if wanted is None or wanted <= 0:
        return base._replace(latency=latency)
    # Not more slots than renaming takes in the time.
    uops = min(base.uops, max(1, int(wanted * table.width + 0.1)))
    base = Entry(uops, latency, base.uses)
    memory = _of_memory(table, form)
    slowest = max((c / m.bit_count() for m, c in base.uses), default=0.0)
    if not base.uses or abs(wanted / slowest - 1) < _SAME:
        return base
    if wanted <= memory * (1 + _SAME_MEMORY) and slowest <= wanted:
        return base
    uses = []
    for mask, cycles in base.uses:
        if cycles / mask.bit_count() == slowest:
            uses.append(_port_use(table.ports, mask, cycles, wanted))
        else:  # none may be slower than what was measured
            uses.append((mask, min(cycles, round(wanted * mask.bit_count(), 4))))
    return Entry(uops, latency, tuple(uses))


def _port_use(ports: tuple[str, ...], mask: int, cycles: float, wanted: float) -> tuple[int, float]:
    """(ports, cycles) so that repeated instructions take ``wanted`` cycles each: of an instruction
    that takes one of its ports for a cycle, as many of the ports of that kind as this says."""
    count = round(1 / wanted)
    alike = _alike(ports, mask)
    if cycles <= 1 and 1 <= count <= alike.bit_count() and abs(count * wanted - 1) < _SAME:
        return _of_size(mask, alike, count), 1.0
    return mask, round(wanted * mask.bit_count(), 4)


def _alike(ports: tuple[str, ...], mask: int) -> int:
    """All ports whose names differ from those of ``mask`` in the number alone."""
    kinds = {p.rstrip("0123456789") for i, p in enumerate(ports) if mask >> i & 1}
    return sum(1 << i for i, p in enumerate(ports) if p.rstrip("0123456789") in kinds)


def _of_size(mask: int, alike: int, count: int) -> int:
    """``count`` ports, of ``mask`` first."""
    kept = 0
    for left in (mask, alike & ~mask):
        while left and kept.bit_count() < count:
            kept |= left & -left
            left &= left - 1
    return kept
