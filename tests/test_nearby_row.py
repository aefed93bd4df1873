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

SLOW = settings(max_examples=30)
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


def cost(informative: list[nearby_row.ClassTimes], row: np.ndarray) -> float:
    """What regularized_row makes least, class by class."""
    pace = np.exp(sum(np.log(t.total_y / t.total_x) for t in informative) / len(informative))
    parts, out = row / pace, 0.0
    for t in informative:
        gaps = []
        for c in np.flatnonzero(t.counts >= 20):
            x = np.log(4 * t.x[c] / t.x.sum(axis=0) + 1e-3)
            y = np.log(4 * t.y[c] / t.y.sum() + 1e-3) + BIAS[c]
            gaps.append((x, y, np.sqrt(SPREAD[c] ** 2 + 4 / t.counts[c])))
        gaps.append((np.log(t.total_x * pace), np.log(t.total_y), 0.05))
        out += sum(((x @ parts - y - x.mean() * (parts.sum() - 1)) / s) ** 2 for x, y, s in gaps)
    return out + 300 * float(((parts - 1 / len(row)) ** 2).sum()) + 1e6 * (parts.sum() - 1) ** 2


@SLOW
@given(st.integers(0, 2**32), st.integers(1, 12))
def test_no_other_row_is_nearer(seed, cores):
    informative = traces(seed, cores, lambda x: x[:, 0])
    row = nearby_row.regularized_row(informative)
    assert row.shape == (cores,) and (row >= 0).all()
    least = cost(informative, row)
    r = np.random.default_rng(seed)
    for size in (1e-3, 1e-2, 0.1, 1.0):
        other = np.maximum(row * np.exp(r.normal(0, size, cores)) + size * row.mean() / 9, 0)
        assert least <= cost(informative, other) * (1 + 1e-6)


def test_cores_take_part_as_they_explain_the_machine():
    of_one = traces(1, 6, lambda x: x[:, 0])
    row = nearby_row.regularized_row(of_one)
    pace = nearby_row.core_paces(of_one)
    assert (row / pace)[0] > 0.8
    assert [t.total_x @ row / t.total_y for t in of_one] == pytest.approx([1, 1], rel=0.15)
    of_all = traces(2, 6, lambda x: np.exp(np.log(x).mean(axis=1)))
    even = nearby_row.regularized_row(of_all) / nearby_row.core_paces(of_all)
    assert even.max() < 2 / 6


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
