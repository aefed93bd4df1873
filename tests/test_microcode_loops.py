"""Instructions of several parts against the same parts as rows of their own: loops of microcode,
retries behind traps, and numbers of turns that do not depend on where a walk begins."""

from __future__ import annotations

import numpy as np
from core_pins import made_up
from hypothesis import given, settings
from hypothesis import strategies as st

from tracekit import _core, schema, sim
from tracekit.sim.description import machines
from tracekit.sim.microcode_loops import (
    DIVISION_TURNS,
    Loops,
    executed_parts,
    likely_turns,
    mean_turns,
)

TAKEN, FAULT = schema.BITS["taken"][0], schema.BITS["fault"][0]
CONDITIONAL = schema.BRANCH_KINDS.index("conditional")
ACCESS = _core.CORE_INST_BITS["load"] | _core.CORE_INST_BITS["store"]
MACHINES = ("o3_small", "ns_8w", "u003", "u006", "io_1w")


def mixed(turns: int) -> int:
    """splitmix64, as csrc/sim/microcode_loop.hpp."""
    n = (turns + 1) * 0x9E3779B97F4A7C15 % 2**64
    n = (n ^ n >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    n = (n ^ n >> 27) * 0x94D049BB133111EB % 2**64
    return (n >> 32) % _core.MICROCODE_LOOP_CASES


class Joined:
    """A made-up program some of whose instructions have a loop in front of their last part."""

    def __init__(self, seed: int, rows: int) -> None:
        program = made_up(seed, rows, size=60)
        pc, flags, op, branch, size, offset, src, dst, starts = (a.copy() for a in program.statics)
        lengths = np.diff(starts)
        for a in starts[:-1][lengths > 1]:  # made-up branches are last parts
            branch[a : a + 2] = 0
            if (starts == a + 3).any():
                branch[a + 1] = CONDITIONAL
                flags[a + 1] = 0
                op[a + 1] = schema.OP_CLASSES.index("IntAlu")
        self.statics = pc, flags, op, branch, size, offset, src, dst, starts
        self.ids, self.bits = program.ids, program.bits.copy()
        self.addr = program.addr & ~np.uint64(15)  # all parts' accesses are in one page
        access = np.logical_or.reduceat((flags & ACCESS) != 0, starts[:-1])
        self.addr[~access[self.ids]] = 0
        draw = np.random.default_rng(seed)
        self.bits[draw.random(rows) < 0.05] |= FAULT
        self.loops = np.flatnonzero(lengths == 3).astype(np.uint32)
        self.turns = draw.integers(0, 6, (len(self.loops), _core.MICROCODE_LOOP_CASES), np.uint8)

    def cores(self, rows: np.ndarray) -> _core.SimulatedCores:
        first = self.statics[-1][self.loops]
        return _core.SimulatedCores(
            *self.statics, loop_ids=self.loops, loop_from=first, loop_branch=first + 1,
            loop_turns=self.turns, joined=True, cores=rows,
        )  # fmt: skip

    def apart(self) -> tuple[list[int], list[int], list[int], list[int]]:
        """Part, address, bits of each part that is executed, and whether it ends a row."""
        _, flags, _, branch, _, offset, _, _, starts = self.statics
        out: list[tuple[int, int, int, int]] = []
        done = 0
        for sid, addr, bits in zip(self.ids, self.addr, self.bits, strict=True):
            parts = list(range(int(starts[sid]), int(starts[sid + 1])))
            order = [(p, 0) for p in parts]
            if branch[parts[-1]]:
                order[-1] = parts[-1], int(bits) & TAKEN
            where = np.flatnonzero(self.loops == sid)
            if len(where):
                n = int(self.turns[where[0], mixed(done)])
                done += 1
                order = [(parts[0], 0), (parts[1], TAKEN)] * n + order
            access = next((p for p in parts if flags[p] & ACCESS), None)
            if bits & FAULT and access is not None:
                tried = [(p, FAULT * (p == access)) for p in parts if p <= access]
                order = [*tried, *order]
            ends = [0] * (len(order) - 1) + [1]
            for (p, b), end in zip(order, ends, strict=True):
                out.append((p, int(addr + offset[p]) if flags[p] & ACCESS else 0, b, end))
        return tuple(map(list, zip(*out, strict=True)))  # type: ignore[return-value]

    def micro(self, rows: np.ndarray) -> np.ndarray:
        """Cycles of each row by cores that know no instructions of several parts."""
        pc, flags, op, branch, size, offset, src, dst, _ = self.statics
        ids, addr, bits, ends = self.apart()
        statics = pc, flags, op, branch, size, np.zeros_like(offset), src, dst
        starts = np.arange(len(pc) + 1, dtype=np.uint32)
        cores = _core.SimulatedCores(*statics, starts, cores=rows)
        columns = np.array(ids, np.uint32), np.array(addr, np.uint64), np.array(bits, np.uint8)
        cycles, _ = cores.run(*columns, 0)
        row = np.cumsum(ends) - ends
        out = np.zeros((len(self.ids), len(rows)))
        np.add.at(out, row, cycles)
        return out


def core_rows(*names: str) -> np.ndarray:
    return np.array([sim.core_row(machines()[n].to_dict(), "x86") for n in names])


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6))
def test_parts_of_instructions_are_rows_of_their_own(seed):
    program, rows = Joined(seed, 400), core_rows(*MACHINES)
    found, _ = program.cores(rows).run(program.ids, program.addr, program.bits, 0)
    np.testing.assert_array_equal(found, program.micro(rows))


def test_turns_are_those_of_the_walk_wherever_a_sample_begins():
    program, rows = Joined(6, 6000), core_rows("o3_small")
    program.bits &= np.uint8(~FAULT & 0xFF)
    want, _ = program.cores(rows).run(program.ids, program.addr, program.bits, 0)
    cuts = (slice(0, 3000), slice(3000, 4000), slice(4000, 6000))
    columns = [(program.ids[c], program.addr[c], program.bits[c]) for c in cuts]

    def alike() -> float:
        """Rows of the last part, but for its first ones, with the walk's cycles."""
        cores = program.cores(rows)
        cores.observe(*columns[0], int(program.ids[3000]))
        cores.begin_behind(*columns[1], int(program.ids[4000]))
        found, _ = cores.run(*columns[2], 0)
        return float((found[200:] == want[4200:]).mean())

    same = alike()
    program.turns = np.roll(program.turns, 1, axis=1)
    assert same > 0.9 and alike() < 0.7


def test_likely_turns_are_those_that_were_counted():
    for name, counts in DIVISION_TURNS.items():
        mean = np.average(np.arange(len(counts)), weights=counts)
        assert abs(mean_turns(name) - mean) < 0.05
        assert sorted(likely_turns(name)) == list(likely_turns(name))


def test_parts_in_a_loop_count_as_often_as_it_turns():
    """Three instructions: one part; none of the class; two, one of which is in a loop."""
    op = np.array([3, 1, 3, 1, 3, 1], np.uint8)
    begin = np.array([0, 1, 2, 6], np.uint32)
    turns = np.full((1, _core.MICROCODE_LOOP_CASES), 4, np.uint8)
    turns[0, ::2] = 7
    loops = Loops(*(np.array([k], np.uint32) for k in (2, 3, 5)), turns)
    assert executed_parts(op, begin, loops, [3]).tolist() == [1, 0, 2 + 5.5]
    assert executed_parts(op, begin, Loops.of([]), [1, 3]).tolist() == [1, 1, 4]
