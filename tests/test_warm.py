"""Warm starts: caches from the lines' last uses, against caches that are walked; samples against
the whole walk."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest
import synthetic
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.warm import first_cache, second_cache
from test_sim import MACHINE, extract
from test_sim import line as text_of_row

import tracekit
from tracekit import _core
from tracekit.errors import UsageError
from tracekit.phases import code_vectors, phases_of_rows
from tracekit.phases.code_vectors import DIMENSIONS
from tracekit.sim import KeptRows, totals
from tracekit.sim.sample_plan import SamplePlan, sampled_totals
from tracekit.sim.samples import sample_sums

ACCESSES = st.lists(st.tuples(st.integers(0, 60), st.booleans()), max_size=300)


def contents(accesses, sets, ways, first=(0, 0)):
    lines = np.array([line for line, _ in accesses], np.uint64)
    writes = np.array([write for _, write in accesses], np.uint8)
    return _core.warm_contents(lines, writes, sets, ways, first)


@settings(max_examples=60)
@given(ACCESSES, st.sampled_from([1, 2, 3, 4, 8]), st.integers(1, 6))
def test_a_first_cache_has_the_lines_of_true_lru_in_their_order(accesses, sets, ways):
    found = contents(accesses, sets, ways)
    true = first_cache(accesses, sets, ways)
    assert [[line for line, _ in s] for s in found] == [[line for line, _ in s] for s in true]
    # A line that no access wrote is never dirty, and one written by its last access always is.
    written = {line for line, write in accesses if write}
    assert all(line in written for s in found for line, dirty in s if dirty)
    if accesses and accesses[-1][1]:
        assert found[accesses[-1][0] % sets][0] == (accesses[-1][0], True)


@pytest.mark.parametrize("lines", [1023, 1024, 1025, 2048, 5000])
def test_histories_of_many_lines_are_read_to_their_end(lines):
    # A thousand lines of a history are copied at a time.
    order = np.random.default_rng(lines).permutation(lines)
    accesses = [(int(line), bool(line % 3)) for line in order]
    found = contents(accesses, 128, 64)
    true = first_cache(accesses, 128, 64)
    assert [[line for line, _ in s] for s in found] == [[line for line, _ in s] for s in true]
    behind = contents(accesses, 128, 64, first=(4, 2))
    assert [{line for line, _ in s} for s in behind] == [{line for line, _ in s} for s in true]


@settings(max_examples=60)
@given(ACCESSES, st.sampled_from([1, 2, 4]))
def test_a_large_cache_behind_has_every_line(accesses, sets):
    found = contents(accesses, sets, 64, first=(1, 8))
    true = second_cache(accesses, (1, 8), (sets, 64))
    assert [{line for line, _ in s} for s in found] == true


def uses(seed: int, n: int) -> list[tuple[int, bool]]:
    """Accesses of a program: a hot part, a large one, streams; a third writes, and some lines are
    written once and read for ever."""
    r = np.random.default_rng(seed)
    kind = r.random(n)
    stream = 100_000 + np.cumsum(kind > 0.97) % 9000
    line = np.where(
        kind < 0.6, r.integers(0, 300, n), np.where(kind < 0.9, r.zipf(1.3, n) % 20_000, stream)
    )
    # Every other line is written at the beginning only, and read for ever.
    early = (line % 2 == 0) | (np.arange(n) < n // 8)
    write = (r.random(n) < 0.3) & (line % 3 == 0) & early
    return [(int(x), bool(w)) for x, w in zip(line, write, strict=True)]


def shared(walked, found) -> float:
    """The share of a walk's lines that were found."""
    same = sum(len(s & {line for line, _ in b}) for s, b in zip(walked, found, strict=True))
    return same / sum(len(s) for s in walked)


