"""A/B tests of designs by single instructions (NeuroScalar, section 6.3): which of two retires an
instruction in fewer cycles, which of all is the best, and how whole programs rank."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.evaluation.ranks import kendall

__all__ = ["DIFFERENCES", "Counts", "by_difference", "count", "merge", "predictions", "report"]

#: Differences of two machines' totals above which ``by_difference`` counts pairs, as a share.
DIFFERENCES = (0.0, 0.003, 0.01, 0.03)
Array = npt.NDArray[Any]
I64 = npt.NDArray[np.int64]


@dataclass
class Counts:
    """What comparisons add up over rows; pairs are in the order of itertools.combinations.

    ``signs`` [pairs, 3, 3]: rows by the sign of the true difference and that of the predicted one
    (-1, 0, 1), both rounded to whole cycles.  ``strict`` [pairs, 2, 3]: rows whose true difference
    is not 0 by its sign (-1, 1) and that of the predicted expected values.  ``best`` [machines]:
    rows on which a machine is among the fastest; ``hits``: rows on which the predicted one is;
    ``full``: rows with all signs right.  ``true``, ``found`` [machines]: cycles.
    """

    machines: tuple[str, ...]
    rows: int = 0
    signs: I64 = field(default_factory=lambda: np.zeros((0, 3, 3), np.int64))
    strict: I64 = field(default_factory=lambda: np.zeros((0, 2, 3), np.int64))
    best: I64 = field(default_factory=lambda: np.zeros(0, np.int64))
    hits: int = 0
    full: int = 0
    true: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    found: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))


def count(machines: Sequence[str], cycles: Array, mean: Array, truth: Array) -> Counts:
    """Comparisons of rows: ``cycles`` and ``mean`` are predictions, [rows, machines] each.

    The best machine is the one with the fewest rounded cycles, of several the one with the smallest
    expected value.
    """
    n, m = truth.shape
    whole = np.rint(cycles)
    pairs = list(itertools.combinations(range(m), 2))
    signs = np.zeros((len(pairs), 3, 3), np.int64)
    strict = np.zeros((len(pairs), 2, 3), np.int64)
    right = np.ones(n, bool)
    for k, (a, b) in enumerate(pairs):
        t = np.sign(truth[:, a] - truth[:, b]).astype(np.int64)
        p = np.sign(whole[:, a] - whole[:, b]).astype(np.int64)
        e = np.sign(mean[:, a] - mean[:, b]).astype(np.int64)
        signs[k] = np.bincount(3 * (t + 1) + p + 1, minlength=9).reshape(3, 3)
        all_signs = np.bincount(3 * (t + 1) + e + 1, minlength=9).reshape(3, 3)
        strict[k] = all_signs[[0, 2]]
        right &= t == p
    low = truth == truth.min(axis=1, keepdims=True) if n else np.zeros((0, m), bool)
    near = np.where(whole == whole.min(axis=1, keepdims=True), mean, np.inf) if n else mean
    pick = near.argmin(axis=1) if n else np.zeros(0, np.int64)
    return Counts(
        tuple(machines),
        n,
        signs,
        strict,
        low.sum(axis=0),
        int(low[np.arange(n), pick].sum()),
        int(right.sum()),
        truth.sum(axis=0, dtype=np.float64),
        mean.sum(axis=0, dtype=np.float64),
    )


def merge(parts: Sequence[Counts]) -> Counts:
    """The rows of all parts together."""
    first = parts[0]
    return Counts(
        first.machines,
        sum(p.rows for p in parts),
        np.sum([p.signs for p in parts], axis=0),
        np.sum([p.strict for p in parts], axis=0),
        np.sum([p.best for p in parts], axis=0),
        sum(p.hits for p in parts),
        sum(p.full for p in parts),
        np.sum([p.true for p in parts], axis=0),
        np.sum([p.found for p in parts], axis=0),
    )


def report(c: Counts, without: Sequence[tuple[str, str]] = ()) -> dict[str, Any]:
    """Shares from counts.

    ``pairs``: for each pair the share of rows that differ, ``match`` (signs with ties) and
    ``strict`` (of the rows that differ), each with the ``majority`` answer's share.  ``pooled``:
    over all pairs but those of ``without``; the majority answers each pair for itself.
    ``kendall``: mean over rows and pairs of 1 for equal signs, -1 for opposite ones, 0 where one
    side alone is tied.  ``best``: rows on which the machine chosen is among the fastest;
    ``best_constant``: the same of the best constant answer.  ``program_kendall``: tau-b of the
    machines by total cycles.
    """
    names = list(itertools.combinations(c.machines, 2))
    left_out = {frozenset(w) for w in without}
    pairs = []
    for (a, b), signs, strict in zip(names, c.signs, c.strict, strict=True):
        rows, differ = int(signs.sum()), int(strict.sum())
        pairs.append(
            {
                "pair": [a, b],
                "rows": rows,
                "differ": differ / max(rows, 1),
                "match": int(np.trace(signs)) / max(rows, 1),
                "match_majority": int(signs.sum(axis=1).max()) / max(rows, 1),
                "strict": int(strict[0, 0] + strict[1, 2]) / max(differ, 1),
                "strict_majority": int(strict.sum(axis=1).max()) / max(differ, 1),
            }
        )
    use = [k for k, pair in enumerate(names) if frozenset(pair) not in left_out]
    signs, strict = c.signs[use], c.strict[use]
    rows, differ = int(signs.sum()), int(strict.sum())
    every = max(int(c.signs.sum()), 1)
    opposite = int(c.signs[:, 0, 2].sum() + c.signs[:, 2, 0].sum())
    equal = int(np.trace(c.signs, axis1=1, axis2=2).sum())
    n = max(c.rows, 1)
    return {
        "rows": c.rows,
        "machines": list(c.machines),
        "pairs": pairs,
        "pooled": {
            "without": [list(w) for w in without],
            "match": int(np.trace(signs, axis1=1, axis2=2).sum()) / max(rows, 1),
            "match_majority": int(signs.sum(axis=2).max(axis=1).sum()) / max(rows, 1),
            "strict": int(strict[:, 0, 0].sum() + strict[:, 1, 2].sum()) / max(differ, 1),
            "strict_majority": int(strict.sum(axis=2).max(axis=1).sum()) / max(differ, 1),
        },
        "kendall": (equal - opposite) / every,
        "full": c.full / n,
        "best": c.hits / n,
        "best_constant": int(c.best.max(initial=0)) / n,
        "best_constant_machine": c.machines[int(c.best.argmax())] if c.rows else None,
        "cycles": dict(zip(c.machines, c.true.tolist(), strict=True)),
        "predicted": dict(zip(c.machines, c.found.tolist(), strict=True)),
        "program_kendall": kendall(c.true, c.found),
    }


def by_difference(counts: Sequence[Counts]) -> list[dict[str, float]]:
    """How the order of two machines by a program's total time is met, over pairs whose true totals
    are more than ``above`` of the pair's mean apart: ``share`` of all pairs, and ``kendall``, 1 for
    pairs in the right order and -1 for the others, averaged."""
    gaps, hits = [], []
    for c in counts:
        for i, j in itertools.combinations(range(len(c.machines)), 2):
            true, found = c.true[i] - c.true[j], c.found[i] - c.found[j]
            gaps.append(2 * abs(true) / max(c.true[i] + c.true[j], 1))
            hits.append(np.sign(true) * np.sign(found))
    gap, hit = np.array(gaps), np.array(hits)
    out = []
    for above in DIFFERENCES:
        use = gap > above
        tau = float(hit[use].mean()) if use.any() else float("nan")
        out.append({"above": above, "share": float(use.mean()), "kendall": tau})
    return out


def predictions(machines: Sequence[str], cycles: Array, mean: Array) -> dict[str, Any]:
    """What predictions alone say: cycles by machine, their ranking, for each pair the shares of
    instructions with fewer, equal and more cycles on its first machine, and each machine's share of
    instructions on which none is faster."""
    whole, n = np.rint(cycles), max(len(cycles), 1)
    totals = mean.sum(axis=0, dtype=np.float64)
    pairs = []
    for a, b in itertools.combinations(range(len(machines)), 2):
        sign = np.sign(whole[:, a] - whole[:, b])
        shares = {
            k: float((sign == s).sum() / n) for k, s in (("fewer", -1), ("equal", 0), ("more", 1))
        }
        pairs.append({"pair": [machines[a], machines[b]], **shares})
    low = whole == whole.min(axis=1, keepdims=True) if len(whole) else whole.astype(bool)
    return {
        "rows": len(cycles),
        "cycles": dict(zip(machines, totals.tolist(), strict=True)),
        "ranking": [machines[k] for k in np.argsort(totals, kind="stable")],
        "pairs": pairs,
        "best": dict(zip(machines, (low.sum(axis=0) / n).tolist(), strict=True)),
    }
