"""The search for cores that explain a machine's traces."""

from __future__ import annotations

import numpy as np
import pytest
import synthetic
from hypothesis import given, settings
from hypothesis import strategies as st
from test_reference import MACHINE, extract

from tracekit.perfvec import search
from tracekit.perfvec.drawn import drawn_cores, possible
from tracekit.reference import walk

HIDDEN = {**MACHINE, "width": 2, "issue_width": 2, "rob": 40, "l1d_lat": 4, "bp": "TAGE"}


def times(trace, machine) -> np.ndarray:
    return np.concatenate([w.cycles for w in walk(trace, [machine])])[:, 0].astype(float)


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 2**32), st.integers(40, 600), st.integers(30, 700))
def test_the_error_is_that_of_the_windows(tmp_path_factory, seed, rows, told):
    folder = tmp_path_factory.mktemp("t")
    traces = [extract(folder, synthetic.text(seed + k, rows, blocks=False)) for k in range(2)]
    pairs = [(t, times(t, HIDDEN)) for t in traces]
    judge = search.Judge(pairs, search.Rows(told, (8, 32)))
    want = []
    for t, y in pairs:
        x, y = times(t, MACHINE)[:told], y[:told]
        for size in (8, 32, told):
            at = range(0, len(x), size)
            want.append(sum(abs(x[a : a + size].sum() - y[a : a + size].sum()) for a in at))
            want[-1] /= y.sum()
    assert judge([HIDDEN, MACHINE, HIDDEN]) == pytest.approx([0, np.mean(want), 0])


def test_bursts_tell_the_width():
    r = np.random.default_rng(0)
    cycles = np.zeros(60_000)
    at = np.cumsum(r.integers(1, 5, 30_000))
    cycles[at[at < len(cycles)]] = 1
    assert search.width_of(cycles) == 4
    cycles[1000:1006] = 0  # a trapped row or two among them
    assert search.width_of(cycles) == 4
    assert search.width_of(cycles + 0.5) is None
    assert search.width_of(cycles[:100]) is None


def test_found_cores_explain_the_traces_and_are_the_same_again(tmp_path, monkeypatch):
    monkeypatch.setattr(search, "_GENERATIONS", 4)
    monkeypatch.setattr(search, "_POPULATION", 24)
    monkeypatch.setattr(search, "_OFFERS", 2)
    trace = extract(tmp_path, synthetic.text(5, 3000, blocks=False))
    traces = [(trace, times(trace, HIDDEN))]
    start = [{**MACHINE, "phys_float": 128}, *drawn_cores([{**MACHINE, "phys_float": 128}], 20, 1)]
    before = [dict(c) for c in start]
    said: list[str] = []
    found = search.similar_cores(traces, start, 6, 7, report=said.append)
    assert start == before and len(found) == 6 and len(said) == 6
    assert all(possible(c) for c in found)
    assert found == search.similar_cores(traces, start, 6, 7, 1)
    assert found != search.similar_cores(traces, start, 6, 8)
    judge = search.Judge(traces, search.Rows(3000, (32, 1024)))
    errors = judge(found)
    assert errors[0] < judge(start).min() and (errors <= judge(start).min()).all()
