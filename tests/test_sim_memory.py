"""What stores, banks and buses make loads and other rows wait for (csrc/sim)."""

from __future__ import annotations

import random

import numpy as np
import pytest
from test_sim import MACHINE, cycles, extract, line

import tracekit
from tracekit import sim

LOAD, STORE = "IsInteger|IsLoad", "IsInteger|IsStore"
BASE = 0x100000


def text(*rows: tuple[str, str, str, int | None]) -> str:
    return "".join(line(k, *row) for k, row in enumerate(rows))


def test_a_load_of_a_part_of_what_a_store_wrote_is_forwarded_but_not_one_beyond_it(tmp_path):
    n = 400

    def pairs(offset: int, name: str) -> tracekit.TraceFile:
        rows = []
        for _ in range(n):
            rows.append(("str   x1, [x2]", "MemWrite", STORE, BASE))
            rows.append((f"{name}   x1, [x3]", "MemRead", LOAD, BASE + offset))
        return extract(tmp_path, text(*rows))

    inside, across = cycles(pairs(0, "ldrb")), cycles(pairs(4, "ldr"))
    assert across > inside + 0.8 * n  # it comes again when the store is in the cache


def test_the_first_store_to_execute_is_the_one_that_a_load_waits_for_later(tmp_path):
    n = 200

    def loop(conflicts: int) -> tracekit.TraceFile:
        rows = []
        for k in range(n):
            at = BASE if 0 < k <= conflicts else BASE + 4096
            rows.append(("ldr   x4, [x6]", "MemRead", LOAD, at))
            rows.append(("udiv   x1, x4, x5", "IntDiv", "IsInteger", None))
            rows.append(("str   x1, [x2]", "MemWrite", STORE, BASE))
            rows.append(("mul   x3, x1, x1", "IntMult", "IsInteger", None))
            rows.append(("str   x3, [x2]", "MemWrite", STORE, BASE))
            rows += [("add   x7, x7, #1", "IntAlu", "IsInteger", None)] * 3
        return extract(tmp_path, text(*rows))

    none, first, both = (cycles(loop(k)) for k in (0, 1, 2))
    assert none + 2 * n < first  # the load waits for the first store of the iteration before
    assert first + 2 * n < both  # it has passed the second one, too


def test_a_squashed_store_frees_the_loads_of_its_set(tmp_path):
    def nested(trips: list[int]) -> tracekit.TraceFile:
        body = [
            ("ldr   x4, [x6]", "MemRead", LOAD),
            ("udiv   x1, x4, x5", "IntDiv", "IsInteger"),
            ("str   x1, [x2]", "MemWrite", STORE),
            ("add   x7, x7, #1", "IntAlu", "IsInteger"),
            ("b.ne   0x400000", "IntAlu", "IsControl|IsDirectControl|IsCondControl"),
        ]
        after = [("b   0x400000", "IntAlu", "IsControl|IsDirectControl|IsUncondControl")]
        out = []
        for trip in trips:
            for i, (what, op, flags) in enumerate(body * trip + after):
                pc = 0x400000 + 4 * (i % 5 if i < 5 * trip else 5)
                # The second load meets the first store: from then on it waits for the last one.
                addr = BASE + (4096 if op == "MemRead" and len(out) != 5 else 0)
                place = addr if op.startswith("Mem") else None
                out.append(line(len(out), what, op, flags, place, pc))
        return extract(tmp_path, "".join(out))

    draw = random.Random(3)
    short = [draw.randrange(2, 6) for _ in range(100)]
    # One unit divides at once for each, so that only the loads' waiting is in the way.
    wide = {"int_mul": 8, "iq": 200, "rob": 400, "lq": 100, "sq": 100}
    one, many = cycles(nested([sum(short)]), **wide), cycles(nested(short), **wide)
    assert many < 0.9 * one  # as many iterations, some of them mispredicted


