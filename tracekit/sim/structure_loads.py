"""The registers of ARM's structure loads (``ld1``, ``ld1r``, ...).

gem5 makes loads to temporary registers of them, and micro-ops that put the elements where they
belong (VldMultOp64 and VldSingleOp64 of src/arch/arm/insts/macromem.cc), and prints neither's
registers.  The loads and what follows them wait for each other by the temporary ones.  The vector
registers that they end in are those that the code behind reads.  The base is what the instruction
counts on, or else what was computed just before.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any, NamedTuple

from tracekit.sim.code_around import INT, VECTOR, CodeAround

__all__ = ["TEMPORARY_VECTOR", "StructureOperands", "structure_operands"]

_LOAD, _PUT = "mem_neon_uopld", ("deint_neon_uop", "unpack_neon_uop")
_REGISTERS = 32
#: Instructions that the base is looked for in.
_JUST_BEFORE = 4
#: gem5's first temporary vector register (NumVecV8ArchRegs).
TEMPORARY_VECTOR = 32


class StructureOperands(NamedTuple):
    """Of the static instruction ``number``: the registers that it reads and writes, as (class,
    number)."""

    number: int
    reads: tuple[tuple[int, int], ...]
    writes: tuple[tuple[int, int], ...]


def structure_operands(statics: Any) -> list[StructureOperands]:
    """Of all structure loads of a static table."""
    if not any(text.startswith(_LOAD) for text in set(statics.disassembly)):
        return []
    names = [text.split(None, 1)[0] if text.strip() else "" for text in statics.disassembly]
    code = CodeAround(statics.arrays)
    places = range(len(code.order))
    found: list[StructureOperands] = []
    for _, own in groupby(places, key=lambda k: int(code.pc[k])):
        parts = list(own)
        loads = [k for k in parts if names[code.order[k]] == _LOAD]
        puts = [k for k in parts if names[code.order[k]] in _PUT]
        if loads and puts:
            found.extend(_of_load(code, loads, puts))
    return found


def _of_load(code: CodeAround, loads: list[int], puts: list[int]) -> Iterator[StructureOperands]:
    temporary = tuple((VECTOR, TEMPORARY_VECTOR + k) for k in range(len(loads)))
    base = _base(code, loads)
    for place, register in zip(loads, temporary, strict=True):
        yield StructureOperands(int(code.order[place]), base, (register,))
    first = _first_register(code, puts[-1], len(loads))
    for k, place in enumerate(puts):  # each has two of them
        own = [] if first is None else range(2 * k, min(2 * k + 2, len(loads)))
        writes = tuple((VECTOR, ((first or 0) + j) % _REGISTERS) for j in own)
        yield StructureOperands(int(code.order[place]), temporary, writes)


def _base(code: CodeAround, loads: list[int]) -> tuple[tuple[int, int], ...]:
    """The register of the address; none where nothing tells."""
    behind = loads[-1] + 1  # where it is counted on
    if behind < len(code.pc) and code.pc[behind] == code.pc[loads[0]]:
        counted = [r for r in code.writes(behind) & code.reads(behind) if r[0] == INT]
        if counted:
            return (counted[0],)
    for k in range(loads[0] - 1, max(loads[0] - 1 - _JUST_BEFORE, -1), -1):
        written = [r for r in code.writes(k) if r[0] == INT]
        if written and any(r[0] == INT for r in code.reads(k)):
            return (written[0],)
    return ()


def _first_register(code: CodeAround, at: int, count: int) -> int | None:
    """Of `count` that follow each other, all of which the code behind `at` reads, those that it
    reads first; of several, those that were written the longest time ago."""
    read: dict[int, int] = {}
    written: set[int] = set()
    for k in code.behind(at):
        own = {n for c, n in code.reads(k) if c == VECTOR}
        read |= dict.fromkeys(own - written - read.keys(), k)
        written |= {n for c, n in code.writes(k) if c == VECTOR}
    runs = [
        [(first + j) % _REGISTERS for j in range(count)]
        for first in sorted(read)
        if all((first + j) % _REGISTERS in read for j in range(count))
    ]
    if not runs:
        return None

    def order(run: list[int]) -> tuple[int, int]:
        return sum(read[n] for n in run), -min(code.written(at, (VECTOR, n)) for n in run)

    return min(runs, key=order)[0]
