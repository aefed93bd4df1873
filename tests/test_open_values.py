"""Values that traces leave open of a core's parameters."""

from __future__ import annotations

import numpy as np
import pytest

from tracekit.calibration.open_values import OpenValues

VALUES = {"lat": (1, 2, 3, 4, 6), "bp": ("A", "B", "C")}
CORE = {"lat": 3, "bp": "B", "kept": 7}


def left(rises, tolerated=2.0, designs=()):
    return OpenValues(VALUES, designs, CORE, rises, tolerated)


def test_weights_fall_with_the_objective():
    found = left({("lat", 2): 2.0, ("lat", 4): 4.0, ("bp", "A"): 6.0, ("bp", "C"): 0.0})
    e = np.exp(-1.0)
    # 1 and 6 were not tried: like 2 and 4, the last ones that were.
    want = np.array([e, e, 1, e**2, e**2])
    assert found.weights("lat") == pytest.approx(want / want.sum())
    want = np.array([e**3, 1, 1])
    assert found.weights("bp") == pytest.approx(want / want.sum())


def test_weights_are_those_of_the_designs_where_nothing_was_tried():
    designs = [{"lat": 6, "bp": "A"}, {"lat": 6, "bp": "C"}, {"lat": 1, "bp": "C"}]
    found = left({}, designs=designs)
    assert found.weights("lat") == pytest.approx(np.array([1.5, 0.5, 0.5, 0.5, 2.5]) / 5.5)
    assert found.weights("bp") == pytest.approx(np.array([1.5, 0.5, 2.5]) / 4.5)


def test_parameters_are_drawn_by_their_weights():
    found = left({("lat", 2): 1.0, ("lat", 4): 1.0, ("bp", "A"): 500.0, ("bp", "C"): 0.5})
    random = np.random.default_rng(0)
    samples = [found.sampled(CORE, 1.0, random) for _ in range(4000)]
    for key, known in VALUES.items():
        often = np.array([sum(d[key] == v for d in samples) for v in known]) / len(samples)
        assert often == pytest.approx(found.weights(key), abs=0.03)
    assert all(d["kept"] == 7 and d["bp"] != "A" for d in samples)
    assert all(found.sampled(CORE, 0.0, random) == CORE for _ in range(10))
    moved = [found.sampled(CORE, 0.25, random) != CORE for _ in range(2000)]
    assert 0.1 < np.mean(moved) < 0.3