def test_pcs_that_are_hashed_alike_share_a_store_set(tmp_path):
    n = 100

    def program(load: int) -> tracekit.TraceFile:
        divide = ("udiv   x1, x7, x5", "IntDiv", "IsInteger", None, 0x400008)
        # The loads are done before the stores right ahead of them: each pair becomes a set.
        rows = [divide, ("str   x1, [x2]", "MemWrite", STORE, BASE, 0x40000C)]
        rows += [("ldr   x3, [x2]", "MemRead", LOAD, BASE, 0x400010)]
        rows += [divide, ("str   x1, [x2]", "MemWrite", STORE, BASE + 4096, 0x401020)]
        rows += [("ldr   x3, [x2]", "MemRead", LOAD, BASE + 4096, load)]
        rows *= 3  # once the lines are there
        for _ in range(n):  # the second load behind the first store, of another address
            rows += [divide, ("str   x1, [x2]", "MemWrite", STORE, BASE, 0x40000C)]
            rows += [("ldr   x7, [x7]", "MemRead", LOAD, BASE + 4096, load)]
        return extract(tmp_path, "".join(line(k, *row) for k, row in enumerate(rows)))

    # A set's number is (pc ^ pc >> 10) % 1024 of its load (gem5's StoreSet::calcSSID).
    assert (0x400010 ^ 0x400010 >> 10) % 1024 == (0x401014 ^ 0x401014 >> 10) % 1024
    shared, apart = (cycles(program(load), int_mul=8) for load in (0x401014, 0x401018))
    assert shared > apart + 10 * n


def test_a_line_is_there_for_an_early_access_behind_a_late_one(tmp_path):
    n = 100

    def program(late_first: bool) -> tracekit.TraceFile:
        rows = []
        for k in range(n):
            a = BASE + 3 * 8192 * k
            late = ("ldr   x2, [x9]", "MemRead", LOAD, a + 8192)
            early = ("ldr   x3, [x5]", "MemRead", LOAD, a + 8200)
            rows.append(("ldr   x9, [x5]", "MemRead", LOAD, a))
            rows += [late, early] if late_first else [early, late]
            rows.append(("ldr   x5, [x3]", "MemRead", LOAD, a + 16384))
        return extract(tmp_path, text(*rows))

    assert cycles(program(True)) < 1.1 * cycles(program(False))


def test_a_younger_load_of_the_line_asks_for_it_while_an_older_one_waits_for_its_set(tmp_path):
    n = 100

    def program(offset: int) -> tracekit.TraceFile:
        rows = []
        for k in range(n):
            far = BASE + 8192 * (k + 1)
            rows.append(("udiv   x1, x3, x5", "IntDiv", "IsInteger", None))
            rows.append(("str   x1, [x2]", "MemWrite", STORE, BASE))
            # It passes the store at first, and waits for it from then on.
            rows.append(("ldr   x3, [x6]", "MemRead", LOAD, BASE if k < 3 else far))
            rows.append(("ldr   x4, [x6]", "MemRead", LOAD, far + offset))
            rows += [("add   x7, x7, #1", "IntAlu", "IsInteger", None)] * 4
        return extract(tmp_path, text(*rows))

    assert cycles(program(8)) + 50 * n < cycles(program(4096))
    # Where the window ends behind the older one nothing goes ahead.
    few = {"rob": 2, "iq": 2}
    assert cycles(program(8), **few) + 50 * n > cycles(program(4096), **few)


def test_what_came_behind_a_trap_leaves_the_reorder_buffer(tmp_path):
    n = 60
    rows = []
    for k in range(n):  # the store traps, which waits for the load
        rows.append(line(8 * k, "ldr   x4, [x6]", "MemRead", LOAD, BASE + 8192 * k))
        store = line(8 * k + 1, "str   x1, [x2]", "MemWrite", STORE, 2 * BASE + 4096 * k)
        rows += [store, store]
        rows += [line(8 * k + j, "add   x7, x7, #1") for j in range(2, 8)]
    trace = extract(tmp_path, "".join(rows))
    assert trace["fault"].sum() == n
    wide = {"iq": 250, "lq": 250, "sq": 250, "phys_int": 900}
    few, many = (cycles(trace, rob=r, **wide) for r in (40, 400))
    assert many > few + n * 0.8 * (400 - 40) / 4  # four a cycle