@pytest.mark.parametrize("seed", range(3))
def test_dirty_lines_and_a_second_cache_are_nearly_those_of_a_walk(seed):
    accesses = uses(seed, 40_000)
    found = contents(accesses, 64, 8)
    true = first_cache(accesses, 64, 8)
    flat = [
        (dirty, there[line])
        for s, own in zip(found, true, strict=True)
        for there in [dict(own)]
        for line, dirty in s
    ]
    assert np.mean([a == b for a, b in flat]) > 0.93
    reads = [(line, False) for line, _ in accesses]
    for first, second in (((64, 8), (512, 8)), ((32, 2), (128, 4))):
        for own, least in ((reads, 0.9999), (accesses, 0.997)):  # what is written back is guessed
            found, walked = contents(own, *second, first=first), second_cache(own, first, second)
            assert shared(walked, found) > least
    # Without what the first cache hides from it, by the last uses alone, it is off by more.
    walked = second_cache(accesses, (64, 8), (512, 8))
    assert shared(walked, contents(accesses, 512, 8)) < 0.9975


def test_what_was_written_once_and_read_for_ever_is_clean():
    for written, dirty in ((range(1), False), (range(6), True)):
        accesses = [(line, turn in written) for turn in range(6) for line in range(2000)]
        held = [d for s in contents(accesses, 64, 8) for _, d in s]
        assert len(held) == 512
        assert np.mean(held) == dirty


