"""Which rows of two sequences are the same ones, where one has runs that the other lacks."""

from __future__ import annotations

import bisect
from typing import Final

import numpy as np
import numpy.typing as npt

U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]

_WINDOWS: Final = (256, 4096, 65536)
"""Rows within which the nearest common run is looked for."""
_LENGTHS: Final = (4096, 512, 64, 16, 4)
"""Of the runs that are looked for: the long ones first, the others in what is left between them.
Powers of two.  Rounds of a loop that takes few paths are told apart by long runs only.
"""
_MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)


def align(a: U64, b: U64) -> I64:
    """Blocks (first in ``a``, first in ``b``, length) of equal values, in order, none overlapping.

    Runs of values that occur once in each sequence tell what belongs together (the longest
    sequence of them that is in order in both, as in patience diff); a block then reaches as far as
    the values are equal.  So an extra round of a loop in one of the two shifts nothing behind it.
    """
    blocks = _between(np.ascontiguousarray(a), np.ascontiguousarray(b), 0, False, False)
    out = np.array(blocks, np.int64).reshape(-1, 3)
    return _joined(out)


def _between(a: U64, b: U64, level: int, before: bool, behind: bool) -> list[tuple[int, int, int]]:
    """``before``, ``behind``: whether what stands there belongs together.

    With nothing before them and something behind, one of the two may begin anywhere in a loop, and
    only counting from the end tells the round.  With nothing behind, either may end anywhere: equal
    ends tell nothing.
    """
    n = min(len(a), len(b))
    from_end = behind and not before
    back = _equal(a[::-1], b[::-1], n) if from_end else 0
    front = _equal(a, b, n - back)
    if behind and not from_end:
        back = _equal(a[front:][::-1], b[front:][::-1], n - front)
    inside = slice(front, len(a) - back), slice(front, len(b) - back)
    inner = _inner(a[inside[0]], b[inside[1]], level, before or front > 0, behind or back > 0)
    out = [(0, 0, front)] if front else []
    out += [(x + front, y + front, k) for x, y, k in inner]
    if back:
        out.append((len(a) - back, len(b) - back, back))
    return out


def _equal(a: U64, b: U64, limit: int) -> int:
    """Length of the common beginning, at most ``limit``."""
    at, step = 0, 64
    while at < limit:
        end = min(at + step, limit)
        differ = np.flatnonzero(a[at:end] != b[at:end])
        if len(differ):
            return at + int(differ[0])
        at, step = end, step * 4
    return limit


def _inner(a: U64, b: U64, level: int, before: bool, behind: bool) -> list[tuple[int, int, int]]:
    if not len(a) or not len(b):
        return []
    if level == len(_LENGTHS):
        if before or not behind:
            return _nearest(a, b)
        found = _nearest(np.ascontiguousarray(a[::-1]), np.ascontiguousarray(b[::-1]))
        return [(len(a) - x - n, len(b) - y - n, n) for x, y, n in reversed(found)]
    out: list[tuple[int, int, int]] = []
    at_a = at_b = 0
    for x, y in [*_anchors(a, b, _LENGTHS[level]), (len(a), len(b))]:
        if x < at_a or y < at_b:  # reached already
            continue
        known = before or at_a > 0 or at_b > 0, behind or x < len(a)
        gap = _between(a[at_a:x], b[at_b:y], level + 1, *known)
        out += [(i + at_a, j + at_b, k) for i, j, k in gap]
        n = _equal(a[x:], b[y:], min(len(a) - x, len(b) - y))
        if n:
            out.append((x, y, n))
        at_a, at_b = x + n, y + n
    return out


def _nearest(a: U64, b: U64) -> list[tuple[int, int, int]]:
    """Where no run is unique (a loop whose body differs): at each difference on to the nearest
    place, fewest rows left out, where a run is the same again."""
    out: list[tuple[int, int, int]] = []
    i = j = 0
    while True:
        for window in _WINDOWS:
            step = _next_run(a[i : i + window], b[j : j + window])
            if step is not None:
                break
        else:
            return out
        i, j = i + step[0], j + step[1]
        n = _equal(a[i:], b[j:], min(len(a) - i, len(b) - j))
        if n == 0:  # a collision of the hash
            return out
        out.append((i, j, n))
        i, j = i + n, j + n


def _next_run(a: U64, b: U64) -> tuple[int, int] | None:
    length = _LENGTHS[-1]
    if len(a) < length or len(b) < length:
        return None
    values_a, at_a = np.unique(_hashes(a, length), return_index=True)
    values_b, at_b = np.unique(_hashes(b, length), return_index=True)
    _, x, y = np.intersect1d(values_a, values_b, assume_unique=True, return_indices=True)
    if not len(x):
        return None
    best = int(np.argmin(at_a[x] + at_b[y]))
    return int(at_a[x[best]]), int(at_b[y[best]])


def _anchors(a: U64, b: U64, length: int) -> list[tuple[int, int]]:
    """Where runs of ``length`` values that are unique in both stand, in order in both."""
    if len(a) < length or len(b) < length:
        return []
    (values_a, at_a), (values_b, at_b) = _unique_runs(a, length), _unique_runs(b, length)
    _, i, j = np.intersect1d(values_a, values_b, assume_unique=True, return_indices=True)
    order = np.argsort(at_a[i])
    xs, ys = at_a[i][order].tolist(), at_b[j][order].tolist()
    # The longest increasing sequence of ys.
    ends: list[int] = []
    last: list[int] = []
    before = [-1] * len(ys)
    for k, y in enumerate(ys):
        place = bisect.bisect_left(ends, y)
        if place:
            before[k] = last[place - 1]
        if place == len(ends):
            ends.append(y)
            last.append(k)
        else:
            ends[place], last[place] = y, k
    chain: list[tuple[int, int]] = []
    k = last[-1] if last else -1
    while k >= 0:
        if a[xs[k]] == b[ys[k]]:  # no collision of the hash
            chain.append((xs[k], ys[k]))
        k = before[k]
    return chain[::-1]


def _unique_runs(values: U64, length: int) -> tuple[U64, I64]:
    """Hashes of the runs that occur once, and where; ascending hashes."""
    h = _hashes(values, length)
    found, first, times = np.unique(h, return_index=True, return_counts=True)
    once = times == 1
    return found[once], first[once].astype(np.int64)


def _hashes(values: U64, length: int) -> U64:
    """Of each run of that length."""
    with np.errstate(over="ignore"):
        h: U64 = values * _MULTIPLIER
        h ^= h >> np.uint64(29)
        power: np.uint64 = _MULTIPLIER
        n = 1
        while n < length:  # a run is two of half its length
            h = h[:-n] * power + h[n:]
            power, n = power * power, 2 * n
    return h


def _joined(blocks: I64) -> I64:
    """Blocks that go on where the one before ends, made one."""
    if len(blocks) < 2:
        return blocks
    ends = blocks[:-1, :2] + blocks[:-1, 2:]
    new = np.concatenate([[True], (blocks[1:, :2] != ends).any(axis=1)])
    starts = np.flatnonzero(new)
    return np.column_stack([blocks[starts, :2], np.add.reduceat(blocks[:, 2], starts)])
