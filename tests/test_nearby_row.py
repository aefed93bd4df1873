"""The row of a machine near found cores: what is least, and what it is for."""

from __future__ import annotations

import numpy as np
import pytest
import synthetic
from hypothesis import given, settings
from hypothesis import strategies as st
from test_sim import MACHINE, extract

from tracekit.calibration import nearby_row
from tracekit.calibration.row_classes import CLASSES, DIVISIONS, class_residuals
from tracekit.sim import walk

SLOW = settings(deadline=None, max_examples=30)
BIAS, SPREAD = class_residuals()


def traces(seed: int, cores: int, machine) -> list[nearby_row.ClassTimes]:
    """Two traces whose classes cost each core something else; ``machine``: its times from x."""
    r, out = np.random.default_rng(seed), []
    pace = r.normal(0, 1, cores)
    for _ in range(2):
        counts = r.integers(0, 3000, CLASSES)
        x = counts[:, None] * np.exp(r.normal(0, 0.3, (CLASSES, cores)) + pace)
        y = machine(x) * np.exp(-BIAS)
        out.append(nearby_row.ClassTimes(x, y, counts, 3 * x.sum(axis=0), 3 * float(y.sum())))
    return out


def cost(informative: list[nearby_row.ClassTimes], row: np.ndarray, candidates: int) -> float:
    """What regularized_row makes least, class by class."""
    pace = np.exp(sum(np.log(t.total_y / t.total_x) for t in informative) / len(informative))
    parts, out = row / pace, 0.0
    middle = np.where(np.arange(len(row)) < len(row) - candidates, 0, 1 / candidates)
    for t in informative:
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
    candidates = data.draw(st.integers(1, cores - 1))
    informative = traces(seed, cores, lambda x: x[:, 0])
    row = nearby_row.regularized_row(informative, candidates)
    assert row.shape == (cores,) and (row >= 0).all()
    least = cost(informative, row, candidates)
    r = np.random.default_rng(seed)
    for size in (1e-3, 1e-2, 0.1, 1.0):
        other = np.maximum(row * np.exp(r.normal(0, size, cores)) + size * row.mean() / 9, 0)
        assert least <= cost(informative, other, candidates) * (1 + 1e-6)


def test_cores_beside_the_found_ones_take_what_those_leave():
    informative = traces(1, 6, lambda x: x[:, 0])
    row = nearby_row.regularized_row(informative, 2)
    assert row[0] > 0.5
    assert [t.total_x @ row / t.total_y for t in informative] == pytest.approx([1, 1], rel=0.15)
    same = nearby_row.regularized_row(traces(2, 6, lambda x: x[:, 4:].mean(axis=1)), 2)
    assert same[4:].sum() > 0.8 * same.sum()


@pytest.mark.parametrize("counted", [300, 5000])
def test_a_core_takes_the_whole_trace_however_few_rows_are_in_classes(
    tmp_path, monkeypatch, counted
):
    trace = extract(tmp_path, synthetic.text(3, 900, blocks=False))
    own, other = (
        np.concatenate([w.cycles for w in walk(trace, [m])])[:, 0].astype(float)
        for m in (MACHINE, {**MACHINE, "rob": 20})
    )
    monkeypatch.setattr(nearby_row, "INFORMATIVE_ROWS", counted)
    times = nearby_row.class_times(trace, other, [MACHINE], 1)
    assert times.total_x.tolist() == [own.sum()] and times.total_y == other.sum()
    assert times.y.sum() == DIVISIONS * other.sum()
