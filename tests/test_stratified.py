"""Stratified samples: where they lie, and what follows from them of the whole."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import synthetic
from hypothesis import given, settings
from hypothesis import strategies as st
from test_sim import extract

from tracekit.errors import UsageError
from tracekit.estimation.student import student
from tracekit.schema import OP_CLASSES
from tracekit.sim import RowSource, SamplePlan, Samples, sample_plan, stretch_costs
from tracekit.sim.sample_plan import Costs
from tracekit.sim.strata import CLASSES, classes, cuts, shares, strata


def draw(rows: int, costs: Costs | None = None, **options: object) -> Samples:
    """Drawn by `SamplePlan`, which asks for no phases; by default all stretches cost the same."""
    plan = SamplePlan(**options)  # type: ignore[arg-type]
    return plan.draw(rows, lambda most: np.zeros(0, np.intp), costs or np.ones_like)


COSTS = st.lists(st.sampled_from([0.5, 0.6, 1.0, 1.1, 7.0, 40.0]), min_size=2, max_size=300)


@given(COSTS, st.data())
def test_strata_have_stretches_of_a_class_in_their_order(costs, data):
    count = data.draw(st.integers(2, len(costs)))
    found = strata(np.array(costs), count)
    of = classes(np.array(costs), max(1, min(CLASSES, count // 4)))
    every = np.concatenate([s.stretches for s in found])
    assert sorted(every.tolist()) == list(range(len(costs)))
    assert sum(s.taken for s in found) == count
    for stretches, taken in found:
        assert len(set(of[stretches].tolist())) == 1
        assert min(2, len(stretches)) <= taken <= len(stretches)
        assert len(stretches) >= 2 or len(stretches) == (of == of[stretches[0]]).sum()
        assert taken <= 3 or 4 * taken >= len(stretches)
    for a, b in itertools.pairwise(found):
        assert of[a.stretches[0]] < of[b.stretches[0]] or a.stretches[-1] < b.stretches[0]


@given(st.integers(1, 400), st.integers(0, 10**5))
def test_strata_grow_to_the_size_that_most_have(count, more):
    stretches = 4 * count + more
    edges = [0, *cuts(stretches, count), stretches]
    sizes = np.diff(edges)
    assert len(sizes) == count
    short = count // 8
    assert (sizes >= 2).all() and (short == 0 or sizes[0] == 2)
    assert (sizes[short:] >= 4).all() and np.ptp(sizes[short:]) <= 1
    assert (np.diff(sizes) >= -1).all()
    # By the same factor each, but for the rest that is no whole stretch.
    begins = np.array(edges[1 : short + 1]) + 0.5
    growth = (sizes[short:].mean() / 2) ** (1 / max(short, 1))
    exact = np.cumsum(2 * growth ** np.arange(short))
    assert (np.abs(begins - exact) <= 0.5 + 0.01 * exact).all()


@given(COSTS, st.integers(1, 9))
def test_classes_part_the_costs(costs, most):
    costs = np.array(costs)
    of = classes(costs, most)
    assert sorted(set(of.tolist())) == list(range(of.max() + 1)) and of.max() < most
    for k in range(of.max()):
        assert costs[of == k].max() < costs[of == k + 1].min()


def test_classes_share_out_the_root_of_the_frequencies():
    """Of a triangle of costs the bounds are known: shares of the cube root's complement."""
    scale = 1 - np.sqrt(1 - (np.arange(10**5) + 0.5) / 10**5)  # its density falls to 0 at 1
    of = classes(np.exp(scale), 4)
    bounds = [scale[of == k].max() for k in range(3)]
    assert bounds == pytest.approx(1 - (1 - np.arange(1, 4) / 4) ** (2 / 3), abs=0.01)


