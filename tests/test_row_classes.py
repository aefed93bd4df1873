"""Classes of rows and sums of cores' cycles over them."""

from __future__ import annotations

import numpy as np
import pytest
import synthetic
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import row_classes as oracle
from test_sim import MACHINE, extract, walk_module

from tracekit.calibration import row_classes
from tracekit.calibration.row_classes import CLASSES, class_labels
from tracekit.sim import ClassedRows, walk

SLOW = settings(max_examples=8)


@SLOW
@given(st.integers(0, 2**32), st.integers(1, 900), st.integers(1, 900))
def test_labels_are_the_oracles(tmp_path_factory, seed, rows, told):
    trace = extract(tmp_path_factory.mktemp("t"), synthetic.text(seed, rows, blocks=False))
    found = class_labels(trace, told).astype(int)
    n = min(told, len(trace))
    s, ids = trace.statics, trace["static_id"][:n]
    load, store = s.has("IsLoad")[ids], s.has("IsStore")[ids]
    wrong = np.concatenate([w.wrong for w in walk(trace, [], difficulty=True, rows=n)]).tolist()
    pc, kind, taken = (trace[k][:n].tolist() for k in ("pc", "branch", "taken"))
    assert found.shape == (4, n) and CLASSES == row_classes._FIRST[4] > found.max()
    address, data, lines = (trace[k][:n] for k in ("addr", "data_distance", "fetch_distance"))
    assert (found[1] - row_classes._FIRST[1]).tolist() == oracle.loads(
        ids, load, store, address, data
    )
    assert (found[2] - row_classes._FIRST[2]).tolist() == oracle.code(pc, lines)
    assert (found[3] - row_classes._FIRST[3]).tolist() == oracle.behind(kind, taken, wrong)
    assert (found[0] < row_classes._FIRST[1]).all()
    same = found[0][:, None] == found[0]
    op = np.where(trace["branch"][:n] != 0, 255, trace["op"][:n])
    assert same[op[:, None] == op].all()


@SLOW
@given(st.integers(0, 2**32), st.integers(2, 700), st.integers(1, 50), st.integers(20, 300))
def test_sums_over_classes(tmp_path_factory, seed, rows, window, block):
    trace = extract(tmp_path_factory.mktemp("t"), synthetic.text(seed, rows, blocks=False))
    random, told = np.random.default_rng(seed), max(1, len(trace) * 2 // 3)
    labels = random.integers(0, 9, (3, told)).astype(np.uint16)
    machines = [MACHINE, {**MACHINE, "width": 1}]
    x = np.concatenate([w.cycles for w in walk(trace, machines)])[:told].astype(float)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walk_module, "BLOCK", block)
        kept = ClassedRows(trace, labels, 9, window)
    ends = [(a, min(a + block, told)) for a in range(0, told, block)]
    at = np.concatenate([np.arange(a, b, window) for a, b in ends])
    windows, sums = kept.totals(machines, 2)
    assert windows == pytest.approx(np.add.reduceat(x, at))
    assert sums == pytest.approx(sum((k == np.arange(9)[:, None]) @ x for k in labels))
    one = kept.sums(x[:, 1])
    assert one[0] == pytest.approx(windows[:, 1]) and one[1] == pytest.approx(sums[:, 1])
