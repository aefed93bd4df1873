"""Traces on real processors: whole programs of a few instructions, whose times follow from the
machine's numbers."""

from __future__ import annotations

import numpy as np
import pytest

from tracekit import _core
from tracekit.hardware import HardwareMachine, InstructionTable, hardware_machines
from tracekit.hardware.static_ops import parameter_row, schedulers_of


@pytest.mark.parametrize("name", hardware_machines())
def test_each_port_of_a_machine_s_table_has_a_scheduler(name: str) -> None:
    machine = hardware_machines()[name]
    ports = InstructionTable.load(machine.table).ports
    masks = [mask for _, mask in schedulers_of(machine, ports)]
    assert sum(masks) == 2 ** len(ports) - 1 and all(masks), (ports, masks)


ALU, LOAD, STORE, DATA = 0b11, 0b100, 0b1000, 0b10000
KINDS = {ALU: 0, LOAD: 1, STORE: 2, DATA: 3}
BITS = _core.HARDWARE_OP_BITS


class Loop:
    """A loop of a few instructions, each by hand, on a machine of two ALUs."""

    def __init__(self, **changes: float) -> None:
        self.machine = HardwareMachine.load("zen5").replace(width=8, **changes)
        self.rows: list[dict[str, object]] = []

    def add(
        self,
        *uses: int,
        data: int | None = None,
        address: int | None = None,
        result: int | None = None,
        flags: str = "",
        latency: float = 1,
        at: int = 0,
    ) -> None:
        """One more instruction; ``at``: what it accesses."""
        bits = sum(BITS[f] for f in flags.split())
        self.rows.append(
            {"uses": uses, "data": data, "address": address, "result": result}
            | {"flags": bits, "latency": latency, "at": at}
        )

    def cycles(self, repeats: int = 400) -> float:
        """Of one iteration, once it runs steadily."""
        n = len(self.rows)
        none = 0xFFFF
        source = np.full((n, 8), none, np.uint16)
        result = np.full((n, 6), none, np.uint16)
        uses = [u for r in self.rows for u in r["uses"]]  # type: ignore[attr-defined]
        roles = np.zeros((2, n), np.uint8)
        for i, r in enumerate(self.rows):
            for role, key in enumerate(("address", "data")):
                if r[key] is not None:
                    source[i, role] = r[key]
                    roles[role, i] = 1 << role
            if r["result"] is not None:
                result[i, 0] = r["result"]
        lengths = [len(r["uses"]) for r in self.rows]  # type: ignore[arg-type]
        ops = {
            "pc": 0x1000 + 4 * np.arange(n, dtype=np.uint64),
            "flags": np.array([r["flags"] for r in self.rows], np.uint32),
            "latency": np.array([r["latency"] for r in self.rows], np.float32),
            "size": np.full(n, 8, np.uint16),
            "length": np.full(n, 4, np.uint8),
            "uops": np.ones(n, np.uint8),
            "branch": np.zeros(n, np.uint8),
            "address_sources": roles[0],
            "data_sources": roles[1],
            "early_destinations": np.zeros(n, np.uint8),
            "int_results": (result[:, 0] != none).astype(np.uint8),
            "vector_results": np.zeros(n, np.uint8),
            "source": source,
            "result": result,
            "use_begin": np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint32),
            "use_kind": np.array([KINDS[u] for u in uses], np.uint8),
            "use_ports": np.array(uses, np.uint32),
            "use_cycles": np.ones(len(uses), np.float32),
        }
        core = _core.HardwareCore(ops, parameter_row(self.machine), [(64, ALU), (64, 0b11100)])
        ids = np.tile(np.arange(n, dtype=np.uint32), repeats)
        addr = np.tile(np.array([r["at"] for r in self.rows], np.uint64), repeats)
        found = core.run(ids, addr, (addr != 0).astype(np.uint8), 0)
        half = len(found) // 2
        return float(found[half:].sum(dtype=np.float64) / (repeats // 2))


def test_chains_take_their_latency_and_copies_their_ports() -> None:
    chain = Loop()
    chain.add(ALU, data=1, result=1, latency=3)
    assert chain.cycles() == pytest.approx(3, abs=0.05)
    copies = Loop()
    for k in range(6):
        copies.add(ALU, result=k, latency=3)
    assert copies.cycles() == pytest.approx(3, abs=0.05)
    free = Loop()
    for k in range(8):
        free.add(result=k, flags="zero_idiom")
    assert free.cycles() == pytest.approx(1, abs=0.05)
    half = Loop()
    half.add(ALU, data=1, result=1, latency=1.5)
    assert half.cycles() == pytest.approx(1.5, abs=0.05)


def test_loads_take_the_caches_latency() -> None:
    loop = Loop(load_latency=4)
    loop.add(LOAD, address=1, result=1, latency=0, flags="load", at=0x10000)
    assert loop.cycles() == pytest.approx(4, abs=0.05)


@pytest.mark.parametrize(
    ("renaming", "second", "expected"), [(0, 2, 7), (2, 2, 7), (2, 1, 0.5), (0, 1, 7)]
)
def test_forwarding_and_renamed_memory(renaming: int, second: int, expected: float) -> None:
    """A store and a load of the same bytes, by the same base register or by another one."""
    loop = Loop(memory_renaming=renaming, forward_latency=7)
    loop.add(STORE, DATA, address=1, data=3, flags="store", latency=0, at=0x10000)
    loop.add(LOAD, address=second, result=3, latency=0, flags="load", at=0x10000)
    assert loop.cycles() == pytest.approx(expected, abs=0.6)


def test_vectors_and_addresses_without_a_base_are_not_renamed() -> None:
    vector = Loop(memory_renaming=2, vector_forward_latency=9)
    vector.add(STORE, DATA, address=1, data=3, flags="store vector", latency=0, at=0x10000)
    vector.add(LOAD, address=1, result=3, latency=0, flags="load vector", at=0x10000)
    assert vector.cycles() == pytest.approx(9, abs=0.6)
    bare = Loop(memory_renaming=2, forward_latency=7)
    bare.add(STORE, DATA, data=3, flags="store", latency=0, at=0x10000)
    bare.add(LOAD, result=3, latency=0, flags="load", at=0x10000)
    assert bare.cycles() == pytest.approx(7, abs=0.6)


def test_a_store_of_a_part_of_the_bytes_is_waited_for() -> None:
    loop = Loop(forward_fail=7)
    loop.add(STORE, DATA, address=1, data=3, flags="store", latency=0, at=0x10004)
    loop.add(LOAD, address=2, result=3, latency=0, flags="load", at=0x10000)
    failing = loop.cycles()
    loop.machine = loop.machine.replace(forward_fail=17)
    assert loop.cycles() == pytest.approx(failing + 10, abs=0.6) and failing > 11


def test_the_reorder_buffer_bounds_what_misses_overlap() -> None:
    """A miss to memory and fillers: two of them overlap where both fit."""

    def cycles(rob: int) -> float:
        loop = Loop(rob=rob, page_walk=0, tlb_l2_latency=0, l2_next_line=0, l2_stream=0)
        loop.machine = loop.machine.replace(l1_stream=0, l1_stride=0, l1_region=0, l3_kb=0)
        for k in range(60):
            # Lines far apart, each in the same set, so that none stays.
            loop.add(LOAD, result=1, latency=0, flags="load", at=(k + 1) << 24)
            for _ in range(31):
                loop.add(flags="no_op", latency=0)
        return loop.cycles(20)

    one, two, four = cycles(32), cycles(64), cycles(128)
    assert one == pytest.approx(2 * two, rel=0.2) and two == pytest.approx(2 * four, rel=0.2)