@given(COSTS, st.data())
def test_samples_are_due_by_size_and_by_spread(costs, data):
    costs = np.array(costs)
    count = data.draw(st.integers(2, len(costs)))
    of = classes(costs, max(1, min(8, count // 4)))
    taken = shares(costs, of, count).tolist()
    own = [costs[of == k] for k in range(of.max() + 1)]
    spread = [len(c) * c.std() for c in own]
    due = [
        len(c) / len(costs) * (0.5 if sum(spread) else 1)
        + (0.5 * s / sum(spread) if sum(spread) else 0)
        for c, s in zip(own, spread, strict=True)
    ]
    assert sum(taken) == count
    for a, b in itertools.permutations(range(len(own)), 2):
        # None that has more than its least would have served one that has room better.
        if taken[a] > 2 and taken[b] < len(own[b]):
            assert due[a] / taken[a] >= due[b] / (taken[b] + 1) * (1 - 1e-9)


@settings(max_examples=60)
@given(st.integers(1, 300), st.integers(2, 90), st.integers(0, 10**5), st.integers(0, 9))
def test_so_many_samples_of_each_stratum(length, count, more, seed):
    rows = 2 * length * count + more
    costs = np.random.default_rng(seed).lognormal(0, 1, rows // length)
    found = draw(rows, lambda begins: costs, length=length, count=count, seed=seed)
    assert found.choice == "stratified" and len(found.ranges) == count
    assert found == draw(rows, lambda begins: costs, length=length, count=count, seed=seed)
    assert all(b - a == length for a, b in found.ranges)
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(found.ranges))
    assert found.ranges[-1][1] <= rows and sum(found.sizes) == rows // length
    own = strata(costs, count)
    taken = Counter(found.stratum)
    assert [taken[k] for k in range(len(own))] == [s.taken for s in own]
    assert found.sizes == tuple(len(s.stretches) for s in own)
    # Each in its stratum: of stretches that have the rows of the trace evenly.
    stretches = rows // length
    for (a, _), k in zip(found.ranges, found.stratum, strict=True):
        assert -(-a * stretches // rows) in own[k].stretches


def test_each_stretch_is_as_likely_as_the_others_of_its_stratum():
    costs = np.where(np.arange(40) % 10 < 2, 9.0, 1.0)
    times = np.zeros(40)
    for seed in range(3000):
        for a, _ in draw(403, lambda begins: costs, length=10, count=12, seed=seed).ranges:
            times[a // 10] += 1
    for stretches, taken in strata(costs, 12):
        assert times[stretches] == pytest.approx(3000 * taken / len(stretches), rel=0.13)


@settings(max_examples=10)
@given(st.integers(0, 99), st.integers(1, 40))
def test_costs_of_stretches_are_sums_of_their_rows(tmp_path_factory, seed, length):
    trace = extract(tmp_path_factory.mktemp("costs"), synthetic.text(seed, 300, blocks=False))
    n = len(trace)
    stretches = n // length
    begins = np.arange(stretches) * n // stretches
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stretch_costs, "BLOCK", 64)
        patch.setattr(stretch_costs, "DATA", ((2, 5.0), (9, 12.0)))
        found = stretch_costs.stretch_costs(RowSource(trace), begins, length, 2)
    want = np.zeros(n)
    divides = [OP_CLASSES[k].endswith(("Div", "Sqrt")) for k in trace.statics.op]
    for k in range(n):
        want[k] = 20.5 if divides[trace["static_id"][k]] else 0.5
        for distance, levels in (
            (trace["data_distance"][k], ((2, 5.0), (9, 12.0))),
            (trace["fetch_distance"][k], ((512, 10.0), (8192, 20.0), (131072, 60.0))),
        ):
            want[k] += sum(cycles for lines, cycles in levels if distance > lines)
        p = float(trace["p_global"][k])
        want[k] += 15.0 * min(p, 1 - p)
    assert found == pytest.approx([want[b : b + length].sum() for b in begins])


def test_so_many_rows_each_by_every():
    found = draw(100_000, length=100, every=2_000, seed=1)
    assert len(found.ranges) == 50
    assert len(draw(5_000, length=100, every=3_000, seed=1).ranges) == 2
    # Samples that would be most of the trace, or longer than their strata.
    assert draw(399, length=100, every=250, seed=1).whole
    assert draw(100_000, length=100, every=199, seed=1).whole
    assert draw(5_999, length=100, count=30).whole
    assert not draw(6_000, length=100, count=30).whole


def test_plans_that_make_no_strata_are_refused():
    with pytest.raises(UsageError, match="1 sample; at least 2"):
        draw(10**6, count=1)
    with pytest.raises(UsageError, match="a sample of 10,000 rows every 500"):
        draw(10**6, every=500)


@settings(max_examples=30)
@given(st.integers(0, 2**32))
def test_variance_is_that_of_all_draws(seed):
    """Over all draws there are, with as many rows walked as make the correction large: the mean of
    the estimates is the truth, and that of the variances is theirs (Cochran 1977, theorem 5.3)."""
    sizes, taken = (2, 4, 3, 4), (2, 2, 2, 3)
    rates = np.random.default_rng(seed).lognormal(0, 1, (sum(sizes), 2))
    edges = np.cumsum((0, *sizes))
    of_each = [
        itertools.combinations(range(a, b), n)
        for (a, b), n in zip(itertools.pairwise(edges.tolist()), taken, strict=True)
    ]
    stratum = tuple(np.repeat(range(4), taken).tolist())
    estimates, variances = [], []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sample_plan, "student", lambda freedom: 1.0)
        for drawn in itertools.product(*of_each):
            at = [k for some in drawn for k in some]
            ranges = [(10 * k, 10 * k + 10) for k in at]
            samples = Samples(ranges, 10 * sum(sizes), "stratified", stratum, sizes)
            found, half = samples.estimate(10 * rates[at])
            estimates.append(found)
            variances.append(half**2)
    assert np.mean(estimates, axis=0) == pytest.approx(10 * rates.sum(axis=0))
    assert np.mean(variances, axis=0) == pytest.approx(np.var(estimates, axis=0))


def test_freedom_is_of_the_strata_that_have_the_variance():
    """One stratum of many that differ little has nearly all of the variance: one degree of freedom,
    and with all alike nearly one for each."""
    many = 40
    stratum, sizes = tuple(np.repeat(range(many), 2).tolist()), (10**6,) * many
    ranges = [(20 * k, 20 * k + 10) for k in range(2 * many)]
    samples = Samples(ranges, 10 * sum(sizes), "stratified", stratum, sizes)
    alike = np.tile([9.0, 11.0], many)
    one = np.array([1.0, 19.0, *np.tile([9.999, 10.001], many - 1)])
    found, half = samples.estimate(np.array([alike, one]).T)
    assert found == pytest.approx([1.0 * samples.rows] * 2)
    error = np.array([np.sqrt(many), 9.0]) * 0.1 / many * samples.rows
    assert half == pytest.approx(error * [student(many), student(1)], rel=1e-3)


def test_t_between_whole_degrees_of_freedom():
    exact = {0.3: 12.706, 1: 12.706, 1.2: 8.6488, 1.5: 6.0167, 2.5: 3.5747, 5.5: 2.5019, 40: 2.0211}
    for freedom, t in exact.items():
        assert student(freedom) == pytest.approx(t, rel=0.03)
    values = [student(f) for f in np.linspace(1, 60, 2000)]
    assert values == sorted(values, reverse=True)


PROGRAMS = {
    "slow": lambda t, r: 1 + t / len(t) + r.normal(0, 0.03, len(t)),
    "beginning": lambda t, r: 1 + 10 * np.exp(-t / 20) + r.normal(0, 0.05, len(t)),
    "as often as systematic samples come": lambda t, r: (
        1 + 0.5 * np.sin(2 * np.pi * t / 50) + r.normal(0, 0.05, len(t))
    ),
    "phases": lambda t, r: r.lognormal(0, 0.5, len(t) // 40 + 1)[t // 40],
    "few are slow": lambda t, r: 1 + 4 * (r.random(len(t) // 10 + 1) < 0.05)[t // 10],
}


#: What costs tell of the programs: nothing, about what is true, or which stretches are slow.
TELLS = {
    "nothing": lambda rates, r: np.ones(len(rates)),
    "about all": lambda rates, r: rates * r.lognormal(0, 0.3, len(rates)),
    "which are slow": lambda rates, r: np.where(rates > 2 * np.median(rates), 3.0, 1.0),
}


def held(program: str, choice: str, tells: str = "nothing") -> tuple[float, float]:
    """How often 300 intervals of 100 samples hold the truth, and the error in the mean."""
    r = np.random.default_rng(2)
    rates = PROGRAMS[program](np.arange(5000), r)
    costs = TELLS[tells](rates, r)
    inside, error = 0, 0.0
    for seed in range(300):
        found = draw(50_000, lambda begins: costs, length=10, count=100, choice=choice, seed=seed)
        starts = np.array([a for a, _ in found.ranges]) / 10
        k, part = starts.astype(int), starts % 1
        own = rates[k] * (1 - part) + rates[np.minimum(k + 1, 4999)] * part
        total, half = found.estimate(10 * own[:, None])
        inside += int(abs(total[0] - 10 * rates.sum()) <= half[0])
        error += abs(total[0] / rates.sum() / 10 - 1)
    return inside / 300, error / 300


@pytest.mark.parametrize("program", PROGRAMS)
def test_intervals_hold(program):
    inside, error = held(program, "stratified", "about all")
    assert 0.92 <= inside <= 0.99
    inside, without = held(program, "stratified")
    assert 0.92 <= inside <= 0.99
    if program == "few are slow":  # and costs tell which
        assert error < without / 3
        assert held(program, "stratified", "which are slow") == (1, pytest.approx(0))
    if program in ("as often as systematic samples come", "beginning"):
        inside, more = held(program, "systematic")
        assert inside < 0.8 and more > 2 * min(error, without)
    if program == "as often as systematic samples come":
        assert error < 0.8 * without


@pytest.mark.parametrize("count", [20, 60])
def test_intervals_of_phases_hold_where_few_of_their_stretches_are_dear(count):
    """Samples that met none of the dear ones do not say that there are none, where the features
    tell that they are."""
    r = np.random.default_rng(4)
    phases = r.integers(4, size=2000)
    dear = r.random(2000) < 0.02
    rates = 1 + phases + np.where(dear, 30.0, 0.0) + r.random(2000)
    costs = rates * r.lognormal(0, 0.03, 2000)
    held, less, wider = 0, 0, []
    for seed in range(300):
        plan = SamplePlan(10, count=count, choice="phase", seed=seed)
        found = plan.draw(20_000, lambda most: phases, lambda begins: costs)
        own = 10 * rates[[a // 10 for a, _ in found.ranges], None]
        total, half = found.estimate(own)
        _, plain = replace(found, expected=(), spreads=()).estimate(own)
        apart = abs(total[0] - 10 * rates.sum())
        held += apart <= half[0]
        less += apart <= plain[0]
        wider.append(half[0] / plain[0])
    assert held / 300 >= 0.9 and less / 300 < 0.85
    assert min(wider) >= 1 and np.quantile(wider, 0.1) < 1.1


@given(st.floats(0.1, 10), st.integers(0, 99))
def test_costs_that_samples_do_not_tell_apart_widen_by_the_mean_cost_of_a_row(scale, seed):
    """All samples should cost the same, and a phase's other stretches should not."""
    sizes, stratum = (50, 50), (0, 0, 1, 1)
    rates = np.random.default_rng(seed).lognormal(0, 0.1, (4, 1))
    ranges = [(20 * k, 20 * k + 10) for k in range(4)]
    few = Samples(ranges, 1000, "phase", stratum, sizes)
    told = replace(few, expected=(scale * (1 + 1e-15), scale, scale, scale))
    plain = few.estimate(10 * rates)[1]
    assert replace(told, spreads=(0.0, 0.0)).estimate(10 * rates)[1] == pytest.approx(plain)
    found = replace(told, spreads=(scale**2, scale**2)).estimate(10 * rates)[1]
    found_of_ten = replace(
        told, expected=(10 * scale,) * 4, spreads=(100 * scale**2,) * 2
    ).estimate(10 * rates)[1]
    assert found == pytest.approx(found_of_ten)  # whatever the unit of costs is
    mean, t = rates.mean(), plain / np.sqrt(few_variance(rates)) / 1000
    extra = 2 * 0.25 * (1 - 2 / 50) / 2 * mean**2
    assert found == pytest.approx(t * np.sqrt(few_variance(rates) + extra) * 1000)


def few_variance(rates):
    """Of two of fifty in each of two strata of the same size."""
    return sum(0.25 * (1 - 2 / 50) * rates[k : k + 2].var(ddof=1) / 2 for k in (0, 2))
