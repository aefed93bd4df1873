"""Miss ratio curves against simulated caches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracekit
from tracekit import mrc
from tracekit.errors import UsageError


def lru_misses(lines: list[int], size: int) -> int:
    cache: list[int] = []
    misses = 0
    for line in lines:
        if line in cache:
            cache.remove(line)
        else:
            misses += 1
        cache.append(line)
        del cache[:-size]
    return misses


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 12), max_size=120))
def test_against_simulated_caches(lines: list[int]) -> None:
    curve = tracekit.miss_ratio_curve(tracekit.stack_distance(lines))
    assert curve.accesses == len(lines)
    for size in range(1, 16):
        want = lru_misses(lines, size) / max(len(lines), 1)
        assert curve.at(size) == pytest.approx(want)
    sizes = [1, 3, 8]
    given_sizes = tracekit.miss_ratio_curve(tracekit.stack_distance(lines), sizes)
    assert given_sizes.ratios.tolist() == [float(curve.at(s)) for s in sizes]
    assert curve.at(0) == 1


def test_zeros_are_no_accesses_and_the_cap_is_a_miss() -> None:
    curve = mrc.miss_ratio_curve(np.array([0, 1, 0, 2, mrc.NEVER, 2**32 - 1], np.uint32))
    assert (curve.accesses, curve.cold) == (4, 0.5)
    assert curve.lines.tolist() == [1, 2]
    assert curve.ratios.tolist() == [0.75, 0.5]


def test_no_accesses() -> None:
    curve = mrc.miss_ratio_curve(np.zeros(3, np.uint32))
    assert (curve.accesses, curve.cold, curve.lines.tolist()) == (0, 0.0, [1])


@pytest.mark.parametrize("sizes", [[0], [2, 1], [1, 1], [[1]]])
def test_bad_sizes(sizes: list[int]) -> None:
    with pytest.raises(UsageError):
        mrc.miss_ratio_curve([1], sizes)


def test_bad_distances() -> None:
    for bad in ([[1]], [0.5], [-1]):
        with pytest.raises(UsageError):
            mrc.miss_ratio_curve(bad)


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_plot(tmp_path, suffix: str) -> None:  # type: ignore[no-untyped-def]
    pytest.importorskip("matplotlib")
    path = tmp_path / f"curve.{suffix}"
    mrc.plot({"data": mrc.miss_ratio_curve([1, 2, 5, mrc.NEVER])}, path)
    assert path.read_bytes()[:4] in (b"\x89PNG", b"<?xm")
    with pytest.raises(UsageError):
        mrc.plot({}, tmp_path / "curve.bmp")


def test_size_names() -> None:
    assert [mrc.size_name(s) for s in (64, 1024, 98304, 1 << 20)] == [
        "64 B",
        "1 KiB",
        "96 KiB",
        "1 MiB",
    ]
