"""Traces on real processors: whole programs of a few instructions, whose times follow from the
machine's numbers."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
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
HAS_ADDRESS, TAKEN = 1, 2  # of csrc/core/row_batch.hpp


class Loop:
    """A loop of a few instructions, each by hand, on a machine of two ALUs."""

    def __init__(self, **changes: float) -> None:
        self.machine = HardwareMachine.load("zen5").replace(width=8, **changes)
        self.rows: list[dict[str, object]] = []
        self.schedulers = [(64, ALU), (64, 0b11100)]
        self.pc = 0x1000

    def add(
        self,
        *uses: int,
        data: int | None = None,
        address: int | None = None,
        result: int | None = None,
        flags: str = "",
        latency: float = 1,
        at: int = 0,
        fields: int = 0,
        branch: int = 0,
    ) -> None:
        """One more instruction; ``at``: what it accesses."""
        bits = sum(BITS[f] for f in flags.split())
        self.rows.append(
            {"uses": uses, "data": data, "address": address, "result": result}
            | {"flags": bits, "latency": latency, "at": at, "fields": fields, "branch": branch}
        )

    def cycles(self, repeats: int = 400, order: Sequence[int] = ()) -> float:
        """Of one iteration, once it runs steadily; ``order``: of the instructions, if not as they
        stand.  Unconditional branches are taken."""
        found = self.by_row(repeats, order)
        half = len(found) // 2
        return float(found[half:].sum(dtype=np.float64) / (repeats // 2))

    def by_row(self, repeats: int, order: Sequence[int] = ()) -> npt.NDArray[np.float32]:
        """The cycles of each row of so many iterations."""
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
            "pc": self.pc + 4 * np.arange(n, dtype=np.uint64),
            "flags": np.array([r["flags"] for r in self.rows], np.uint32),
            "latency": np.array([r["latency"] for r in self.rows], np.float32),
            "size": np.full(n, 8, np.uint16),
            "length": np.full(n, 4, np.uint8),
            "uops": np.ones(n, np.uint8),
            "fields": np.array([r["fields"] for r in self.rows], np.uint8),
            "branch": np.array([r["branch"] for r in self.rows], np.uint8),
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
        core = _core.HardwareCore(ops, parameter_row(self.machine), self.schedulers)
        ids = np.tile(np.array(order or range(n), np.uint32), repeats)
        addr = np.array([r["at"] for r in self.rows], np.uint64)[ids]
        jumps = (ops["branch"] != 0) & (ops["branch"] != _core.BRANCH_KINDS.index("conditional"))
        bits = (addr != 0) * HAS_ADDRESS + jumps[ids] * TAKEN
        return core.run(ids, addr, bits.astype(np.uint8), int(ids[0]))


def test_chains_take_their_latency_and_copies_their_ports() -> None:
    chain = Loop()
    chain.add(ALU, data=1, result=1, latency=3)
    assert chain.cycles() == pytest.approx(3, abs=0.05)
    copies = Loop()
    for k in range(6):
        copies.add(ALU, result=k, latency=3)
    assert copies.cycles() == pytest.approx(3, abs=0.05)
    free = Loop(op_cache_more=0)
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
    loop = Loop(memory_renaming=renaming, forward_latency=7, rename_loads=0)
    loop.add(STORE, DATA, address=1, data=3, flags="store", latency=0, at=0x10000)
    loop.add(LOAD, address=second, result=3, latency=0, flags="load renamable", at=0x10000)
    assert loop.cycles() == pytest.approx(expected, abs=0.6)


@pytest.mark.parametrize(("stores", "cycles"), [(4, 3), (15, 8), (20, 14)])
def test_registers_of_the_last_stores_are_renamed(stores: int, cycles: float) -> None:
    """A chain of 3 cycles through a store and a load, and other stores between, two a cycle."""
    loop = Loop(memory_renaming=2, forward_latency=11, rename_stores=16)
    loop.add(STORE, DATA, address=1, data=3, flags="store", latency=0, at=0x10000)
    for k in range(stores):
        loop.add(STORE, DATA, address=2, data=4, flags="store", latency=0, at=0x10008 + 8 * k)
    loop.add(LOAD, address=1, result=3, latency=0, flags="load renamable", at=0x10000)
    loop.add(ALU, data=3, result=3, latency=3)
    assert loop.cycles() == pytest.approx(max(cycles, stores + 1), abs=0.7)


@pytest.mark.parametrize(("loads", "cycles"), [(0, 7), (1, 0.5)])
def test_a_load_learns_how_many_stores_ago_its_store_was(loads: int, cycles: float) -> None:
    loop = Loop(memory_renaming=1, forward_latency=7, rename_loads=loads)
    loop.add(STORE, DATA, address=1, data=3, flags="store", latency=0, at=0x10000)
    loop.add(LOAD, address=2, result=3, latency=0, flags="load renamable", at=0x10000)
    assert loop.cycles(800) == pytest.approx(cycles, abs=0.6)


def test_an_addition_has_another_ones_result_early() -> None:
    def chain(*flags: str) -> float:
        loop = Loop(add_forward=1)
        for f in flags:
            loop.add(ALU, data=1, result=1, latency=2, flags=f)
        return loop.cycles()

    assert chain("addition", "addition") == pytest.approx(4, abs=0.05)
    assert chain("addition", "vector") == pytest.approx(5, abs=0.05)


def test_a_scaled_index_takes_longer() -> None:
    loop = Loop(load_latency=4, scaled_latency=1)
    loop.add(LOAD, address=1, result=1, latency=0, flags="load scaled", at=0x10000)
    assert loop.cycles() == pytest.approx(5, abs=0.05)


def test_a_load_of_two_lines_takes_its_port_twice() -> None:
    loop = Loop()
    loop.add(LOAD, address=1, result=2, latency=0, flags="load", at=0x1003C)
    assert loop.cycles() == pytest.approx(2, abs=0.15)


def test_stores_go_to_so_many_lines_two_a_cycle() -> None:
    def cycles(lines: int) -> float:
        loop = Loop(store_lines=4, store_commits=2)
        for k in range(lines):
            loop.add(address=1, data=2, flags="store", latency=0, at=0x10000 + 64 * k)
        return loop.cycles() / lines

    assert cycles(4) == pytest.approx(0.5, abs=0.02)
    assert cycles(8) == pytest.approx(1, abs=0.02)


def test_stores_to_a_block_of_a_line_go_together() -> None:
    def cycles(block: int, apart: int) -> float:
        loop = Loop(store_lines=1, store_commits=2, store_block=block)
        for k in range(8):
            at = 0x10000 + 64 * (k // 2) + apart * (k % 2)
            loop.add(address=1, data=2, flags="store", latency=0, at=at)
        return loop.cycles() / 8

    assert cycles(64, 32) == pytest.approx(0.5, abs=0.02)
    assert cycles(32, 24) == pytest.approx(0.5, abs=0.02)
    assert cycles(32, 32) == pytest.approx(1, abs=0.02)


def test_each_scheduler_has_its_own_operations() -> None:
    """Of two units with a scheduler each an operation has one from its dispatch on, though the
    other one may be free first."""
    rng = random.Random(1)
    loop = Loop(wakeup_cycles=0, op_cache_more=0)
    for _ in range(200):
        loop.add(ALU, data=rng.randrange(3), result=rng.randrange(3))
    together = loop.cycles()
    loop.schedulers = [(32, 1), (32, 2), (64, 0b11100)]
    assert 1.02 * together < loop.cycles() < 1.5 * together
    alone = Loop(wakeup_cycles=0, op_cache_more=0)
    for k in range(8):
        alone.add(ALU, result=k)
    alone.schedulers = [(32, 1), (32, 2), (64, 0b11100)]
    assert alone.cycles() == pytest.approx(4, abs=0.05)


def test_a_branch_is_predicted_with_the_line_of_its_last_byte() -> None:
    def cycles(pc: int) -> float:
        loop = Loop(op_cache_more=0, taken_per_cycle=1, next_line_cycles=1)
        loop.pc = pc
        loop.add(result=1, latency=0)
        loop.add(latency=0, branch=_core.BRANCH_KINDS.index("jump"))
        return loop.cycles()

    assert cycles(0x1000) == pytest.approx(1, abs=0.05)
    assert cycles(0x1038) == pytest.approx(1, abs=0.05)
    assert cycles(0x103A) == pytest.approx(2, abs=0.05)


def test_what_an_operation_loads_is_not_renamed() -> None:
    def cycles(*uses: int) -> float:
        loop = Loop(memory_renaming=2, forward_latency=7, load_latency=4)
        loop.add(address=1, data=2, flags="store renamable", latency=0, at=0x10000)
        loop.add(LOAD, *uses, address=1, result=2, flags="load renamable", at=0x10000)
        return loop.cycles()

    assert cycles() < 3
    assert cycles(ALU) > 7


def test_a_line_of_code_is_there_before_a_sample() -> None:
    """A row that stands for it takes no time, and what is fetched from it later waits less."""

    def cycles(line: int) -> list[float]:
        loop = Loop(memory_ns=200)
        loop.pc = 0x1030
        loop.add(flags="fetched_line", at=line, latency=0)
        loop.add(LOAD, address=1, result=2, flags="load", at=0x10000)  # it is there meanwhile
        loop.add(data=2, latency=1, branch=_core.BRANCH_KINDS.index("indirect"))
        loop.add(flags="no_op")
        loop.add(result=1, latency=0)
        return loop.by_row(1, [0, 1, 2, 4]).tolist()

    there, elsewhere = cycles(0x1040), cycles(0x9000)
    assert there[0] == elsewhere[0] == 0
    assert sum(there) < sum(elsewhere) - 100


def test_a_pair_of_operations_loses_cycles_of_a_port() -> None:
    """The second of two that depend on each other takes 1 + `wakeup_cycles` of two ports."""
    loop = Loop(wakeup_cycles=1)
    loop.add(ALU, data=1, result=2, flags="alu")
    loop.add(ALU, data=2, result=3, flags="alu")
    assert loop.cycles() == pytest.approx(1.5, abs=0.05)
    loop.machine = loop.machine.replace(wakeup_cycles=0)
    assert loop.cycles() == pytest.approx(1, abs=0.05)


def test_a_move_is_one_slot_with_what_follows() -> None:
    def cycles(second: str) -> float:
        loop = Loop(op_cache_more=0, op_cache_width=32, wakeup_cycles=0)
        loop.machine = loop.machine.replace(width=2, retire_width=2)
        loop.add(result=2, data=1, flags="eliminated_move", latency=0)
        loop.add(result=2, data=2, flags=second, latency=0)
        return loop.cycles()

    assert cycles("takes_move") == pytest.approx(0.5, abs=0.05)
    assert cycles("no_op") == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize(
    ("count", "more", "cycles"), [(96, 0, 12), (96, 1, 14), (96, 2, 18), (48, 1, 7)]
)
def test_lines_of_many_entries_are_delivered_slowly(count: int, more: float, cycles: float) -> None:
    """Lines of 16 instructions, whose entries of six go on from line to line: three begin in each
    of the first two, two in the third.  Two take a cycle, a third one 1 + `op_cache_more`."""
    loop = Loop(op_cache_entry=6, op_cache_width=12, op_cache_more=more)
    for _ in range(count):
        loop.add(flags="no_op", latency=0)
    assert loop.cycles() == pytest.approx(cycles, abs=0.05)


@pytest.mark.parametrize(
    ("entry", "each", "jumps", "cycles"),
    [(6, 0, 0, 12), (6, 1, 0, 16), (9, 2, 0, 64 / 3), (9, 0, 4, 12), (9, 1, 4, 24), (9, 1, 12, 16)],
)
def test_each_entry_takes_its_cycles(entry: int, each: float, jumps: int, cycles: float) -> None:
    """Six lines of 16 instructions, of which each ``jumps``-th is a jump to the next one.  Entries
    end at jumps and where they are full, and go on from line to line."""
    loop = Loop(op_cache_more=0, op_cache_entry=entry, op_cache_entry_cycles=each)
    loop.machine = loop.machine.replace(taken_per_cycle=2)
    kind = _core.BRANCH_KINDS.index("jump")
    for k in range(96):
        loop.add(flags="no_op", latency=0, branch=kind * (jumps != 0 and k % jumps == jumps - 1))
    assert loop.cycles() == pytest.approx(cycles, abs=0.05)


@pytest.mark.parametrize("each", [0, 1, 5])
def test_what_the_first_entry_takes_is_part_of_the_penalty(each: float) -> None:
    """A return that nothing called is mispredicted, and executed a cycle behind its dispatch."""
    loop = Loop(op_cache_more=0, op_cache_entry_cycles=each, mispredict_penalty=20)
    loop.add(ALU, branch=_core.BRANCH_KINDS.index("return"))
    loop.add(flags="no_op", latency=0)
    assert loop.cycles(order=(0,)) == pytest.approx(22, abs=0.1)


@pytest.mark.parametrize(("each", "cycles"), [(0, 12), (0.5, 12), (3, 18), (4, 24)])
def test_the_next_line_takes_prediction_its_cycles(each: float, cycles: float) -> None:
    """Six lines of 16 instructions, eight of which are allocated a cycle."""
    loop = Loop(op_cache_more=0, next_line_cycles=each)
    for _ in range(96):
        loop.add(flags="no_op", latency=0)
    assert loop.cycles() == pytest.approx(cycles, abs=0.05)


def test_code_that_begins_with_its_lines_fills_the_cache_of_decoded_instructions() -> None:
    """Blocks of two instructions, each in a line of its own: half a cycle from that cache, two from
    the decoders."""

    def cycles(blocks: int) -> float:
        loop = Loop(op_cache_more=0, op_cache_ops=768, op_cache_entry=1, op_cache_entry_cycles=0)
        loop.machine = loop.machine.replace(decode_width=1, op_cache_width=12, taken_per_cycle=2)
        order = []
        for k in range(blocks):
            end = 1 + k % 15
            kind = _core.BRANCH_KINDS.index("jump")
            for i in range(16):
                loop.add(flags="no_op", latency=0, branch=kind * (i == end))
            order += [16 * k, 16 * k + end]
        return loop.cycles(20, order) / blocks

    assert cycles(200) == pytest.approx(0.5, abs=0.05)
    assert cycles(500) > 1.5


@pytest.mark.parametrize(("fields", "cycles"), [(0, 14), (1, 14), (2, 18), (3, 18)])
def test_two_fields_take_two_places_of_an_entry(fields: int, cycles: float) -> None:
    """Every second instruction has so many: entries hold four instructions in place of six, so that
    four begin in each line of 16."""
    loop = Loop(op_cache_entry=6, op_cache_width=12, op_cache_more=1)
    for k in range(96):
        loop.add(flags="no_op", latency=0, fields=fields * (k % 2))
    assert loop.cycles() == pytest.approx(cycles, abs=0.05)


@pytest.mark.parametrize(("fields", "cycles"), [(0, 6), (1, 14)])
def test_a_branch_s_distance_is_a_field_of_its_pair(fields: int, cycles: float) -> None:
    """Eight pairs of a comparison and a branch in each line."""
    loop = Loop(op_cache_entry=6, op_cache_width=12, op_cache_more=1)
    kind = _core.BRANCH_KINDS.index("conditional")
    for _ in range(48):
        loop.add(flags="no_op fuses_with_branch", latency=0, fields=fields)
        loop.add(flags="no_op conditional_branch", latency=0, fields=1, branch=kind)
    assert loop.cycles() == pytest.approx(cycles, abs=0.1)


@pytest.mark.parametrize(("order", "cycles"), [((0, 1, 3, 0, 2, 3), 7), ((0, 1, 3, 0, 1, 3), 3)])
def test_indirect_branches_of_several_targets(order: tuple[int, ...], cycles: float) -> None:
    """Two of them and two jumps: with several targets three cycles, with one a cycle, and half a
    cycle for a jump."""
    loop = Loop(indirect_cycles=3, indirect_penalty=0.5, taken_per_cycle=2, op_cache_more=0)
    kinds = _core.BRANCH_KINDS
    loop.add(flags="no_op", latency=0, branch=kinds.index("indirect"))
    loop.add(flags="no_op", latency=0)
    loop.add(flags="no_op", latency=0)
    loop.add(flags="no_op", latency=0, branch=kinds.index("jump"))
    assert loop.cycles(order=order) == pytest.approx(cycles, abs=0.1)


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
