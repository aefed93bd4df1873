"""Objectives foretold from cores that were judged."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tracekit.calibration.surrogate import Surrogate
from tracekit.sim.memories import MEMORIES, memory_cycles

VALUES = {
    "rob": (16, 32, 64, 128, 256),
    "lat": tuple(range(1, 9)),
    "bp": ("x", "y", "z"),
    "clock_ghz": (1.0, 2.0, 3.0),
    "mem": tuple(sorted(MEMORIES)),
}


def loss(gaps) -> np.ndarray:
    return (gaps**2).sum(axis=1) / 2


def judged(cores) -> tuple[np.ndarray, np.ndarray]:
    """Objectives and deviations that depend on parameters, on the memory by its cycles, and on
    ``lat`` in what no deviation tells."""
    rows = []
    for c in cores:
        slow = memory_cycles(c["mem"], c["clock_ghz"])["memory_cas"] / 20
        rob, lat = np.log2(c["rob"]) - 6, c["lat"] / 4
        rows.append([slow - 1.5, rob * 0.7 - lat, (c["bp"] == "y") * 1.5 - slow])
    gaps = np.array(rows)
    return loss(gaps) + np.array([abs(c["lat"] - 3) / 2 for c in cores]), gaps


def some(count, r) -> list[dict]:
    return [{k: v[int(r.integers(len(v)))] for k, v in VALUES.items()} for _ in range(count)]


@settings(max_examples=15)
@given(st.integers(0, 2**32), st.integers(120, 300))
def test_foretold_objectives_are_near_the_judged_ones(seed, n):
    r = np.random.default_rng(seed)
    known, asked = some(n, r), some(60, r)
    surrogate = Surrogate(VALUES, loss)
    for part in (known[: n // 2], known[n // 2 :]):
        surrogate.add(part, *judged(part))
    true, _ = judged(asked)
    found = surrogate.foretold(asked)
    assert np.abs(found - true).mean() < 0.35 * np.abs(true - true.mean()).mean()
    # What it knows it tells almost as it is.
    assert np.abs(surrogate.foretold(known) - judged(known)[0]).mean() < 0.1


def test_deviations_are_bounded_and_one_core_is_enough():
    core = some(1, np.random.default_rng(0))
    surrogate = Surrogate(VALUES, loss)
    surrogate.add(core, np.array([500.0]), np.array([[1e9, 0.0]]))
    assert surrogate.foretold(core) == np.array([500.0])
