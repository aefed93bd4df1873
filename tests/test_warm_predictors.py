"""Warm starts of cores whose predictors, whose fetch, or whose loads depend on what is in flight:
samples against the same rows of a whole walk."""

from __future__ import annotations

import numpy as np
import pytest
from test_sim import MACHINE, extract, line

import tracekit
from tracekit.sim import sample_sums, totals

BRANCH = "IsInteger|IsControl|IsDirectControl|IsCondControl"
JUMP = "IsControl|IsDirectControl|IsUncondControl"


def bias(trace, machine, first, end, **rows):
    """Of one sample, by which its cycles differ from the whole walk's."""
    true = totals(trace, [machine], [0, first, end])[1, 0]
    return sample_sums(trace, [machine], [(first, end)], **rows)[0, 0] / true - 1


@pytest.mark.parametrize("turns_before", [4, 0])
def test_in_order_cores_know_the_lines_that_they_ask_for_ahead(tmp_path, turns_before):
    """Jumps from line to line over two that are never run: the walk has asked for those, too."""
    blocks, turns, out = 60, 14, []
    for k in range(blocks * turns):
        pc = 0x400000 + 192 * (k % blocks)
        for i in range(3):
            out.append(line(len(out), "add   x2, x3, x4", pc=pc + 4 * i))
        behind = 0x400000 + 192 * ((k + 1) % blocks)
        out.append(line(len(out), f"b   {behind:#x}", flags=JUMP, pc=pc + 12))
    machine = tracekit.Machine.load("io_2w").to_dict()
    with extract(tmp_path, "".join(out)) as trace:
        rows = len(trace)
        turn = rows // turns
        found = bias(trace, machine, rows - 2 * turn, rows, approach=turns_before * turn, warm=1)
    assert abs(found) < 0.05


def repeating(rounds):
    """A loop whose two branches follow fixed patterns, too long for counters by pc alone."""
    r = np.random.default_rng(5)
    short, long = r.random(23) < 0.5, r.random(61) < 0.4
    out = []
    for k in range(rounds):
        pc = 0x400000
        for pattern in (short, long):
            out.append(line(len(out), "add   x2, x2, x4", pc=pc))
            out.append(line(len(out), f"b.ne   {pc + 16:#x}", flags=BRANCH, pc=pc + 4))
            if not pattern[k % len(pattern)]:
                for i in (8, 12):
                    out.append(line(len(out), "add   x5, x3, x4", pc=pc + i))
            pc += 16
        out.append(line(len(out), "b   0x400000", flags=JUMP, pc=pc))
    return "".join(out)


@pytest.mark.parametrize("predictor", ["TAGE_SC_L_8KB", "TAGE_SC_L_64KB", "MPP_8KB"])
def test_predictors_whose_histories_move_on_at_commit_begin_warm(tmp_path, predictor):
    machine = {**MACHINE, "width": 8, "bp": predictor}
    with extract(tmp_path, repeating(2500)) as trace:
        rows = len(trace)
        found = bias(trace, machine, rows - 2000, rows, approach=2000, warm=100)
    # The 64 kB one is off by 16 % if it is taught eight branches late and nothing but the last 100
    # rows is walked.
    assert abs(found) < 0.1


LOAD, STORE = "IsInteger|IsLoad", "IsInteger|IsStore"
#: A turn of a loop whose load passes a store that is late, and is squashed for it once.
LATE_STORE = [
    ("udiv   x1, x4, x5", "IntDiv", "IsInteger", None),
    ("str   x1, [x2]", "MemWrite", STORE, 0x100000),
    ("ldr   x4, [x3]", "MemRead", LOAD, 0x100000),
    ("add   x7, x7, #1", "IntAlu", "IsInteger", None),
]


def turns(first, count):
    """So many of them, the first of which is that row of the trace."""
    return "".join(
        line(first + k, *LATE_STORE[k % 4], 0x400000 + 4 * (k % 4)) for k in range(4 * count)
    )


def walked_and_sampled(trace, samples):
    """Cycles of samples on `MACHINE`, in a whole walk and each begun warm."""
    true = totals(trace, [MACHINE], [0, *(x for s in samples for x in s)])[1::2, 0]
    return true, sample_sums(trace, [MACHINE], samples, approach=200, warm=1)[:, 0]


def test_loads_know_the_stores_that_they_have_passed_before(tmp_path):
    samples = [(k, k + 40) for k in range(400, 2360, 400)]
    with extract(tmp_path, turns(0, 600)) as trace:
        true, found = walked_and_sampled(trace, samples)
    # The first one is 3 % too slow if the rows that it approaches squash nothing.
    assert found == pytest.approx(true, rel=0.01)