def test_what_serializes_waits_for_the_stores(tmp_path):
    def program(store: str, op: str, flags: str) -> tracekit.TraceFile:
        rows = []
        for k in range(60):
            rows.append((store, op, flags, BASE + 4096 * k if op != "IntAlu" else None))
            serializing = "IsInteger|IsSerializeBefore|IsNonSpeculative"
            rows.append(("mrs   x3, tpidr_el0", "IntAlu", serializing, None))
        return extract(tmp_path, text(*rows))

    stores = cycles(program("str   x1, [x2]", "MemWrite", STORE))
    nothing = cycles(program("add   x1, x1, #1", "IntAlu", "IsInteger"))
    assert stores / 60 > nothing / 60 + 60  # a line from memory, at 2 GHz


def test_an_open_row_is_faster_than_another_of_the_same_bank(tmp_path):
    machine = sim.core_row(MACHINE)
    named = {name: v for (name, *_), v in zip(sim.PARAMETERS, machine, strict=True)}
    far = int(named["memory_row_lines"] * named["memory_banks"]) * 64

    def chain(step: int) -> tracekit.TraceFile:  # each address is the last one's data
        rows = [("ldr   x1, [x1]", "MemRead", LOAD, BASE + step * k) for k in range(300)]
        return extract(tmp_path, text(*rows))

    precharge, activate = named["memory_precharge"], named["memory_activate"]
    more = (cycles(chain(far)) - cycles(chain(64))) / 300
    assert 0.8 * (precharge + activate) < more < 1.2 * (precharge + activate)


def chain(tmp_path, steps: list[int], load: str = "ldr   x1, [x1]") -> tracekit.TraceFile:
    """Loads that read the address of the next one, or, with another `load`, that do not."""
    at, rows = BASE, []
    for step in steps:
        rows.append((load, "MemRead", LOAD, at))
        at += step
    return extract(tmp_path, text(*rows))


def test_a_row_that_nobody_waits_for_is_closed(tmp_path):
    # Pairs of lines that are read together: the second comes when the first one's commands are
    # chosen, and its row is closed behind those.
    n = 200
    same, others = [64, 1 << 16] * n, [1 << 11, 1 << 16] * n

    def slower(mem: str) -> float:
        pairs = [
            cycles(chain(tmp_path, steps, "ldr   x1, [x2]"), mem=mem, l1d_mshrs=2)
            for steps in (same, others)
        ]
        return (pairs[0] - pairs[1]) / n

    assert (
        slower("DDR5_6400_4x8") > 20
    )  # 46 ns between two rows of a bank, at 2 GHz; half is hidden
    assert slower("DDR3_1600_8x8") < 5


def test_refreshes_take_a_part_of_the_time(tmp_path):
    trace = chain(tmp_path, [1 << 20] * 400)
    row = sim.core_row(MACHINE)
    named = {name: v for (name, *_), v in zip(sim.PARAMETERS, row, strict=True)}
    times = np.concatenate([w.cycles for w in sim.walk(trace, [MACHINE])])[:, 0]
    usual = np.median(times)
    waited = times[times > usual + 20] - usual
    refreshes = times.sum() / named["memory_refresh_every"]
    assert 0.5 * refreshes < len(waited) < refreshes + 2
    assert waited.max() < 1.2 * named["memory_refresh"]
    assert waited.max() > 0.5 * named["memory_refresh"]


@pytest.mark.parametrize("which", ["tagged", "stride"])
def test_a_hit_on_a_prefetched_line_prefetches_on(tmp_path, which):
    trace = chain(tmp_path, [64] * 600)
    pages = 600 / 64  # no prefetch goes beyond one
    slow, fast = cycles(trace), cycles(trace, l1d_pf=which)
    assert fast < 0.75 * slow
    assert fast > pages * slow / 600


