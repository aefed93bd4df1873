"""The search for cores that explain a machine's traces."""

from __future__ import annotations

import numpy as np
import pytest
import synthetic
from hypothesis import given, settings
from hypothesis import strategies as st
from test_sim import MACHINE, extract

from tracekit.calibration import search
from tracekit.calibration.random_designs import possible, random_designs
from tracekit.calibration.row_classes import CLASSES, class_labels, class_residuals
from tracekit.calibration.search_settings import Round, SearchSettings
from tracekit.errors import UsageError
from tracekit.sim import walk

HIDDEN = {**MACHINE, "width": 2, "issue_width": 2, "rob": 40, "l1d_lat": 4, "bp": "TAGE"}


def times(trace, machine) -> np.ndarray:
    return np.concatenate([w.cycles for w in walk(trace, [machine])])[:, 0].astype(float)


@settings(max_examples=5)
@given(st.integers(0, 2**32), st.integers(40, 900), st.integers(30, 700))
def test_the_objective_is_that_of_windows_and_classes(tmp_path_factory, seed, rows, told):
    folder = tmp_path_factory.mktemp("t")
    traces = [extract(folder, synthetic.text(seed + k, rows, blocks=False)) for k in range(2)]
    marked = [(t, times(t, HIDDEN), class_labels(t, told)) for t in traces]
    judge = search.Judge(marked, told)
    want = []
    bias, spread = class_residuals()
    for t, y, labels in marked:
        x, y = times(t, MACHINE)[:told], y[:told]
        loss = ((x.sum() - y.sum()) / y.sum() / 0.08) ** 2 / 2
        for size, weight in ((32, 20), (1024, 40)):
            at = range(0, len(x), size)
            gaps = sum(abs(x[a : a + size].sum() - y[a : a + size].sum()) for a in at)
            loss += weight * gaps / y.sum()
        for k in np.unique(labels):
            row = (labels == k).any(axis=0)
            if row.sum() >= 20:
                gap = np.log((x[row].sum() / y.sum() + 1e-3) / (y[row].sum() / y.sum() + 1e-3))
                gap -= bias[k]
                loss += 2 * np.log1p(gap**2 / (spread[k] ** 2 + 4 / row.sum()) / 4)
        want.append(loss)
    objectives, deviations = judge([HIDDEN, MACHINE])
    assert objectives[1] == pytest.approx(np.mean(want))
    assert deviations.shape[0] == 2 and deviations.shape[1] >= len(traces)
    told = 2 * np.log1p(deviations[0] ** 2 / 4).sum() / len(traces)  # nothing is left but biases
    assert objectives[0] == pytest.approx(told)
    assert len(bias) == len(spread) == CLASSES and (spread > 0).all()


def test_bursts_tell_the_width():
    r = np.random.default_rng(0)
    cycles = np.zeros(60_000)
    at = np.cumsum(r.integers(1, 5, 30_000))
    cycles[at[at < len(cycles)]] = 1
    ones = np.ones(len(cycles), np.int64)
    assert search.width_of(cycles, ones) == 4
    assert search.width_of(cycles + 0.5, ones) is None
    assert search.width_of(cycles[:100], ones[:100]) is None
    cycles[1000:1006] = 0  # rows that took no turn among them
    assert search.width_of(cycles, ones) == 4
    assert search.width_of(np.ones(5000), np.zeros(5000, np.int64)) == 1


def test_rows_that_trap_retire_beside_a_full_burst():
    cycles = np.tile([1.0, 0, 0, 0], 5000)
    merged = np.arange(0, len(cycles), 400) + 4  # a fifth row, as gem5 writes it
    micro_ops = np.insert(np.ones(len(cycles), np.int64), merged, 0)
    cycles = np.insert(cycles, merged, 0.0)
    assert search.width_of(cycles, micro_ops) == 4
    assert search.width_of(cycles, np.ones(len(cycles), np.int64)) == 5


def test_a_wide_machine_that_is_seldom_full_is_as_wide():
    lengths = np.repeat([1, 2, 3, 4, 5, 6, 7, 8], [9000, 20000, 900, 90, 60, 40, 10, 4])
    cycles = np.zeros(lengths.sum() + 1)
    cycles[np.append(0, np.random.default_rng(0).permutation(lengths).cumsum())] = 1
    assert search.width_of(cycles, np.ones(len(cycles), np.int64)) == 8


@settings(max_examples=30)
@given(st.integers(1, 8), st.integers(0, 2**32))
def test_instructions_of_several_micro_ops_tell_the_width(width, seed):
    """Micro-ops retire as many as there is room for; rows, with the last one of each."""
    r = np.random.default_rng(seed)
    micro_ops = r.choice([1, 2, 4], 20_000)
    cycle = (micro_ops.cumsum() - 1) // width  # of each row's last micro-op
    cycles = np.diff(cycle, prepend=-1).astype(float)
    assert search.width_of(cycles, micro_ops) == width


def test_found_cores_explain_the_traces_and_are_the_same_again(tmp_path):
    small = SearchSettings(
        rounds=(Round(1000, 2, 0), Round(2000, 2, 1)),
        settling_rows=3000,
        offers=3,
        population=24,
        steps=1,
        combined=4,
    )
    trace = extract(tmp_path, synthetic.text(5, 3000, blocks=False))
    traces = [(trace, times(trace, HIDDEN))]
    start = [
        {**MACHINE, "phys_float": 128},
        *random_designs([{**MACHINE, "phys_float": 128}], 20, 1),
    ]
    before = [dict(c) for c in start]
    said: list[str] = []
    found = search.similar_cores(traces, start, 6, 7, report=said.append, settings=small)
    assert start == before and len(found) == 6 and len(said) == 2 + (2 + 1 + 1) + 3 + 3
    assert all(possible(c) for c in found)
    assert found == search.similar_cores(traces, start, 6, 7, 1, settings=small)
    assert found != search.similar_cores(traces, start, 6, 8, settings=small)
    told = {"width": 2, "l1d_lat": 4, "phys_float": 96, "l1d_kb": 48, "l1d_assoc": 6}
    some = search.similar_cores(traces, start, 6, 7, settings=small, known=told)
    assert len(some) == 6 and all(told.items() <= c.items() and possible(c) for c in some)
    assert len({c["rob"] for c in some} | {c["l2_kb"] for c in some}) > 2
    with pytest.raises(UsageError, match="the width is 1, but 2 micro-ops of a trace"):
        search.similar_cores(traces, start, settings=small, known={"width": 1})
    told = {"l1d_kb": 1, "l1d_assoc": 32}
    with pytest.raises(UsageError, match="no simulated core is possible with l1d_kb=1, l1d_assoc"):
        search.similar_cores(traces, start, settings=small, known=told)
    judge = search.Judge([(*traces[0], class_labels(trace, 3000))], 3000)
    errors, least = judge(found)[0], judge(start)[0].min()
    assert errors[0] < least and (errors <= least).all()
    # Best first by all rows that the search settles on, what was drawn anew among them.
    assert (np.diff(errors) >= 0).all()
