"""Survivors of several kinds of memory."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracekit.calibration.niches import best_of_niches, niche

CORES = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from([0, 4096, 8192]), st.integers(0, 30)),
    min_size=1,
    max_size=60,
)


def slow(cores, errors, count, most) -> list[int]:
    """One after another, the best first; then those that were left out."""
    order = sorted(range(len(cores)), key=lambda i: (errors[i], i))
    chosen: list[int] = []
    for i in order:
        alike = [k for k in chosen if niche(cores[k]) == niche(cores[i])]
        if len(chosen) < count and len(alike) < most:
            chosen.append(i)
    for i in order:
        if len(chosen) < count and i not in chosen:
            chosen.append(i)
    return sorted(chosen, key=order.index)


@given(CORES, st.integers(1, 40), st.integers(1, 40))
def test_the_best_of_each_niche_survive(drawn, count, most):
    cores = [{"mem": m, "l3_kb": kb} for m, kb, _ in drawn]
    errors = np.array([float(e) for *_, e in drawn])
    assert best_of_niches(cores, errors, count, most) == slow(cores, errors.tolist(), count, most)


def test_a_kind_is_the_memory_and_whether_a_third_cache_is_there():
    one = {"mem": "DDR3_1600_8x8", "l3_kb": 4096, "rob": 64}
    assert niche(one) == niche({**one, "l3_kb": 16384, "rob": 32})
    assert niche(one) != niche({**one, "l3_kb": 0})
    assert niche(one) != niche({**one, "mem": "HBM_2000_4H_1x64"})