def test_access_maps_find_strides_in_both_directions(tmp_path):
    for step in (64, 256, -64):
        trace = chain(tmp_path, [step] * 600)
        assert cycles(trace, l2_pf="ampm") < 0.8 * cycles(trace)


def test_a_cache_that_missed_takes_half_of_its_latency_again(tmp_path):
    n = 1024  # twice the first cache
    once, twice = chain(tmp_path, [64] * n), chain(tmp_path, ([64] * (n - 1) + [64 - 64 * n]) * 2)

    def more(trace: tracekit.TraceFile) -> float:  # for each cycle of the second cache's latency
        return (cycles(trace, l2_lat=32) - cycles(trace, l2_lat=12)) / 20 / n

    missed, hit = more(once), more(twice) - more(once)
    assert missed == pytest.approx(1.5, abs=0.1)
    assert hit == pytest.approx(1.0, abs=0.05)


def test_a_full_set_of_miss_registers_holds_hits_too(tmp_path):
    rows = []
    for k in range(200):
        rows.append(("ldr   x1, [x2]", "MemRead", LOAD, BASE + (1 << 20) + 4096 * k))
        rows += [("ldr   x3, [x4]", "MemRead", LOAD, BASE)] * 3
    trace = extract(tmp_path, text(*rows))
    assert cycles(trace, l1d_mshrs=1) > 3 * cycles(trace, l1d_mshrs=16)


def test_loads_and_stores_share_the_miss_registers(tmp_path):
    def misses(kinds: str) -> tracekit.TraceFile:
        load, store = ("ldr   x1, [x2]", "MemRead", LOAD), ("str   x1, [x3]", "MemWrite", STORE)
        lines = (BASE + (1 << 20) + 4096 * k for k in range(400))
        return extract(
            tmp_path, text(*((*(load if k == "l" else store), next(lines)) for k in kinds))
        )

    few = {"l1d_mshrs": 2, "sq": 64, "rob": 256, "iq": 128, "lq": 64}
    half, loads = cycles(misses("l" * 200), **few), cycles(misses("l" * 400), **few)
    mixed = cycles(misses("ls" * 200), **few)
    assert mixed > 1.6 * half
    assert mixed == pytest.approx(loads, rel=0.15)


def test_stores_have_the_first_miss_register_that_is_free(tmp_path):
    """Else loads that go far ahead drive out what stores are to hit, which miss then and go still
    later."""
    lines, words = 200, 6000
    zeros = [("dc   zva, x3", "MemWrite", STORE, BASE + 64 * k) for k in range(4 * lines)]
    copies = [
        row
        for k in range(words)
        for row in (
            ("ldr   x2, [x0]", "MemRead", LOAD, BASE + (1 << 20) + 48 * k),
            ("add   w4, w4, #1", "IntAlu", "IsInteger", None),
            ("str   x2, [x0]", "MemWrite", STORE, BASE + (1 << 20) + 48 * k),
        )
    ]
    reads = [("ldr   x9, [x8]", "MemRead", LOAD, BASE + (1 << 20) + 64 * k) for k in range(4600)]
    own = {
        "width": 8, "issue_width": 10, "rob": 512, "iq": 168, "lq": 76, "sq": 128, "l1d_kb": 8,
        "l1d_assoc": 2, "l1d_lat": 4, "l1d_mshrs": 8, "l2_kb": 512, "l2_lat": 20, "phys_int": 600,
    }  # fmt: skip
    before, alone = extract(tmp_path, text(*reads, *zeros)), extract(tmp_path, text(*reads))
    start = {t: cycles(t, **own) for t in (before, alone)}
    behind = cycles(extract(tmp_path, text(*reads, *zeros, *copies)), **own) - start[before]
    at_once = cycles(extract(tmp_path, text(*reads, *copies)), **own) - start[alone]
    assert behind < 1.3 * at_once


