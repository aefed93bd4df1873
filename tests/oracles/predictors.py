"""Branch predictors by dictionaries: (pc, taken) in, what was predicted out."""

from __future__ import annotations

from collections import defaultdict


def local(branches):
    """Two-bit counters, weakly untaken at first."""
    counter, out = defaultdict(lambda: 1), []
    for pc, taken in branches:
        k = pc // 4 % 2048
        out.append(counter[k] >= 2)
        counter[k] = min(3, counter[k] + 1) if taken else max(0, counter[k] - 1)
    return out


def bimode(branches):
    """A choice by pc between two tables by pc and global history."""
    tables, path, out = [defaultdict(int) for _ in range(3)], 0, []
    step = lambda c, up: min(3, c + 1) if up else max(0, c - 1)  # noqa: E731
    for pc, taken in branches:
        k, g = pc // 4 % 8192, (pc // 4 ^ path) % 8192
        mostly = tables[0][k] >= 2
        used = tables[1 + mostly]
        out.append(used[g] >= 2)
        used[g] = step(used[g], taken)
        if mostly == taken or out[-1] != taken:
            tables[0][k] = step(tables[0][k], taken)
        path = (path * 2 + taken) % 8192
    return out