@pytest.mark.parametrize("side", ["l1i", "l1d"])
def test_what_one_first_cache_holds_leaves_room_behind_for_the_other(tmp_path, side):
    """A loop of 24 kB of code that reads 24 kB of data, on 32 kB of second cache."""
    code, turns = 6144, 4
    out = []
    for k in range(code * turns):
        pc, data = 0x400000 + 4 * (k % code), 0x100000 + 64 * (k % code // 16)
        load = ("ldr   x1, [x1]", "MemRead", "IsInteger|IsLoad", data)
        row = load if k % 16 == 0 else ("add   x2, x3, x4",)
        out.append(text_of_row(k, *row, pc=pc))
    trace = extract(tmp_path, "".join(out))
    small = {**MACHINE, "l1i_kb": 4, "l1i_assoc": 4, "l1d_kb": 4, "l1d_assoc": 4, "l3_kb": 0}
    small |= {"l2_kb": 32, "l2_assoc": 16, "l1d_pf": "none", "l2_pf": "none"}
    machines = [{**small, f"{side}_kb": 32}, small]
    last, rows = code * (turns - 1), code * turns
    fits, does_not = totals(trace, machines, [0, last, rows])[1]
    assert 3 * fits < does_not
    found = sample_sums(trace, machines, [(last, rows)], approach=0, warm=1)[0]
    assert found == pytest.approx([fits, does_not], rel=0.05)


def test_lines_that_are_about_to_leave_are_dirty_where_they_were_written():
    """How long a line was not used tells nothing of a set that still has it."""
    places = np.random.default_rng(1).integers(0, 2048, 60_000)
    accesses = [(line, False) for line in range(20_000)] + [(int(x), True) for x in places]
    held = [dirty for s in contents(accesses, 128, 4) for _, dirty in s]
    assert len(held) == 512
    assert all(held)


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """A program of loops over two arrays, one of which no first cache holds: X86 rows."""
    path = tmp_path_factory.mktemp("warm") / "t.zst"
    text = path.with_suffix(".lackey")
    text.write_text(synthetic.lackey_loops(12_000))
    tracekit.extract(text, path, level="macro")
    with tracekit.open(path) as t:
        yield t


MACHINES = ("u007", "o3_small", "io_1w", "u036", "ns_lsq")


def machines():
    return [tracekit.Machine.load(m).to_dict() for m in MACHINES]


def test_samples_are_nearly_what_the_whole_walk_says_of_their_rows(tmp_path):
    (tmp_path / "t.lackey").write_text(synthetic.lackey_loops(30_000))
    tracekit.extract(tmp_path / "t.lackey", tmp_path / "t.zst", level="macro")
    with tracekit.open(tmp_path / "t.zst") as trace:
        kept = KeptRows(trace)
    samples = [(a, a + 4000) for a in range(25_000, len(kept) - 4000, 9500)]
    edges = [0, *(x for s in samples for x in s)]
    true = totals(kept, machines(), edges)[1::2].sum(axis=0)
    found = sample_sums(kept, machines(), samples)
    bias = dict(zip(MACHINES, np.abs(found.sum(axis=0) / true - 1).tolist(), strict=True))
    assert max(bias.values()) < 0.01
    # Without what went before the caches would be empty, which is far off.
    alone = totals(kept, machines(), [0, 4000])[0]
    assert (alone / found[0]).max() > 1.1


def test_the_walk_goes_on_between_samples_that_are_close(trace):
    """To the cycle what a walk of both says, up to as many rows between as go before a sample."""
    rows = {"approach": 3000, "warm": 1000}
    close = [(4000, 5000), (5000, 6000), (10_000, 11_000)]
    edges = [0, *(x for s in close for x in s)]
    found = sample_sums(trace, machines(), close, **rows)
    assert (found == totals(trace, machines(), edges)[1::2]).all()
    apart = sample_sums(trace, machines(), [*close[:2], (10_001, 11_000)], **rows)
    one_more = totals(trace, machines(), [*edges[:-2], 10_001, 11_000])[-1]
    assert (apart[2] != one_more).any()


#: Of `MACHINES`, in two samples.
PINNED = [[6455.0, 7998.0, 18611.0, 5668.0, 2048.0], [2248.0, 3464.0, 14779.0, 3185.0, 1561.0]]


def test_samples_take_the_cycles_that_they_took(trace):
    """Exact, so that what caches hold behind caches of other shapes is pinned, too."""
    samples = [(20_000, 24_000), (40_000, 44_000)]
    found = sample_sums(trace, machines(), samples, approach=11_000, warm=4000)
    assert found.tolist() == PINNED


def test_code_that_the_first_cache_holds_takes_no_room_in_the_second(tmp_path):
    """A loop over 200 lines of code that reads 400 lines in turn, which 512 hold but not with the
    code: the second cache has not been asked for that since the first round."""
    lines = [
        f"I  {0x401000 + 64 * (k % 200):08x},4\n L {0x10000000 + 64 * (k % 400):08x},8\n"
        for k in range(7000)
    ]
    (tmp_path / "t.lackey").write_text("".join(lines))
    tracekit.extract(tmp_path / "t.lackey", tmp_path / "t.zst", level="macro")
    machine = {**MACHINE, "l1i_kb": 16, "l1i_assoc": 4, "l1d_kb": 2, "l1d_assoc": 2}
    machine |= {"l2_kb": 32, "l2_assoc": 8}
    with tracekit.open(tmp_path / "t.zst") as trace:
        kept = KeptRows(trace)
        true = totals(kept, [machine], [0, 6000, 6400])[1]
        found = sample_sums(kept, [machine], [(6000, 6400)], approach=0, warm=1)[0]
    assert found == pytest.approx(true, rel=0.03)


def test_rows_before_a_sample_bring_the_code_behind_wrong_guesses(tmp_path):
    """Of branches that nobody can foresee: a core that runs on down the wrong path finds lines of
    code there that it needs soon."""
    text = synthetic.text(11, 4100, blocks=False, size=4000)
    machine = {**MACHINE, "l1i_kb": 16, "l1i_assoc": 4, "l2_kb": 64}
    with extract(tmp_path, text) as trace:
        alone, behind = (
            sample_sums(trace, [machine], [(3000, 3600)], approach=rows, warm=1)[0, 0]
            for rows in (0, 2000)
        )
    assert behind < 0.97 * alone


def test_any_number_of_threads_gives_the_same(trace):
    samples = [(9_000, 12_000), (20_000, 21_000), (21_000, 22_000)]
    rows = {"approach": 6_000, "warm": 1_000}
    one = sample_sums(trace, machines(), samples, threads=1, **rows)
    assert (sample_sums(KeptRows(trace), machines(), samples, threads=4, **rows) == one).all()


def test_one_sample_from_the_first_row_is_the_walk(trace):
    n = len(trace)
    assert (sample_sums(trace, machines(), [(0, n)])[0] == totals(trace, machines())[0]).all()
    found = sampled_totals(trace, machines(), SamplePlan(length=n, every=n))
    assert found.whole
    assert (found.half == 0).all()
    assert (found.cycles == totals(trace, machines())[0]).all()


@pytest.mark.parametrize(
    "samples", [[(5, 5)], [(9, 12), (11, 14)], [(20, 30), (3, 4)], [(0, 10**9)], [(-1, 3)]]
)
def test_samples_that_are_none_are_refused(trace, samples):
    with pytest.raises(UsageError, match="increasing ranges"):
        sample_sums(trace, machines(), samples)


def no_phases(most):
    raise AssertionError("only samples by phase ask for phases")


def test_bad_plans_are_refused(trace):
    for plan in (
        SamplePlan(every=10, count=3),
        SamplePlan(),
        SamplePlan(length=0, every=5),
        SamplePlan(count=1),
        SamplePlan(every=9_999),
        SamplePlan(choice="random", every=50_000),
        SamplePlan(choice="phase", every=50_000),
    ):
        with pytest.raises(UsageError):
            plan.draw(100_000, no_phases, np.ones_like)
    with pytest.raises(UsageError, match="at least 1"):
        sample_sums(trace, machines(), [(5, 9)], warm=0)


@given(
    st.integers(1, 10**7),
    st.integers(1, 10**5),
    st.integers(2, 50),
    st.sampled_from(["stratified", "systematic", "random"]),
    st.integers(0, 9),
)
def test_plans_give_samples_apart_from_each_other(rows, length, count, choice, seed):
    plan = SamplePlan(length=length, count=count, choice=choice, seed=seed)
    found = plan.draw(rows, no_phases, np.ones_like).ranges
    assert found == plan.draw(rows, no_phases, np.ones_like).ranges
    assert found[0][0] >= 0 and found[-1][1] <= rows
    assert all(a < b for a, b in found)
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(found))
    if len(found) > 1:
        assert {b - a for a, b in found} == {length}
        assert abs(len(found) - count) <= 2 + length * count // max(rows // count, 1)


