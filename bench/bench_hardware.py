"""The core of a real processor: instructions a second, one machine on one core of the computer.

The rows are a made-up program of 512 instructions in blocks: loads, stores, additions, branches
that are taken three times in four, and addresses over 256 kB.  The floor is what any walk over such
rows does: it reads each row's columns once and writes its cycles.  The peer is the same idea in
plain Python with far less in it: registers, latencies and the width alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from table import done

from tracekit import _core
from tracekit.hardware import HardwareMachine
from tracekit.hardware.static_ops import parameter_row

STATIC, ROWS = 512, 1 << 20
BITS = _core.HARDWARE_OP_BITS
ALU, LOAD, STORE = 0b1111, 0b110000, 0b1000000


def program() -> dict[str, Any]:
    """A table of instructions as the core takes it."""
    rng = np.random.default_rng(1)
    none = 0xFFFF
    kind = rng.choice(4, STATIC, p=[0.5, 0.25, 0.1, 0.15])  # operation, load, store, branch
    kind[7::8] = 3
    flags = np.array([BITS["alu"], BITS["load"], BITS["store"], BITS["conditional_branch"]])[kind]
    source = np.full((STATIC, 8), none, np.uint16)
    source[:, :2] = rng.integers(0, 14, (STATIC, 2))
    result = np.full((STATIC, 6), none, np.uint16)
    result[kind < 2, 0] = rng.integers(0, 14, (kind < 2).sum())
    memory = (kind == 1) | (kind == 2)
    return {
        "pc": 0x1000 + 4 * np.arange(STATIC, dtype=np.uint64),
        "flags": flags.astype(np.uint32),
        "latency": (kind == 0).astype(np.float32),
        "size": np.where(memory, 8, 0).astype(np.uint16),
        "length": np.full(STATIC, 4, np.uint8),
        "uops": np.ones(STATIC, np.uint8),
        "fields": np.zeros(STATIC, np.uint8),
        "branch": np.where(kind == 3, 1, 0).astype(np.uint8),
        "address_sources": memory.astype(np.uint8),
        "data_sources": np.where(memory, 2, 3).astype(np.uint8),
        "early_destinations": np.zeros(STATIC, np.uint8),
        "int_results": (kind < 2).astype(np.uint8),
        "vector_results": np.zeros(STATIC, np.uint8),
        "source": source,
        "result": result,
        "use_begin": np.arange(STATIC + 1, dtype=np.uint32),
        "use_kind": np.array([0, 1, 2, 0], np.uint8)[kind],
        "use_ports": np.array([ALU, LOAD, STORE, ALU], np.uint32)[kind],
        "use_cycles": np.ones(STATIC, np.float32),
    }


@pytest.fixture(scope="module")
def rows() -> tuple[dict[str, Any], Any, Any, Any]:
    """The table; ids, addresses and bits of the rows."""
    ops = program()
    rng = np.random.default_rng(2)
    ids = np.empty(ROWS, np.uint32)
    taken = np.zeros(ROWS, np.uint8)
    at, branches = 0, ops["branch"] != 0
    goes = rng.random(ROWS) < 0.75
    target = rng.integers(0, STATIC // 8, STATIC) * 8
    for i in range(ROWS):
        ids[i] = at
        taken[i] = branches[at] and goes[i]
        at = int(target[at]) if taken[i] else (at + 1) % STATIC
    accesses = (ops["size"] != 0)[ids]
    addresses = np.where(accesses, 0x100000 + 8 * rng.integers(0, 1 << 15, ROWS), 0)
    return ops, ids, addresses.astype(np.uint64), (taken * 2 + accesses).astype(np.uint8)


def made(ops: dict[str, Any]) -> _core.HardwareCore:
    """A cold core of Zen 5."""
    return _core.HardwareCore(ops, parameter_row(HardwareMachine.load("zen5")), [(88, 0x7F)])


@pytest.mark.benchmark(group="core of a real processor")
def test_tracekit(benchmark: Any, rows: Any) -> None:
    ops, ids, addresses, bits = rows
    cycles = benchmark.pedantic(
        lambda core: core.run(ids, addresses, bits, 0), setup=lambda: ((made(ops),), {}), rounds=5
    )
    assert cycles.shape == (ROWS,) and 0.1 < float(cycles.mean()) < 20
    done(benchmark, ROWS, "instructions")


@pytest.mark.benchmark(group="core of a real processor")
def test_floor_reading_rows(benchmark: Any, rows: Any) -> None:
    """The floor: each row's latency and address are read, and a cycle is written."""
    ops, ids, addresses, bits = rows
    latency = ops["latency"]
    found = benchmark(lambda: latency[ids] + (addresses >> 6 & 1) + bits)
    assert len(found) == ROWS
    done(benchmark, ROWS, "instructions")


@pytest.mark.benchmark(group="core of a real processor")
def test_peer_python(benchmark: Any, rows: Any) -> None:
    """Registers' times and eight instructions a cycle in plain Python."""
    ops, ids, _, _ = rows
    some = ids[:50_000].tolist()
    source, result = ops["source"][:, :2].tolist(), ops["result"][:, 0].tolist()
    latency = (ops["latency"] + 4 * (ops["flags"] == BITS["load"])).tolist()

    def walk() -> float:
        ready = [0.0] * 0x10000
        slot = last = 0.0
        for i in some:
            slot += 0.125
            a, b = source[i]
            at = max(slot, ready[a], ready[b]) + latency[i]
            ready[result[i]] = at
            last = max(last, at)
        return last

    assert benchmark.pedantic(walk, rounds=2) > len(some) / 8
    done(benchmark, len(some), "instructions")
