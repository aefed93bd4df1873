"""The estimator: by hand, against brute force, and whether its intervals hold."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracekit.errors import UsageError
from tracekit.estimation import fleet
from tracekit.estimation.estimator import collapsed

ROOT = Path(__file__).resolve().parent.parent


def test_by_hand():
    """Two epochs of equal weight: 1 and 3 ns here, 2 and 3 there, of a computer that takes 1."""
    found = fleet(("a", "b"), np.ones(2), np.array([[1.0, 2.0], [3.0, 3.0]]), reference=np.ones(2))
    assert found.best() == "a" and found.epochs == 2
    assert found.level("a").value == 2.0 and found.level("b").value == 2.5
    c = found.compare("a", "b")
    # residuals: (1 - 0.8 * 2) / 5 and (3 - 0.8 * 3) / 5, which are -0.12 and 0.12
    assert c.ratio == pytest.approx(0.8)
    assert c.half == pytest.approx(1.96 * np.sqrt(2 * (0.12**2 + 0.12**2)))
    assert not c.certain


def test_equal_differences_are_certain():
    """A design that is 1 % slower on each epoch is so, however much epochs differ."""
    times = np.random.default_rng(1).lognormal(0, 2, 50)
    found = fleet(("a", "b"), np.ones(50), np.stack([times, 1.01 * times], axis=1))
    c = found.compare("b", "a")
    assert c.ratio == pytest.approx(1.01) and c.half < 1e-12 and c.certain
    assert fleet(("a",), np.ones(1), np.ones((1, 1))).level("a").half == np.inf


ERRORS = np.array([[9.0, 6.0], [6.0, 16.0]]) * 1e-4


def test_the_models_error_averages_out_over_programs_and_not_over_epochs():
    """Three programs of 40 epochs each, the computer's own time known: a program's errors are its
    share of a design's total times what the model is off there."""
    rng = np.random.default_rng(2)
    program = np.repeat([5, 7, 9], 40)
    times = rng.uniform(1, 2, (120, 2)) * np.array([1, 2, 4])[program // 2 - 2, None]
    wider = np.where(program == 9, 3.0, 1.0)
    here = np.ones(120)

    def of(**more):
        return fleet("ab", here, times, reference=here, strata=program, **more)

    plain = of().compare("a", "b")
    with_model = of(errors=ERRORS, programs=program, wider=wider).compare("a", "b")
    assert with_model.ratio == plain.ratio
    variance = 0.0
    for number, factor in ((5, 1.0), (7, 1.0), (9, 3.0)):
        own = program == number
        a, b = factor * times[own].sum(axis=0) / times.sum(axis=0)
        variance += a * a * ERRORS[0, 0] - 2 * a * b * ERRORS[0, 1] + b * b * ERRORS[1, 1]
    assert with_model.half == pytest.approx(
        np.hypot(plain.half, 1.96 * plain.ratio * np.sqrt(variance))
    )
    alone = of(errors=ERRORS).compare("a", "b")  # one program: nothing averages out
    extra = np.sqrt(alone.half**2 - plain.half**2) / plain.ratio
    assert extra == pytest.approx(1.96 * np.sqrt(13e-4))


@pytest.mark.parametrize("known", [True, False])
def test_intervals_with_the_models_error_hold(known):
    """400 fleets of programs whose predictions are off together in all of their epochs; the epochs
    stand for time on the predicted designs' mean, or on a computer that is measured."""
    rng = np.random.default_rng(3)
    root = np.linalg.cholesky(ERRORS)
    held = {True: 0, False: 0}
    for _ in range(400):
        program = np.repeat(np.arange(12), 10)
        slow = rng.lognormal(0, 0.3, (12, 2))[program]
        truth = slow * rng.lognormal(0, 0.005, (120, 2))
        predicted = truth * np.exp(rng.normal(size=(12, 2)) @ root.T)[program]
        seconds = rng.dirichlet(np.ones(12))[program]
        here = truth.mean(axis=1)
        a, b = (seconds / here) @ truth
        for errors in (ERRORS, None):
            c = fleet(
                "ab",
                seconds,
                predicted,
                reference=here if known else None,
                strata=program,
                errors=errors,
                programs=program,
            ).compare("a", "b")
            held[errors is not None] += abs(c.ratio - a / b) <= c.half
    assert 0.9 <= held[True] / 400 <= 0.98
    assert held[False] / 400 < 0.6


@settings(max_examples=60)
@given(
    strata=st.lists(st.integers(0, 6), min_size=2, max_size=30),
    seed=st.integers(0, 1 << 16),
    confidence=st.sampled_from([0.9, 0.95, 0.99]),
)
def test_the_variance_is_that_of_the_definition(strata, seed, confidence):
    rng = np.random.default_rng(seed)
    n = len(strata)
    weights, times, free = rng.random(n) + 0.1, rng.random((n, 3)) + 0.1, rng.random(n)
    found = fleet(
        "abc", weights, times, strata=strata, uncounted=free, confidence=confidence
    ).compare("a", "c")
    base = times.mean(axis=1)
    y = [[w * t[k] / b for k in (0, 2)] for w, t, b in zip(weights, times, base, strict=True)]
    a, c = sum(v[0] for v in y), sum(v[1] for v in y)
    assert found.ratio == pytest.approx(a / c)
    groups: dict[int, list[int]] = {}
    for i, g in enumerate(collapsed(np.array(strata)).tolist()):
        groups.setdefault(g, []).append(i)
    variance = 0.0
    for rows in groups.values():
        z = [(y[i][0] - a / c * y[i][1]) / c for i in rows]
        mean = sum(z) / len(z)
        squares = [(v - mean) ** 2 * free[i] for v, i in zip(z, rows, strict=True)]
        variance += len(z) / (len(z) - 1) * sum(squares)
    quantile = {0.9: 1.6449, 0.95: 1.96, 0.99: 2.5758}[confidence]
    assert found.half == pytest.approx(quantile * variance**0.5)


@given(st.lists(st.integers(-3, 9), min_size=2, max_size=40))
def test_collapsed_strata(strata):
    """Each has two or more, they are numbered from 0, and nothing is torn apart or reordered."""
    out = collapsed(np.array(strata))
    counts = np.bincount(out)
    assert counts.min() >= 2
    pairs = sorted(zip(strata, out.tolist(), strict=True))
    assert all(a[1] <= b[1] for a, b in itertools.pairwise(pairs))
    assert len(set(pairs)) == len(set(strata))


def test_what_does_not_fit_is_refused():
    two = np.ones((2, 1))
    for args, more in (
        ((("a",), np.ones(3), two), {}),
        ((("a",), np.array([1.0, 0.0]), two), {}),
        ((("a",), np.ones(2), two), {"strata": [1]}),
        ((("a",), np.ones(2), two), {"confidence": 0.5}),
        ((("a",), np.ones(2), two * np.nan), {}),
    ):
        with pytest.raises(UsageError):
            fleet(*args, **more)


def test_answers_from_samples_hold(shared):
    """The bench's numbers, from fewer fleets."""
    done = subprocess.run(
        [sys.executable, ROOT / "bench" / "fleet_from_samples.py", "--traces", str(shared),
         "--fleets", "60", "--json"],
        capture_output=True, text=True, timeout=200, check=True,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert [len(programs) for programs in found["programs"]] == [30]
    found = found["gem5"]
    assert found["right_order"] >= 0.97 and found["pairs_that_differ"] > 300
    assert 0.88 <= found["held"] <= 0.99 and found["half_width_median"] <= 0.015
    assert found["largest_share"] <= 0.05