@pytest.mark.parametrize(("mem", "lines"), [("DDR3_1600_8x8", 16), ("LPDDR3_1600_1x32", 8)])
def test_a_row_is_closed_after_sixteen_bursts(tmp_path, mem, lines):
    # Each line is asked for when the one before has come; a line is one burst or two.
    trace = chain(tmp_path, [64] * 1024)
    times = np.concatenate([w.cycles for w in sim.walk(trace, [{**MACHINE, "mem": mem}])])
    late = np.flatnonzero(times[:, 0] > np.median(times) + 20)
    assert np.median(np.diff(late)) == lines


def test_a_line_with_all_its_targets_holds_the_next_one_up(tmp_path):
    def stores(to_the_line: int) -> tracekit.TraceFile:
        rows = []
        for k in range(200):
            a = BASE + (1 << 20) + 64 * k
            rows += [("str   x1, [x2]", "MemWrite", STORE, a + n) for n in range(to_the_line)]
            rows += [("str   x1, [x3]", "MemWrite", STORE, BASE)] * (16 - to_the_line)
        return extract(tmp_path, text(*rows))

    some, all_ = cycles(stores(15), sq=64), cycles(stores(16), sq=64)
    assert all_ > 1.5 * some


def test_writes_to_memory_go_together(tmp_path):
    n = 1600
    rows = []
    for k in range(n):
        rows.append(("ldr   x1, [x1]", "MemRead", LOAD, BASE + (1 << 28) + 4096 * k))
        rows.append(("str   x2, [x1]", "MemWrite", STORE, BASE + 4096 * (n - k)))
    trace = extract(tmp_path, text(*rows))
    small = {**MACHINE, "l1d_kb": 4, "l2_kb": 16, "mem": "LPDDR3_1600_1x32"}
    times = np.concatenate([w.cycles for w in sim.walk(trace, [small])])[::2, 0]
    waited = np.count_nonzero(times > np.median(times) + 30)
    # Some 8 at a time, of two bursts each, and refreshes.
    refreshes = times.sum() / (2 * 3900)
    assert 0.5 * n / 8 < waited < 1.5 * n / 8 + refreshes


def late(trace: tracekit.TraceFile, **machine: object) -> float:
    """Cycles a row behind the first thousands."""
    small = {**MACHINE, "l1d_kb": 4, "mem": "LPDDR3_1600_1x32", **machine}
    return float(np.concatenate([w.cycles for w in sim.walk(trace, [small])])[4000:, 0].mean())


def test_reads_open_a_row_again_that_writes_have_closed(tmp_path):
    # Stores to one line after the other, of which each puts one out that lies as far before it as
    # the cache is large.  All banks of this memory once are 32 kB.
    rows = [("str   x2, [x1]", "MemWrite", STORE, BASE + 64 * k) for k in range(7000)]
    trace = extract(tmp_path, text(*rows))
    same_bank, other = (late(trace, l2_kb=kb, l2_assoc=kb) for kb in (32, 48))
    assert same_bank > other + 4


