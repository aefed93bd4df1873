"""The row of a machine near found cores: what is least, and what it is for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracekit.perfvec import near
from tracekit.perfvec.classes import CLASSES, class_residuals

SLOW = settings(deadline=None, max_examples=30)
BIAS, SPREAD = class_residuals()


def traces(seed: int, cores: int, machine) -> list[near.ClassTimes]:
    """Two traces whose classes cost each core something else; ``machine``: its times from x."""
    r, out = np.random.default_rng(seed), []
    pace = r.normal(0, 1, cores)
    for _ in range(2):
        counts = r.integers(0, 3000, CLASSES)
        x = counts[:, None] * np.exp(r.normal(0, 0.3, (CLASSES, cores)) + pace)
        y = machine(x) * np.exp(-BIAS)
        out.append(near.ClassTimes(x, y, counts, 3 * x.sum(axis=0), 3 * float(y.sum())))
    return out


def cost(told: list[near.ClassTimes], row: np.ndarray, found: int) -> float:
    """What row_near makes least, class by class."""
    pace = np.exp(sum(np.log(t.total_y / t.total_x) for t in told) / len(told))
    parts, out = row / pace, 0.0
    middle = np.where(np.arange(len(row)) < len(row) - found, 0, 1 / found)
    for t in told:
        gaps = []
        for c in np.flatnonzero(t.counts >= 20):
            x = np.log(4 * t.x[c] / t.x.sum(axis=0) + 1e-3)
            y = np.log(4 * t.y[c] / t.y.sum() + 1e-3) + BIAS[c]
            gaps.append((x, y, np.sqrt(SPREAD[c] ** 2 + 4 / t.counts[c])))
        gaps.append((np.log(t.total_x * pace), np.log(t.total_y), 0.05))
        out += sum(
            ((x @ parts - y - (x @ middle) * (parts.sum() - 1)) / s) ** 2 for x, y, s in gaps
        )
    return out + 100 * float(((parts - middle) ** 2).sum()) + 1e6 * (parts.sum() - 1) ** 2


@SLOW
@given(st.integers(0, 2**32), st.integers(2, 12), st.data())
def test_no_other_row_is_nearer(seed, cores, data):
    found = data.draw(st.integers(1, cores - 1))
    told = traces(seed, cores, lambda x: x[:, 0])
    row = near.row_near(told, found)
    assert row.shape == (cores,) and (row >= 0).all()
    least = cost(told, row, found)
    r = np.random.default_rng(seed)
    for size in (1e-3, 1e-2, 0.1, 1.0):
        other = np.maximum(row * np.exp(r.normal(0, size, cores)) + size * row.mean() / 9, 0)
        assert least <= cost(told, other, found) * (1 + 1e-6)


def test_cores_beside_the_found_ones_take_what_those_leave():
    told = traces(1, 6, lambda x: x[:, 0])
    row = near.row_near(told, 2)
    assert row[0] > 0.5
    assert [t.total_x @ row / t.total_y for t in told] == pytest.approx([1, 1], rel=0.15)
    same = near.row_near(traces(2, 6, lambda x: x[:, 4:].mean(axis=1)), 2)
    assert same[4:].sum() > 0.8 * same.sum()