@settings(max_examples=60)
@given(
    st.lists(st.integers(0, 4), min_size=20, max_size=300), st.integers(2, 40), st.integers(0, 9)
)
def test_each_phase_has_its_share_of_the_samples(labels, count, seed):
    length, rows = 50, 50 * len(labels) + 7

    def phases(most):
        assert most == min(30, count // 2)
        return np.unique(np.array(labels) % most, return_inverse=True)[1]

    found = SamplePlan(length, count=count, choice="phase", seed=seed).draw(
        rows, phases, np.ones_like
    )
    if 2 * length * count > rows:
        assert found.whole
        return
    own = phases(min(30, count // 2))
    assert all(
        own[a // length] == k and a % length == 0
        for (a, _), k in zip(found.ranges, found.stratum, strict=True)
    )
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(found.ranges))
    assert len(found.ranges) == count and {b - a for a, b in found.ranges} == {length}
    taken = np.bincount(found.stratum)
    assert found.sizes == tuple(np.bincount(own))
    for k, size in enumerate(found.sizes):
        assert min(2, size) <= taken[k] <= count * size / len(own) + 2


@pytest.mark.parametrize("choice", ["stratified", "systematic", "random", "phase"])
def test_intervals_hold_about_as_often_as_they_say(choice):
    """Of random samples of rows whose rates are known, of stratified and systematic ones of a
    program that changes now and then, and of random ones in each phase, which tell more than random
    ones of all rows."""
    r = np.random.default_rng(0)
    rows, length = 2_000_000, 1000
    rate = 1 + np.repeat(r.random(200), 10) + 0.4 * r.random(2000)
    phase = np.repeat(r.integers(5, size=200), 10)
    if choice == "phase":
        rate = 1 + r.random(5)[phase] + 0.1 * r.random(2000)

    def run(choice):
        held, widths = 0, []
        for seed in range(300):
            plan = SamplePlan(length=length, count=50, choice=choice, seed=seed)
            found = plan.draw(rows, lambda most: phase, np.ones_like)
            cycles = []
            for a, b in found.ranges:
                k, part = divmod(a, length)
                own = rate[[k, min(k + 1, 1999)]] @ [length - part, part]
                cycles.append([float(own)] if b - a == length else [0.0])
            total, half = found.estimate(np.array(cycles))
            held += abs(total[0] - rate.sum() * length) <= half[0]
            widths.append(half[0])
        return held / 300, float(np.mean(widths))

    held, wide = run(choice)
    assert 0.90 < held <= 0.99
    if choice == "phase":
        assert wide < run("random")[1] / 3


@settings(max_examples=60)
@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=200),
    st.integers(1, 30),
    st.integers(1, 70),
    st.integers(0, 3),
)
def test_vectors_of_code_are_sums_over_rows(ids, length, block, seed):
    rows = np.array(ids, np.uint32)
    pieces = (rows[a : a + block] for a in range(0, len(rows), block))
    found = code_vectors(pieces, 7, length, seed)
    matrix = np.random.default_rng(seed).uniform(-1, 1, (7, DIMENSIONS))
    want = [
        matrix[rows[a : a + length]].mean(axis=0) for a in range(0, len(rows) - length + 1, length)
    ]
    assert found.shape == (len(want), DIMENSIONS)
    assert np.allclose(found, np.array(want).reshape(found.shape))


def test_phases_are_where_other_code_runs():
    pytest.importorskip("sklearn")
    r = np.random.default_rng(1)
    code = np.repeat(np.arange(60) // 7 % 2, 100)  # stretches of 100 rows, two kinds of code
    rows = (code * 20 + r.integers(20, size=len(code))).astype(np.uint32)
    found = phases_of_rows([rows], 40, 100, 30, 0)
    assert len(set(found.tolist())) == 2
    assert len({(int(a), int(b)) for a, b in zip(found, code[::100], strict=True)}) == 2
    assert phases_of_rows([rows[:50]], 40, 100, 30, 0).tolist() == []
    code = np.tile(code, 80)  # more stretches than clusters are made from
    many = (code * 20 + r.integers(20, size=len(code))).astype(np.uint32)
    again = phases_of_rows([many], 40, 100, 2, 0)
    assert len({(int(a), int(b)) for a, b in zip(again, code[::100], strict=True)}) == 2


def test_samples_by_phase_of_a_trace(trace, monkeypatch):
    pytest.importorskip("sklearn")
    plan = SamplePlan(length=100, count=12, choice="phase", seed=3)
    found = sampled_totals(trace, machines()[:2], plan)
    assert len(found.samples) == 12 and (found.half > 0).all()
    true = totals(trace, machines()[:2])[0]
    assert (np.abs(found.cycles / true - 1) < 0.5).all()
    monkeypatch.setitem(sys.modules, "sklearn.cluster", None)
    with pytest.raises(UsageError, match=r"needs sklearn.*simpoint"):
        sampled_totals(trace, machines()[:2], plan)


def test_too_few_samples_are_said(trace):
    found = sampled_totals(trace, machines()[:1], SamplePlan(length=500, count=5, seed=1))
    assert "5 samples" in str(found.warning()) or "4 samples" in str(found.warning())
    assert "--samples 31" in str(found.warning())
    assert sampled_totals(trace, machines()[:1], SamplePlan(length=100, count=40)).warning() is None
