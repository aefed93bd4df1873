"""The parts of X86 instructions are those of gem5's decoder: operations, what waits for what, and
which registers they read and write, of every instruction of two golden traces of micro-ops."""

from __future__ import annotations

from collections import defaultdict

import core_pins as pins
import numpy as np
import pytest

from tracekit import _core, schema
from tracekit.sim.uop_forms import form_of
from tracekit.sim.uop_table import table

NONE = 255
#: gem5's numbers of its temporary registers, and letters that crack() has for them.
TEMPORARIES = dict(
    zip((17, 18, 23, 19, 20, 21, 22, 34, 35, 36, 32, 33), "tux3456qmnij", strict=True)
)
LETTERS = "tux3456qmnijklUV"
#: What is not told by a macro-op's name or is left out on purpose: numbers of turns, values of one
#: byte or two in registers, which half of 16 bytes goes first.
LEFT_OUT = {"div", "bsf", "bsr", "movaps", "stos", "pslldq", "nop", "xadd", "cmpxchg"}


def gem5_register(cls: int, index: int) -> str:
    if cls == 0:
        return f"t{TEMPORARIES[index]}" if index in TEMPORARIES else f"r{index}"
    if cls == 5:
        return ("c0", "c1", "tk", "tl")[index]
    if index >= 128:
        return f"high{index - 128}"
    return {17: "tU", 18: "tV"}.get(index, f"low{index}")


def own_register(number: int) -> str:
    for first, name in ((240, None), (128, "high"), (64, "low"), (32, "c"), (0, "r")):
        if number >= first:
            return f"{name}{number - first}" if name else f"t{LETTERS[number - 240]}"
    raise AssertionError


def structure(ops, sources, destinations):
    """Of each part: its operation, the parts that it waits for, registers from outside, and what it
    writes that is no temporary."""
    by: dict[str, int] = {}
    out = []
    for k, (op, read, written) in enumerate(zip(ops, sources, destinations, strict=True)):
        inside = sorted({by[r] for r in read if r in by})
        outside = sorted(r for r in set(read) if r not in by and r[0] != "t")
        out.append((op, inside, outside, sorted(w for w in written if w[0] != "t")))
        by |= dict.fromkeys(written, k)
    return out


def of_gem5(trace):
    """pc -> structure of the micro-ops, in the order of their numbers."""
    s = trace.statics
    upc = np.ascontiguousarray(s.upc, np.uint16)
    flags = np.ascontiguousarray(s.flags, np.uint64)
    sc, si, dc, di = _core.renamed_operands(list(s.disassembly), upc, flags)
    rows = defaultdict(list)
    for i in np.lexsort((s.upc, s.pc)).tolist():
        rows[int(s.pc[i])].append(i)

    def registers(cls, index, i):
        pairs = zip(cls[i].tolist(), index[i].tolist(), strict=True)
        return [gem5_register(c, n) for c, n in pairs if c != NONE]

    return {
        pc: structure(
            [schema.OP_CLASSES[s.op[i]] for i in parts],
            [registers(sc, si, i) for i in parts],
            [registers(dc, di, i) for i in parts],
        )
        for pc, parts in rows.items()
    }


@pytest.mark.parametrize("name", ["chase_big.x86", "sqlite_join.x86"])
def test_the_parts_are_those_of_gem5s_decoder(name):
    gem5, trace = of_gem5(pins.extracted(name, "micro")), pins.extracted(name, "macro")
    s = trace.statics
    t = table(s)
    often = np.bincount(trace.column("static_id"), minlength=len(s))
    judged = other = 0
    for i in np.flatnonzero(often).tolist():
        if form_of(s.disassembly[i]).name in LEFT_OUT:
            continue
        parts = range(int(t.begin[i]), int(t.begin[i + 1]))
        own = structure(
            [schema.OP_CLASSES[t.op[p]] for p in parts],
            [[own_register(r) for r in t.src[p].tolist() if r != _core.NO_REGISTER] for p in parts],
            [[own_register(r) for r in t.dst[p].tolist() if r != _core.NO_REGISTER] for p in parts],
        )
        judged += int(often[i])
        other += int(often[i]) * (own != gem5[int(s.pc[i])])
    assert judged > 0.95 * len(trace)
    assert other < 0.01 * judged