def test_writes_go_to_another_bank_while_a_row_opens_again(tmp_path):
    # Two streams of lines that are only written; each row is closed after 8 of them.
    def streams(apart: int) -> float:
        addresses = [BASE + apart * (k % 2) + 64 * (k // 2) for k in range(8000)]
        rows = [("dc   zva, x3", "MemWrite", STORE, a) for a in addresses]
        return late(extract(tmp_path, text(*rows)), l2_kb=16)

    bus = 10 * MACHINE["clock_ghz"]  # cycles that a line takes of it
    assert streams((1 << 24) + 4096) < 1.1 * bus
    assert streams(1 << 24) > 1.4 * bus


def test_lines_to_be_zeroed_go_before_prefetches_that_the_second_level_cannot_take(tmp_path):
    rows = []
    for k in range(600):  # one instruction, 64 bytes on each time
        rows.append(("dc   zva, x3", "MemWrite", STORE, BASE + (1 << 20) + 64 * k))
        rows += [("add   x7, x7, #1", "IntAlu", "IsInteger", None)] * 7
    trace = extract(tmp_path, text(*rows))
    wide = {"sq": 32, "l1d_mshrs": 24, "mem": "LPDDR3_1600_1x32"}
    one, many = (cycles(trace, **wide, l2_mshrs=n) for n in (1, 16))
    assert one > 3 * many  # each has to go through, though no data is read
    assert cycles(trace, **wide, l2_mshrs=1, l1d_pf="stride") < 1.1 * one


def move(before: str, after: str, target: str, registers: str = "IsInteger|IsVector") -> str:
    """`fmov f1, f0` with code on either side, at growing addresses."""
    out = []
    flags = {"fmov   f1, f0": registers}
    for k, row in enumerate([before, "fmov   f1, f0", after, target]):
        op = "FloatMisc" if row.startswith("fmov") else "IntAlu"
        if row.startswith("f") and not row.startswith("fmov"):
            op = "SimdFloatAdd"
        what = flags.get(row, "IsVector" if op == "SimdFloatAdd" else "IsInteger")
        out.append(line(k, row, op, what, pc=0x400000 + 4 * k))
    return "".join(out)


@pytest.mark.parametrize(
    ("before", "after", "general"),
    [
        ("fadd   f0, f2, f3", "add   x4, x1, #1", True),  # x1 is read: x1 <- d0
        ("add   x0, x2, #1", "fadd   f4, f1, f1", False),  # d1 is read: d1 <- x0
        ("fadd   f0, f2, f3", "add   x7, x8, #1", True),  # nothing is read; d0 was written
        ("add   x0, x2, #1", "add   x7, x8, #1", False),
    ],
)
def test_the_code_around_a_move_tells_which_way_it_goes(tmp_path, before, after, general):
    from tracekit.sim.register_moves import to_general

    trace = extract(tmp_path, move(before, after, "add   x9, x9, #1"))
    found = to_general(trace.statics).tolist()
    at = [d.split()[0] for d in trace.statics.disassembly].index("fmov")
    assert found == ([at] if general else [])


def test_a_move_between_vector_registers_goes_one_way_whatever_is_around_it(tmp_path):
    from tracekit.sim.register_moves import to_general

    around = ("fadd   f0, f2, f3", "add   x4, x1, #1", "add   x9, x9, #1")
    assert len(to_general(extract(tmp_path, move(*around)).statics)) == 1
    assert len(to_general(extract(tmp_path, move(*around, "IsVector")).statics)) == 0


def test_moves_cost_what_the_code_around_them_does(tmp_path):
    from tracekit.sim.code_around import REACH, CodeAround
    from tracekit.sim.register_moves import to_general

    # Hundreds of instructions on either side are not looked at.
    lines = [line(k, f"add   x{k % 7}, x8, #{k}") for k in range(300)]
    text = move("add   x0, x2, #1", "add   x7, x8, #1", "add   x9, x9, #1")
    seen = []
    registers = CodeAround._registers

    def counted(self, kind, at):
        seen.append(at)
        return registers(self, kind, at)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CodeAround, "_registers", counted)
        to_general(extract(tmp_path, "".join(lines) + text).statics)
    assert seen and max(seen) - min(seen) <= 2 * REACH


def test_rename_lets_a_load_go_that_finds_a_full_queue_at_dispatch(tmp_path):
    # A load that misses, and as many that hang on it as fill the queue.  While nothing executes
    # rename does not hear that the last one took an entry.
    rows = []
    for k in range(300):
        rows.append(("ldr   x1, [x1]", "MemRead", LOAD, BASE + 4096 * k))
        rows += [("ldr   x2, [x1]", "MemRead", LOAD, BASE + 4096 * k)] * 3
    full, more = extract(tmp_path, text(*rows)), {"lq": 4, "rename_to_iew": 16}
    assert cycles(full, **more) < cycles(full, lq=4) + 300
    # An addition behind each load: something executes, and each waits for rename as well.
    add = ("add   x9, x9, #1", "IntAlu", "IsInteger", None)
    told = [row for k, row in enumerate(rows) for row in ([row, add] if k % 4 == 3 else [row])]
    apart = [cycles(extract(tmp_path, text(*told)), **m) for m in (more, {"lq": 4})]
    assert apart[0] > apart[1] + 300 * 8
