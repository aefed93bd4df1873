"""What a load takes from stores that are not in the cache yet: bytes, words, vectors (csrc/sim)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from test_sim import MACHINE, cycles, extract, line
from test_sim_memory import BASE, LOAD, STORE, text

import tracekit
from tracekit import sim
from tracekit.causes import CAUSES
from tracekit.sim import core_instructions
from tracekit.sim.access_sizes import SCALABLE_VECTOR, access_sizes, masked

VECTOR = "IsInteger|IsVector|IsStore"
N = 300
#: So that a load which goes to the cache is told from one that does not.
FAR = {"l1d_lat": 20}


def chain(folder: Path, *stores: tuple[str, str, int], load: int) -> tracekit.TraceFile:
    """Stores, the first one of what was loaded last, and a load, again and again."""
    rows: list[tuple[str, str, str, int | None]] = []
    for _ in range(N):
        rows += [(what, "MemWrite", flags, BASE + at) for what, flags, at in stores]
        rows.append(("ldrb   x1, [x4]", "MemRead", LOAD, BASE + load))
    return extract(folder, text(*rows))


def test_a_store_beside_another_one_does_not_hide_it(tmp_path):
    first, second = ("strb   x1, [x2]", STORE, 0), ("strb   x6, [x3]", STORE, 4)
    alone, both = (chain(tmp_path, *s, load=0) for s in ([first], [first, second]))
    assert cycles(both, **FAR) < cycles(alone, **FAR) + 2 * N


def test_a_vector_store_forwards_any_of_its_bytes(tmp_path):
    vector = "st1   {z1}, p0/z, , [x1]"  # its address is what was loaded
    scalar = chain(tmp_path, ("strb   x1, [x0]", STORE, 0), load=0)
    inside = chain(tmp_path, (vector, VECTOR, 0), load=12)
    assert cycles(inside, **FAR) < cycles(scalar, **FAR) + N


def test_a_vector_store_of_some_lanes_forwards_nothing(tmp_path):
    whole, part = (
        chain(tmp_path, (f"st1   {{z1}}, p0/z, , [x0{more}]", VECTOR, 0), load=12)
        for more in ("", ", #1, mul vl")
    )
    assert cycles(part) > cycles(whole) + 0.8 * N  # it comes again when the store is in the cache


def test_which_rows_are_vectors_and_which_of_them_are_masked(tmp_path):
    rows = [
        ("st1   {z1}, p0/z, , [x0, #1, mul vl]", "MemWrite", VECTOR, BASE),
        ("ld1   {z1}, p0/z, , [x0]", "MemRead", LOAD, BASE),
        ("ldr   x1, [x2]", "MemRead", LOAD, BASE),
        ("ldrb   x1, [x2]", "MemRead", LOAD, BASE),
        ("add   x1, x1, #1", "IntAlu", "IsInteger", None),
    ]
    statics = extract(tmp_path, text(*rows)).statics
    assert access_sizes(statics).tolist() == [SCALABLE_VECTOR, SCALABLE_VECTOR, 0, 1, 0]
    assert np.flatnonzero(masked(statics)).tolist() == [0]


def squashed(trace: tracekit.TraceFile) -> float:
    """Cycles that squashes of loads take which passed a store."""
    labels = np.zeros(len(trace.statics), np.uint32)
    parts = sim.cause_walk(trace, [MACHINE], labels)
    return float(sum(p.sums[0, 0, CAUSES.index("memory_order_squash")] for p in parts))


def test_a_load_that_waits_for_a_part_is_not_found_by_older_stores(tmp_path):
    """It has met a store of half of its bytes, which cannot go to the cache before a division has
    retired, and issues again behind it: the other half's store has executed by then."""

    def loop(first: int) -> tracekit.TraceFile:
        body = [
            ("udiv   x1, x3, x4", "IntDiv", "IsInteger", None),
            ("str   x9, [x10]", "MemWrite", STORE, BASE + first),
            ("mul   x2, x5, x6", "IntMult", "IsInteger", None),
            ("str   x2, [x11]", "MemWrite", STORE, BASE + 8),
            ("ldp_uop   x12, x13, [x14]", "MemRead", LOAD, BASE),
            *[("add   x7, x7, #1", "IntAlu", "IsInteger", None)] * 60,
        ]
        rows = [line(k, *row, pc=0x400000 + 4 * k) for k, row in enumerate(body)]
        return extract(tmp_path, "".join(rows * 20))

    assert squashed(loop(64)) > 0
    assert squashed(loop(0)) == 0


def test_pages_have_frames_in_the_order_in_which_they_are_touched(tmp_path):
    """Five pages that are touched in turn with five others have only two of the four colours of
    their frames in the first cache, and those touched one after the other have all four."""
    page, base = 4096, 0x7000000

    def loop(order: list[int]) -> float:
        rows = []
        for k, p in enumerate(order):  # each traps, and comes again
            own = line(k, "str   x1, [x2]", "MemWrite", STORE, base + page * p, 0x400000 + 4 * k)
            rows += [own, own]
        for _ in range(20):
            for at in range(base, base + 5 * page, 64):
                rows.append(line(0, "ldr   x3, [x3]", "MemRead", LOAD, at, 0x401000))
                rows.append(line(0, "add   x7, x7, #1", pc=0x401004))
        return cycles(extract(tmp_path, "".join(rows)), l1d_kb=32, l1d_assoc=2)

    after, turns = list(range(10)), [p for k in range(5) for p in (k, 5 + k)]
    lines = 5 * page // 64
    # A set of three lines, by turns: each pass misses those of three pages.
    assert loop(turns) > loop(after) + 19 * lines * 3 / 5 * 8


def test_nothing_waits_for_registers_of_the_system():
    none, misc = 255, 6
    own = core_instructions._Operands(
        np.array([[0, misc, none]], np.uint8),
        np.array([[1, 17, 0]], np.uint16),
        np.array([[2, misc, none]], np.uint8),
        np.array([[3, 17, 0]], np.uint16),
    )
    src, dst = core_instructions._registers(own)
    missing = core_instructions.NO_REGISTER
    assert src[0, 0] != missing and dst[0, 0] != missing
    assert (src[0, 1:] == missing).all() and (dst[0, 1:] == missing).all()
