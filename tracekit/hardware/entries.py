"""What a table says of a form, and what was measured of it."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Entry", "Measured", "MemoryPorts"]


class Entry(NamedTuple):
    """Allocation slots, latency in cycles from the last register operand to the result (without a
    load's), and what executes: (set of ports, cycles that one of them is occupied)."""

    uops: int
    latency: float
    uses: tuple[tuple[int, float], ...]


class Measured(NamedTuple):
    """What was measured of a form, in cycles; None: it did not settle, or has no such number."""

    latency: float | None
    reciprocal_throughput: float | None


class MemoryPorts(NamedTuple):
    """Sets of ports: of loads, of those to vector registers, of stores' addresses and data; and the
    bytes that one load or store moves at most."""

    load: int
    load_vector: int
    store_address: int
    store_data: int
    store_data_vector: int
    load_bytes: int
    store_bytes: int