def test_loads_have_forgotten_the_stores_where_a_walk_has(tmp_path):
    """Every 250,000 stores all store sets are emptied (gem5's StoreSet::checkClear)."""
    stores = 250_000 - 300
    rows = [turns(0, 300)]
    rows += [
        line(1200 + k, "str   x8, [x9]", "MemWrite", STORE, 0x200000, 0x400100 + 4 * (k % 4))
        for k in range(stores)
    ]
    again = 1200 + stores
    rows += [line(again, "add   x4, x4, x9", pc=0x400200), turns(again + 1, 100)]
    samples = [(400, 420), (801, 821), (again + 1, again + 21), (again + 301, again + 321)]
    with extract(tmp_path, "".join(rows)) as trace:
        true, found = walked_and_sampled(trace, samples)
    assert true[2] > 1.1 * true[1]  # squashed once more
    assert found[2] > 1.1 * found[1]
    assert found[1:] == pytest.approx(true[1:], rel=0.1)


def test_cores_that_foresee_nothing_have_learnt_nothing(golden, tmp_path):
    """X86's Minor (gem5's Fetch2::predictBranch): what predictors know shows on wrong paths."""
    tracekit.extract(golden / "lua.x86.trace.xz", tmp_path / "t.zst")
    machine = tracekit.Machine.load("io_1w").to_dict()
    with tracekit.open(tmp_path / "t.zst") as trace:
        samples = [(k, k + 100) for k in range(300, len(trace) - 100, 200)]
        true = totals(trace, [machine], [0, *(x for s in samples for x in s)])[1::2, 0]
        found = sample_sums(trace, [machine], samples, approach=50, warm=50)[:, 0]
    # Off by 6 to 21 % where they know what other cores' predictors do.
    assert found[3:] == pytest.approx(true[3:], rel=0.03)


def test_prefetchers_bring_as_much_as_they_would_after_the_rows_between(tmp_path):
    """AMPM changes every 256,000 cycles how many lines it brings, which the walk has done twice."""
    out = []
    for k in range(9000):
        address = 0x8000000 + 64 * (k // 32 * 96 + k % 32)
        out.append(line(len(out), "ldr   x6, [x5]", "MemRead", LOAD, address, 0x400000))
        out.append(line(len(out), "add   x5, x5, #64", pc=0x400004))
        out.append(line(len(out), "sdiv   x5, x5, x6", "IntDiv", "IsInteger", None, 0x400008))
        out.append(line(len(out), "b   0x400000", flags=JUMP, pc=0x40000C))
    machine = {**MACHINE, "l2_pf": "ampm", "int_div_lat": 40, "l2_kb": 64}
    with extract(tmp_path, "".join(out)) as trace:
        found = bias(trace, machine, 24_000, 25_000, approach=2000, warm=1)
    assert abs(found) < 0.03  # 0.12 with as many as at first


def one_of_two_lines(turns):
    """A loop that reads one of two lines a turn, as a branch goes that nobody can foresee and that
    waits for memory; then all of those lines.  And the first row of that."""
    r, out, base = np.random.default_rng(3), [], 0x1000000

    def row(text, pc, op="IntAlu", flags="IsInteger", address=None):
        out.append(line(len(out), text, op, flags, address, pc))

    for k in range(turns):
        row("ldr   x6, [x5]", 0x400000, "MemRead", LOAD, 0x8000000 + 4096 * (k % 4096))
        row("subs   x6, x6, #1", 0x400004)
        row("b.ne   0x400018", 0x400008, flags=BRANCH)
        if r.random() < 0.5:
            row("ldr   x1, [x2]", 0x40000C, "MemRead", LOAD, base + 128 * k)
            row("add   x7, x7, #1", 0x400010)
            row("b   0x40001c", 0x400014, flags=JUMP)
        else:
            row("ldr   x1, [x2, #64]", 0x400018, "MemRead", LOAD, base + 128 * k + 64)
        row("add   x2, x2, #128", 0x40001C)
        row("b   0x400000", 0x400020, flags=JUMP)
    first = len(out)
    for k in range(2 * turns):
        row("ldr   x1, [x3]", 0x400030, "MemRead", LOAD, base + 64 * k)
        row("add   x3, x3, #64", 0x400034)
        row("b   0x400030", 0x400038, flags=JUMP)
    return "".join(out), first


def test_rows_before_a_sample_bring_what_loads_of_wrong_paths_read(tmp_path):
    text, first = one_of_two_lines(1000)
    machine = {**MACHINE, "l1d_kb": 4}
    with extract(tmp_path, text) as trace:
        alone, behind = (
            bias(trace, machine, first, len(trace), approach=rows, warm=1)
            for rows in (0, first - 10)
        )
    assert alone > 0.5
    assert abs(behind) < 0.2
