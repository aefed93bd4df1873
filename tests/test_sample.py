"""Samples of a program's epochs: weights, intervals, two walks."""

from __future__ import annotations

import numpy as np
import pytest
import synthetic
from hypothesis import given
from hypothesis import strategies as st
from test_sim import MACHINE, extract

from tracekit.estimation.student import student
from tracekit.mixture.model import Mixture
from tracekit.prediction.sampling import NEW, Sums, estimate, interval, walk_epochs
from tracekit.sim import walk


def model(cores: int = 2) -> Mixture:
    machines = [{**MACHINE, "name": f"m{k}", "width": k + 1} for k in range(cores)]
    return Mixture(machines, machines, np.eye(cores), {})


@given(st.integers(0, 2**32), st.integers(2, 30))
def test_ratio_and_jackknife(seed, n):
    rng = np.random.default_rng(seed)
    rows, weights = rng.integers(100, 1000, n).astype(float), rng.random(n) + 0.1
    cycles = rng.random((n, 3)) * rows[:, None]
    ratio, half = interval(cycles, rows, weights)
    keep = ~np.eye(n, dtype=bool)
    left = np.array(
        [(weights[k, None] * cycles[k]).sum(axis=0) / (weights[k] * rows[k]).sum() for k in keep]
    )
    variance = (n - 1) / n * ((left - left.mean(axis=0)) ** 2).sum(axis=0)
    w = weights * rows
    t = student(w.sum() ** 2 / (w**2).sum() - 1)
    assert np.allclose(ratio, (weights[:, None] * cycles).sum(axis=0) / w.sum())
    assert np.allclose(half, t * np.sqrt(variance))


def test_one_epoch_has_no_interval():
    _, half = interval(np.ones((1, 2)), np.ones(1), np.ones(1))
    assert np.isnan(half).all()


def test_intervals_of_normal_epochs_hold_the_truth():
    rng = np.random.default_rng(1)
    inside = 0
    for _ in range(400):
        cycles = rng.normal(2, 0.3, (8, 1)) * 1000
        ratio, half = interval(cycles, np.full(8, 1000.0), np.ones(8))
        inside += abs(ratio[0] - 2) <= half[0]
    assert inside >= 0.92 * 400


def test_slow_epochs_weigh_less_where_they_were_taken_evenly_in_time():
    # Half the time at 1 cycle an instruction, half at 3: three quarters of the instructions are
    # fast.
    rows = np.full(2, 1000.0)
    cycles = np.array([[1000.0, 1000.0], [3000.0, 3000.0]])
    sums = Sums(rows, cycles, np.zeros_like(cycles), None)
    assert estimate(model(), sums).cpi == pytest.approx([1.5, 1.5])
    assert estimate(model(), sums, here="m1").cpi == pytest.approx([1.5, 1.5])
    whole = estimate(model(), sums, sampled=False)
    assert whole.cpi == pytest.approx([2, 2]) and (whole.half == 0).all()


def test_two_walks(tmp_path):
    trace = extract(tmp_path, synthetic.text(3, 400, blocks=False))
    m, n = model(), len(trace)
    ranges = [(0, n // 3), (n // 2, n)]
    labels = np.arange(len(trace.statics), dtype=np.int64) % 3
    found = walk_epochs(m, trace, ranges, labels=labels)
    once = walk_epochs(m, trace, ranges, contiguous=True)
    assert np.array_equal(found.rows, once.rows) and (once.unwarmed == 0).all()
    assert found.rows.tolist() == [b - a for a, b in ranges]
    assert found.parts is not None
    assert np.allclose(found.parts.sum(axis=1), found.warm)
    # The halves of the first walk, less those of the second, in which something is cached.
    halves = [(a, b) for x, y in ranges for a, b in ((x, (x + y) // 2), ((x + y) // 2, y))]
    walks = np.zeros((2, len(halves), 2))
    for k, block in enumerate(walk(trace, m.cores, ranges=halves * 2)):
        walks[k // len(halves), k % len(halves)] = block.cycles.sum(axis=0, dtype=np.float64)
    scale = [(y - x) / (y - (x + y) // 2) for x, y in ranges]
    wanted = (walks[0] - walks[1])[1::2] * np.array(scale)[:, None]
    assert np.allclose(found.unwarmed, wanted) and wanted.any()
    assert np.allclose(found.warm, walks[1, ::2] + walks[1, 1::2])
    e = estimate(m, found)
    assert np.allclose(
        e.cold * e.cpi, (1 - NEW) * (e.weights @ m.cycles(found.unwarmed)) / found.rows.sum()
    )
    assert (e.half >= 0).all()
