"""The simulated cores: predictors against oracles, times against what must hold on any machine."""

from __future__ import annotations

import importlib
import itertools
import random

import numpy as np
import pytest
import synthetic
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import predictors

import tracekit
from tracekit import sim
from tracekit.errors import UsageError

MACHINE = {
    "name": "m", "clock_ghz": 2.0, "width": 4, "issue_width": 4, "rob": 64, "iq": 32, "lq": 16,
    "sq": 16,
    "phys_int": 128, "phys_vec": 128, "fetch_buffer": 64, "fetch_queue": 32, "front_delay": 1,
    "issue_to_exec": 1, "int_alu": 4, "int_mul": 1, "int_mul_lat": 3, "int_div_lat": 12, "fp": 2,
    "fp_add_lat": 2, "fp_mul_lat": 4, "fp_div_lat": 12, "simd": 2, "load_ports": 2,
    "store_ports": 1,
    "agu_lat": 1, "bp": "Local", "btb": 1024, "l1i_kb": 32, "l1i_assoc": 4, "l1i_lat": 1,
    "l1d_kb": 32,
    "l1d_assoc": 4, "l1d_lat": 2, "l1d_mshrs": 8, "l1d_pf": "none", "l2_kb": 512, "l2_assoc": 8,
    "l2_lat": 12, "l2_mshrs": 16, "l2_pf": "none", "l3_kb": 0, "l3_assoc": 16, "l3_lat": 30,
    "mem": "DDR4_2400_8x8",
}  # fmt: skip
SLOW = settings(max_examples=8)
walk_module = importlib.import_module(
    "tracekit.sim.trace_walk"
)  # the package's `walk` is its function


def line(
    k: int,
    text: str,
    op: str = "IntAlu",
    flags: str = "IsInteger",
    addr: int | None = None,
    pc: int | None = None,
) -> str:
    """The k-th row of a trace; of a loop of eight instructions unless its pc is given."""
    place = f" A={addr:#x}" if addr is not None else ""
    at = f"{0x400000 + 4 * (k % 8) if pc is None else pc:#x}"
    return f"{500 * k:7d}: system.cpu: {at}    :   {text:<24} : {op} : {place}  flags=({flags})\n"


def extract(tmp_path, text: str):
    source = tmp_path / "t.txt"
    source.write_text(text)
    target = tmp_path / f"{random.randrange(1 << 60)}.zst"
    tracekit.extract(str(source), str(target))
    return tracekit.open(str(target))


def cycles(trace, **changes) -> float:
    return float(sim.totals(trace, [{**MACHINE, **changes}])[0, 0])


def test_a_line_that_was_dirty_in_the_third_cache_is_asked_for_once_more(tmp_path):
    """The second cache has it answered behind a miss of its own: the first one may not write it,
    and a load behind its first store waits until it may."""
    lines = range(0x1000_0000, 0x1000_0000 + 4096 * 64, 64)

    def passes(dirty: bool) -> str:
        k, out = itertools.count(), []
        for a in lines:
            if dirty:
                out.append(line(next(k), "str   x3, [x4]", "MemWrite", "IsInteger|IsStore", a))
            else:
                out.append(line(next(k), "ldr   x3, [x4]", "MemRead", "IsInteger|IsLoad", a))
        for a in lines:  # each access waits for the one before it
            load = "ldr   x1, [x1]", "MemRead", "IsInteger|IsLoad"
            out.append(line(next(k), *load, a))
            out.append(line(next(k), "str   x1, [x1]", "MemWrite", "IsInteger|IsStore", a))
            out += [line(next(k), *load, a + 8 * n) for n in range(1, 8)]
        return "".join(out)

    clean, written = (extract(tmp_path, passes(dirty)) for dirty in (False, True))

    def second(trace, **changes) -> float:
        machine = {**MACHINE, "l2_kb": 64, **changes}
        return float(sim.totals(trace, [machine], [0, len(lines), len(trace)])[1, 0])

    with_third = {"l3_kb": 4096}
    assert second(written, **with_third) > second(clean, **with_third) + len(lines) * 5
    held = {"l2_kb": 1024}  # which answers at once, and gives the right to write away
    assert second(written, **held) < second(clean, **held) + len(lines)


