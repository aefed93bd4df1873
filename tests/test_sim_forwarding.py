"""What a load takes from stores that are not in the cache yet: bytes, words, vectors (csrc/sim)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from test_sim import cycles, extract
from test_sim_memory import BASE, LOAD, STORE, text

import tracekit
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
