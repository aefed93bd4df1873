"""Causes of cycles: they add up to the times of a plain walk, and name what a machine lacks."""

from __future__ import annotations

import numpy as np
import pytest
import synthetic
from hypothesis import given, settings
from hypothesis import strategies as st
from test_sim import MACHINE, extract, line

from tracekit import _core, sim
from tracekit.sim.trace_walk import KeptRows

NAMES = [name for name, _ in _core.CAUSES]
MACHINES = [
    MACHINE,
    {**MACHINE, "cpu": "minor", "width": 2},
    {**MACHINE, "width": 1, "bp": "LTAGE", "l3_kb": 4096, "rob": 16, "lq": 4, "sq": 4},
    {**MACHINE, "width": 8, "l1d_kb": 4, "l1d_mshrs": 1, "l2_kb": 64, "fetch_buffer": 16},
]


def causes(trace, machines, labels=None):
    """Cycles: labels x machines x causes."""
    rows = KeptRows(trace)
    parameters = np.array([sim.core_row(m, "arm") for m in machines])
    cores = _core.SimulatedCores(*rows._uops, cores=parameters, causes=True)
    labels = np.zeros(len(rows), np.uint32) if labels is None else labels
    out = np.zeros((int(labels.max(initial=0)) + 1, len(machines), len(NAMES)))
    for b in rows.blocks(0, len(rows)):
        mine = labels[b.begin : b.begin + len(b.ids)]
        cores.cause_sums(b.ids, b.addr, b.bits, b.following, mine, out, 2)
    return out


@settings(max_examples=12)
@given(st.integers(0, 2**32), st.integers(1, 900))
def test_causes_add_up_to_the_cycles_of_each_row(tmp_path_factory, seed, rows):
    trace = extract(tmp_path_factory.mktemp("t"), synthetic.text(seed, rows, blocks=False))
    plain = np.concatenate([w.cycles for w in sim.walk(trace, MACHINES)])
    stacks = causes(trace, MACHINES, np.arange(len(trace), dtype=np.uint32))
    assert (stacks >= 0).all()
    assert (stacks.sum(2) == plain).all()
    base = stacks[:, :, 0].sum(0)
    assert (base <= 1 + len(trace) // np.array([m["width"] for m in MACHINES])).all()


def share(text: str, tmp_path, machine=MACHINE) -> dict[str, float]:
    stack = causes(extract(tmp_path, text), [machine])[0, 0]
    return dict(zip(NAMES, stack / stack.sum(), strict=True))


def test_a_chain_of_divisions_waits_for_divisions(tmp_path):
    text = "".join(line(k, "sdiv x1, x1, x2", "IntDiv") for k in range(400))
    assert share(text, tmp_path)["divide"] > 0.8


@pytest.mark.parametrize("cpu", ["o3", "minor"])
def test_a_chain_of_misses_waits_for_memory(tmp_path, cpu):
    text = "".join(
        line(k, "ldr x1, [x1]", "MemRead", "IsInteger|IsMemRef|IsLoad", 0x10000000 + 4160 * 977 * k)
        for k in range(400)
    )
    found = share(text, tmp_path, {**MACHINE, "cpu": cpu})
    assert found["load_memory_latency"] > 0.8


def test_independent_rows_are_base(tmp_path):
    text = "".join(line(k, f"movz x{k % 8}, #0") for k in range(4000))
    assert share(text, tmp_path)["base"] > 0.6


def test_cores_without_causes_refuse(tmp_path):
    rows = KeptRows(extract(tmp_path, line(0, "movz x1, #0")))
    cores = rows.cores([MACHINE])
    (b,) = rows.blocks(0, 1)
    with pytest.raises(ValueError, match="made with causes"):
        cores.cause_sums(
            b.ids, b.addr, b.bits, b.following, np.zeros(1, np.uint32), np.zeros((1, 1, 1)), 1
        )


def test_ideal_machines_are_not_slower(tmp_path):
    trace = extract(tmp_path, synthetic.text(5, 3000, blocks=False))
    ideal = ("branches", "l1i", "l1d", "l2", "memory_order")
    machines = [MACHINE, *({**MACHINE, f"ideal_{n}": 1} for n in ideal)]
    real, *perfect = sim.totals(trace, machines)[0]
    assert all(p <= real * 1.01 for p in perfect)
    assert perfect[2] < real


def test_a_chain_is_named_by_most_of_its_time(tmp_path):
    access = "MemRead", "IsInteger|IsMemRef|IsLoad"
    pairs = [
        (line(2 * k, "ldr x1, [x1]", *access, 0x10000000 + 64 * (k % 4)))
        + line(2 * k + 1, "ubfm x1, x1, #3, #7")
        for k in range(400)
    ]
    found = share("".join(pairs), tmp_path, {**MACHINE, "l1d_lat": 6})
    assert found["load_l1"] > 0.6 > 0.1 > found["integer"]


def test_a_full_store_queue_names_what_its_stores_wait_for(tmp_path):
    store = "MemWrite", "IsInteger|IsMemRef|IsStore"
    text = "".join(
        line(k, f"str x{k % 8}, [x9]", *store, 0x10000000 + 4096 * k) for k in range(600)
    )
    found = share(text, tmp_path, {**MACHINE, "sq": 4})
    assert found["store_miss"] > 0.5 > found["store_queue_full"]