def test_a_warning_of_gem5s_own_is_a_fault(tmp_path):
    """Its `warn_once` of non-temporal stores: what is behind comes anew."""

    def micro(k: int, text: str, op: str, flags: str, addr: int | None = None) -> str:
        at = 0x400000 + 16 * (k // 2 % 4)
        flags = f"IsInteger|IsMicroop|{flags}"
        return line(k, text, op, flags, addr, at).replace(f"{at:#x}    :", f"{at:#x}. {k % 2} :")

    def stores(before: str) -> str:
        store = "MOVNTPS_M_XMM : stfp   %xmm1_low, DS:[rdi + 0x10]"
        return "".join(
            micro(2 * k, f"MOVNTPS_M_XMM : {before}", "No_OpClass", "IsFirstMicroop")
            + micro(2 * k + 1, store, "FloatMemWrite", "IsStore|IsLastMicroop", 0x7FFFF000)
            for k in range(300)
        )

    warning = 'warn_once   "MOVNTPS: Ignoring non-temporal hint, modeling as cacheable!"'
    plain, warned = (extract(tmp_path, stores(b)) for b in ("limm   t1, 0x1", warning))
    assert plain.arch == warned.arch == "x86" and len(warned) == len(plain) == 600
    assert cycles(warned, phys_float=128) > cycles(plain, phys_float=128) + 300 * 15


@SLOW
@given(st.integers(0, 2**32), st.integers(1, 700))
def test_difficulty_is_what_predictors_get_wrong_that_learn_at_once(tmp_path_factory, seed, rows):
    trace = extract(tmp_path_factory.mktemp("t"), synthetic.text(seed, rows, blocks=False))
    wrong = np.concatenate([w.wrong for w in sim.walk(trace, [], difficulty=True)])
    at = np.flatnonzero(trace["branch"])
    conditional, taken = trace["branch"][at] == 1, trace["taken"][at].astype(bool)
    columns = (trace["pc"][at].tolist(), conditional, taken, range(len(at)))
    branches = list(zip(*columns, strict=True))
    for bit, oracle in enumerate((predictors.local, predictors.tournament, predictors.bimode)):
        missed = np.array(oracle(branches), bool) != taken
        assert ((wrong[at] >> bit & 1) == missed)[conditional].all()
    assert not wrong[trace["branch"] == 0].any()


@SLOW
@given(st.integers(0, 2**32), st.integers(1, 400), st.integers(20, 300))
def test_blocks_and_threads_do_not_matter(tmp_path_factory, seed, rows, block):
    trace = extract(tmp_path_factory.mktemp("t"), synthetic.text(seed, rows, blocks=False))
    machines = [MACHINE, {**MACHINE, "width": 1, "bp": "LTAGE"}, {**MACHINE, "l3_kb": 4096}]
    whole = np.concatenate([w.cycles for w in sim.walk(trace, machines, threads=1)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walk_module, "BLOCK", block)
        parts = np.concatenate([w.cycles for w in sim.walk(trace, machines, threads=3)])
    assert np.array_equal(whole, parts)
    assert (whole >= 0).all() and whole.shape == (len(trace), 3)
    assert whole[:, 1].sum() >= len(trace) - 1  # one row a cycle
    alone = np.concatenate([w.cycles for w in sim.walk(trace, machines[2:])])
    assert np.array_equal(alone[:, 0], whole[:, 2])  # cores do not see each other
    r = np.random.default_rng(seed)
    breaks = np.array([0, *np.sort(r.integers(0, len(trace) + 1, 9))])
    want = [whole[a:b].sum(axis=0, dtype=float) for a, b in itertools.pairwise(breaks)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walk_module, "BLOCK", block)
        kept = sim.KeptRows(trace)
        for source in (trace, kept, kept):
            assert np.array_equal(sim.totals(source, machines, breaks, 2), want)
    few = sim.KeptRows(trace, 7)
    assert len(few) == min(7, len(trace))
    total = whole[: len(few)].sum(axis=0, dtype=float)
    assert np.array_equal(sim.totals(few, machines)[0], total)
    with pytest.raises(UsageError, match="breaks"):
        sim.totals(few, machines, [0, len(few) + 1])


def test_a_chain_costs_its_latency(tmp_path):
    n = 4000
    chain = extract(
        tmp_path, "".join(line(k, "madd   x1, x1, x1, x1", "IntMult") for k in range(n))
    )
    free = extract(tmp_path, "".join(line(k, f"add   x{k % 8 + 2}, x1, x1") for k in range(n)))
    base = cycles(chain)
    assert base == pytest.approx(3 * n, rel=0.1)
    assert cycles(chain, int_mul_lat=4) - base == pytest.approx(n, rel=0.05)
    assert cycles(chain, issue_to_exec=2) - base == pytest.approx(n, rel=0.05)
    assert cycles(free) == pytest.approx(n / 4, rel=0.3)
    assert cycles(free, width=1) == pytest.approx(n, rel=0.1)
    assert cycles(free, int_alu=1) == pytest.approx(n, rel=0.1)


def test_caches_hold_what_fits(tmp_path):
    # 256 lines, again and again: 16 kB; each load's address depends on the one before it.
    n = 8000
    text = "".join(
        line(k, "ldr   x1, [x1]", "MemRead", "IsInteger|IsLoad", 0x100000 + 64 * (k % 256))
        for k in range(n)
    )
    trace = extract(tmp_path, text)
    fits, second, memory = cycles(trace), cycles(trace, l1d_kb=4), cycles(trace, l1d_kb=4, l2_kb=4)
    assert fits < second < memory
    assert (second - fits) / n == pytest.approx(12 + 4, abs=3)
    assert (memory - second) / n > 50
    assert cycles(trace, l1d_kb=4, l1d_pf="tagged") < second


def test_machines_out_of_range_are_refused():
    with pytest.raises(UsageError, match="width"):
        sim.core_row({**MACHINE, "width": 0})
    with pytest.raises(UsageError, match="rob is missing"):
        sim.core_row({k: v for k, v in MACHINE.items() if k != "rob"})
    with pytest.raises(UsageError, match="mem"):
        sim.core_row({**MACHINE, "mem": "core memory"})
    with pytest.raises(UsageError, match="iq"):
        sim.core_row({**MACHINE, "iq": float("nan")})
    with pytest.raises(UsageError, match="not a number"):
        sim.core_row({**MACHINE, "iq": "many"})


@SLOW
@given(st.integers(0, 2**32), st.integers(1, 400), st.integers(20, 300))
def test_a_timed_walk_tells_what_makes_the_cycles(tmp_path_factory, seed, rows, block):
    trace = extract(tmp_path_factory.mktemp("t"), synthetic.text(seed, rows, blocks=False))
    machines = [MACHINE, {**MACHINE, "width": 1}]
    whole = np.concatenate([w.cycles for w in sim.walk(trace, machines)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walk_module, "BLOCK", block)
        parts = list(sim.walk(trace, machines, threads=2, timed=True))
    timed = np.concatenate([w.cycles for w in parts])
    assert timed.shape == (len(trace), 2, len(sim.TIMING))
    cycles, margin, gap, wait, latency = np.moveaxis(timed, 2, 0)
    assert np.array_equal(cycles, whole)
    ordinary = ~trace["fault"]
    late = (margin > 0) & ordinary[:, None]
    assert np.array_equal(cycles[late], margin[late])
    assert (cycles[~late & ordinary[:, None]] <= 1).all()  # only the width can hold it
    assert (gap >= 0).all() and (wait >= 0).all() and (latency >= 0).all()
    assert gap[:, 1].sum() >= len(trace) - 1


def test_an_in_order_core_waits_in_order(tmp_path):
    n = 2000
    free = extract(tmp_path, "".join(line(k, f"add   x{k % 8 + 2}, x1, x1") for k in range(n)))
    chain = extract(
        tmp_path, "".join(line(k, "madd   x1, x1, x1, x1", "IntMult") for k in range(n))
    )
    small = {"cpu": "minor", "width": 1}
    assert cycles(free, **small) == pytest.approx(n, rel=0.2)
    assert cycles(free, cpu="minor", width=2) == pytest.approx(n / 2, rel=0.3)
    assert cycles(chain, **small) == pytest.approx(3 * n, rel=0.2)  # Minor's multiplier
    assert cycles(chain, cpu="minor", width=2) == pytest.approx(3 * n, rel=0.2)
    loads = extract(
        tmp_path,
        "".join(
            line(k, "ldr   x1, [x2]", "MemRead", "IsInteger|IsLoad", 0x100000 + 4096 * k)
            for k in range(n)
        ),
    )
    # Every load misses everywhere; two are on their way at a time.
    assert cycles(loads, **small) / n > 20
    assert cycles(loads, **small) > 2 * cycles(loads)


def test_a_digest_is_of_the_code_that_walks(tmp_path, monkeypatch):
    now = sim.cores_digest.__wrapped__()
    assert now == sim.cores_digest()
    (tmp_path / "core.so").write_bytes(b"another build")
    monkeypatch.setattr(tracekit._core, "__file__", str(tmp_path / "core.so"))
    assert sim.cores_digest.__wrapped__() != now


def test_a_load_keeps_its_place_in_the_issue_queue_until_it_has_its_data(tmp_path):
    n = 2000
    loads = "".join(
        line(k, f"ldr   x{k % 8 + 2}, [x1]", "MemRead", "IsInteger|IsLoad", 0x100000 + 8 * (k % 64))
        for k in range(n)
    )
    adds = "".join(line(k, f"add   x{k % 8 + 2}, x1, x1") for k in range(n))
    few = {"iq": 4, "l1d_lat": 20, "rob": 200, "lq": 100}
    held = extract(tmp_path, loads)
    assert cycles(held, **few) > 20 * n / 4
    assert cycles(held, **{**few, "iq": 100}) < 20 * n / 8
    assert cycles(extract(tmp_path, adds), **few) < 2 * n


def test_a_stage_that_blocks_makes_a_bubble_of_the_front_ends_depth(tmp_path):
    n = 8000
    adds = extract(tmp_path, "".join(line(k, f"add   x{k % 8 + 2}, x1, x1") for k in range(n)))
    # Rename waits for room in the reorder buffer again and again, or never.
    assert cycles(adds, rob=12, front_delay=8) > 1.1 * cycles(adds, rob=12)
    assert cycles(adds, front_delay=8) < 1.05 * cycles(adds)


def test_an_ideal_memory_has_no_latency_or_no_limit():
    at = {name: (k, least) for k, (name, least, _) in enumerate(sim.PARAMETERS)}
    plain = sim.core_row(MACHINE)
    for key, names, values in (
        ("latency", ("controller", "cas", "activate", "precharge", "ras"), {0.0}),
        ("bandwidth", ("turnaround", "refresh"), {0.0}),
        ("bandwidth", ("burst", "column", "activation"), None),
    ):
        row = sim.core_row({**MACHINE, f"ideal_memory_{key}": 1})
        for name in names:
            k, least = at[f"memory_{name}"]
            assert row[k] in (values or {least}) and plain[k] > least


def test_a_simulation_tells_cycles_and_their_ratios(tmp_path):
    trace = extract(tmp_path, synthetic.text(3, 500, blocks=False))
    machines = [MACHINE, {**MACHINE, "name": "slow", "clock_ghz": 0.7, "width": 1}]
    found = sim.simulate(trace, [sim.Machine(**m) for m in machines])
    total = sim.totals(trace, machines)[0]
    assert np.array_equal(found.cycles, total) and found.instructions < len(trace)
    assert np.array_equal(found.cpi, total / found.instructions)
    assert np.allclose(found.seconds, total * np.array([500e-12, 1429e-12]), rtol=1e-12)
    told = found.to_dict()["machines"]
    assert [m["cpi"] for m in told] == pytest.approx(list(total / found.instructions))
    assert [m["name"] for m in told] == ["m", "slow"]


def test_ranges_of_rows_by_number_and_by_place(tmp_path):
    trace = extract(tmp_path, synthetic.text(4, 300, blocks=False))
    machine, n = sim.Machine(**MACHINE), len(trace)
    whole = sim.simulate(trace, [machine])
    starts = [0, n // 3, n // 2]
    found = sim.simulate(trace, [machine], ranges=starts)
    assert found.breaks.tolist() == [*starts, n]
    assert found.cycles_by_range.sum() == whole.cycles.sum()
    assert (found.cycles_by_range > 0).all()
    for wrong in ([], [1, 5], [0, 0], [0, n], 0, n + 1):
        with pytest.raises(UsageError, match="ranges"):
            sim.simulate(trace, [machine], ranges=wrong)


def test_a_read_does_not_wait_for_what_stores_ask_for_later(tmp_path):
    """A copy whose stores drain hundreds of cycles behind its loads reads as fast as without, where
    registers and memory are enough for both."""

    def loop(second: tuple[str, str, str], base: int | None) -> str:
        rows: list[str] = []
        for k in range(1500):
            at = None if base is None else base + 64 * k
            load = ("ldr   x2, [x0]", "MemRead", "IsInteger|IsLoad", 0x10_000_000 + 64 * k)
            for j, row in enumerate([load, (*second, at), *[("add   x4, x4, #1",)] * 20]):
                rows.append(line(len(rows), *row, pc=0x400000 + 4 * j))
        return "".join(rows)

    deep = {"rob": 320, "iq": 160, "lq": 105, "sq": 64, "phys_int": 400, "l1d_mshrs": 48}
    far = {"clock_ghz": 1.0, "mem": "HBM_2000_4H_1x64", "l3_kb": 8192, "l2_lat": 20, "l2_mshrs": 48}
    reads = loop(("add   x3, x2, #1", "IntAlu", "IsInteger"), None)
    copies = loop(("str   x2, [x1]", "MemWrite", "IsInteger|IsStore"), 0x20_040_000)
    alone, both = (cycles(extract(tmp_path, text), **deep, **far) for text in (reads, copies))
    assert both < 1.1 * alone
