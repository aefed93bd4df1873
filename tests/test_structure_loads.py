"""The registers of ARM's structure loads, of which gem5's text prints none."""

from __future__ import annotations

import pytest
from test_sim import cycles, extract, line

from tracekit.sim.access_sizes import ELEMENT, STRUCTURE, access_sizes
from tracekit.sim.code_around import INT, VECTOR
from tracekit.sim.structure_loads import structure_operands

PLACE = 0x100000
LOAD = "mem_neon_uopld", "MemRead", "IsVector|IsLoad|IsMicroop"
PUT = "deint_neon_uop", "No_OpClass", "IsVector|IsMicroop"
ELEMENTS = "unpack_neon_uop", "SimdAdd", "IsVector|IsMicroop"
BASE = "and   x2, x0, #18446744073709551600", "IntAlu", "IsInteger"
READS = "cmeq   w3, w1, w0", "SimdCmp", "IsVector"
WRITES = "dup   w0, w9", "SimdMisc", "IsVector|IsInteger"


def code(*rows: tuple[tuple[str, str, str], int], turns: int = 1) -> str:
    """Rows of a loop, each with the number of its instruction."""
    out = []
    for _ in range(turns):
        for k, (what, number) in enumerate(rows):
            place = PLACE if "IsLoad" in what[2] else None
            row = line(len(out), *what, place, 0x400000 + 4 * number)
            part = sum(n == number for _, n in rows[:k])
            out.append(row.replace("    : ", f". {part} : ", 1) if "IsMicroop" in row else row)
    return "".join(out)


def operands(trace) -> list[tuple[str, tuple, tuple]]:
    names = [d.split()[0] for d in trace.statics.disassembly]
    return [(names[o.number], o.reads, o.writes) for o in structure_operands(trace.statics)]


def test_a_load_ends_in_the_register_that_is_read_and_was_not_written(tmp_path):
    rows = (BASE, 0), (WRITES, 1), (LOAD, 2), (PUT, 2), (READS, 3)
    with extract(tmp_path, code(*rows)) as trace:
        assert operands(trace) == [
            (LOAD[0], ((INT, 2),), ((VECTOR, 32),)),
            (PUT[0], ((VECTOR, 32),), ((VECTOR, 1),)),
        ]


def test_the_register_that_an_instruction_counts_on_is_its_base(tmp_path):
    count = "addxi_uop   x7, x7, #16", "IntAlu", "IsInteger|IsMicroop"
    rows = (BASE, 0), (LOAD, 1), (count, 1), (PUT, 1), (READS, 2)
    with extract(tmp_path, code(*rows)) as trace:
        assert operands(trace)[0][1] == ((INT, 7),)


def test_registers_of_several_follow_each_other(tmp_path):
    reads = "orr   w9, w5, w6", "SimdAlu", "IsVector"
    rows = (LOAD, 0), (LOAD, 0), (PUT, 0), (reads, 1)
    with extract(tmp_path, code(*rows)) as trace:
        temporary, own = ((VECTOR, 32), (VECTOR, 33)), ((VECTOR, 5), (VECTOR, 6))
        assert operands(trace)[-1] == (PUT[0], temporary, own)


def test_nothing_is_made_up_where_nothing_tells(tmp_path):
    rows = (LOAD, 0), (PUT, 0), (WRITES, 1)
    with extract(tmp_path, code(*rows)) as trace:
        assert operands(trace) == [(LOAD[0], (), ((VECTOR, 32),)), (PUT[0], ((VECTOR, 32),), ())]
        assert structure_operands(extract(tmp_path, code((BASE, 0))).statics) == []


@pytest.mark.parametrize(("put", "size"), [(PUT, STRUCTURE), (ELEMENTS, ELEMENT)])
def test_their_bytes_are_known(tmp_path, put, size):
    with extract(tmp_path, code((BASE, 0), (LOAD, 1), (put, 1))) as trace:
        assert access_sizes(trace.statics).tolist() == [0, size, 0]


def test_what_hangs_on_one_waits_for_it(tmp_path):
    """A loop whose address hangs on what the structure load brought, and one where it does not."""
    move = "fmov   f0, f3", "FloatMisc", "IsVector|IsInteger"
    chained = (BASE, 0), (LOAD, 1), (PUT, 1), (READS, 2), (move, 3), (BASE, 4)
    free = (BASE, 0), (LOAD, 1), (PUT, 1), (READS, 2), (move, 3), (WRITES, 4)
    one, other = (cycles(extract(tmp_path, code(*c, turns=300))) for c in (chained, free))
    assert one > other
