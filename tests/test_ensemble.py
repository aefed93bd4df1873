"""Proposals of parameters from cores that were judged."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tracekit.calibration.ensemble import Ensemble

VALUES = {"a": (1, 2, 4, 8, 16, 32), "b": tuple(range(20)), "kind": ("x", "y", "z")}
WANTED = {"a": 8, "b": 14, "kind": "y"}


def deviations(core, r) -> np.ndarray:
    """Numbers that the parameters move, in units of what a good core is off by."""
    far = [VALUES[k].index(core[k]) - VALUES[k].index(WANTED[k]) for k in ("a", "b")]
    named = 3.0 * (core["kind"] != WANTED["kind"])
    mixed = [far[0] * 2 + far[1] / 2, far[0] - far[1], far[1] * 1.5, named, named - far[0]]
    return np.array(mixed) + r.normal(0, 0.2, 5)


@settings(max_examples=30)
@given(st.integers(0, 2**32), st.integers(40, 200))
def test_proposals_are_nearer_than_what_they_come_from(seed, n):
    r = np.random.default_rng(seed)
    cores = [
        {"a": int(r.choice(VALUES["a"])), "b": int(r.integers(20)), "kind": "xz"[r.integers(2)]}
        for _ in range(n)
    ]
    cores = [{**c, "other": 5} for c in cores]
    cores[0]["kind"] = cores[1]["kind"] = "y"
    gaps = np.stack([deviations(c, r) for c in cores])
    ensemble = Ensemble(VALUES)
    ensemble.add(cores[: n // 2], (gaps[: n // 2] ** 2).sum(axis=1), gaps[: n // 2])
    ensemble.add(cores[n // 2 :], (gaps[n // 2 :] ** 2).sum(axis=1), gaps[n // 2 :])
    found = ensemble.proposals(60, n, np.random.default_rng(seed))
    assert len(found) == 60
    assert all(c[k] in v for c in found for k, v in VALUES.items())
    assert all(c["other"] == 5 for c in found)
    off = [abs(c["b"] - WANTED["b"]) for c in found]
    assert np.mean(off) < np.mean([abs(c["b"] - WANTED["b"]) for c in cores])
    assert found == ensemble.proposals(60, n, np.random.default_rng(seed))


def test_one_core_proposes_itself():
    ensemble = Ensemble(VALUES)
    core = {"a": 2, "b": 3, "kind": "z"}
    ensemble.add([core], np.ones(1), np.full((1, 4), 9.0))
    assert ensemble.proposals(3, 5, np.random.default_rng(0)) == [core] * 3
