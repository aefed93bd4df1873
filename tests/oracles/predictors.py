"""Branch predictors by dictionaries: (pc, conditional, taken, committed) in, predictions out.
``committed``: how many branches have taught their outcome before this one is fetched."""

from __future__ import annotations

from collections import defaultdict


def step(counter, up):
    return min(3, counter + 1) if up else max(0, counter - 1)


def delayed(branches, predict):
    """``predict(pc, conditional, taken)`` gives the prediction and what to do at commit."""
    out, later = [], []
    for pc, conditional, taken, committed in branches:
        while later and len(out) - len(later) < committed:
            later.pop(0)()
        said, commit = predict(pc, conditional, taken)
        out.append(said or not conditional)
        later.append(commit)
    return out


def local(branches):
    counter = defaultdict(int)

    def predict(pc, conditional, taken):
        def commit():
            counter[pc // 4 % 1024] = step(counter[pc // 4 % 1024], taken)

        return counter[pc // 4 % 1024] >= 2, commit

    return delayed(branches, predict)


def tournament(branches):
    of_pc, counters, path = defaultdict(int), defaultdict(int), 0

    def predict(pc, conditional, taken):
        nonlocal path
        a, g, c = ("local", of_pc[pc // 4 % 2048]), ("global", path), ("choice", path)
        said = [counters[a] >= 2, counters[g] >= 2]
        used = said[counters[c] >= 2]

        def commit():
            if conditional and said[0] != said[1]:
                counters[c] = step(counters[c], said[1] == taken)
            for k in (a, g) if conditional else (g,):
                counters[k] = step(counters[k], taken)

        if conditional:
            of_pc[pc // 4 % 2048] = (2 * a[1] + taken) % 2048
        path = (2 * path + taken) % 8192
        return used, commit

    return delayed(branches, predict)


def bimode(branches):
    tables, path = defaultdict(int), 0

    def predict(pc, conditional, taken):
        nonlocal path
        choice, at = ("choice", pc // 4 % 8192), (pc // 4 ^ path) % 8192
        mostly = tables[choice] >= 2 or not conditional
        said = tables[mostly, at] >= 2 or not conditional

        def commit():
            tables[mostly, at] = step(tables[mostly, at], taken)
            if mostly == taken or said != taken:
                tables[choice] = step(tables[choice], taken)

        path = (2 * path + taken) % 8192
        return said, commit

    return delayed(branches, predict)
