"""The accuracy table of the number formats: what bf16 and int8 change, with and without the
corrections of biases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.infer.engine import Engine
from tracekit.infer.loading import load
from tracekit.infer.quantization import CORRECTIONS, INT8
from tracekit.model import load_card

__all__ = ["accuracy"]

Array = NDArray[Any]


def accuracy(
    folder: str | Path,
    blocks: Sequence[Array],
    targets: Sequence[Array | None] | None = None,
    head: str | None = None,
    mean: Callable[[Array], Array] | None = None,
) -> list[dict[str, Any]]:
    """One entry for float32, then for each narrow format one without and, where the folder has
    them, one with corrections; over traces given as raw features, one block each.

    Against f32: ``total_moves`` is the largest change of a trace's total, ``total_moves_mean`` and
    ``total_moves_median`` those of the mean and of the median trace, ``total_moves_all`` that of
    the sum of traces; fractions, of a head with several outputs the changes of all over their
    totals, for one of these may be near 0.  ``largest_error`` is that of one prediction,
    ``rounds_alike`` the share of predictions that round to the same number.  Totals are of the
    head's predictions, or of what ``mean`` makes of them.  With targets (the head's unit, one value
    a row; None for a trace without), ``acc_round`` and ``mae`` are against the truth, for heads
    with one output.
    """
    card = load_card(folder)
    narrow = ["bf16"] + (["int8"] if INT8 in card.files else [])
    cases = [("f32", False), *((n, False) for n in narrow)]
    if CORRECTIONS in card.files:
        cases += [(n, True) for n in narrow]
    truth = list(targets) if targets is not None else [None] * len(blocks)
    exact: list[Array] = []
    sums = np.zeros(0)
    out = []
    for name, corrected in sorted(cases, key=lambda c: ("f32", *narrow).index(c[0])):
        engine = load(folder, name, corrected=corrected)
        found = [engine.predict(block, head) for block in blocks]
        exact = exact or found
        mine = _totals(engine, blocks, found, head, mean)
        sums = sums if len(sums) else mine
        whole = sums.sum(axis=0)
        size = np.abs(sums).sum(axis=1)
        moves = np.abs(mine - sums).sum(axis=1) / np.where(size == 0, 1, size)
        alike = [np.rint(a) == np.rint(b) for a, b in zip(found, exact, strict=True)]
        row: dict[str, Any] = {
            "dtype": name,
            "corrected": corrected,
            "total_moves": float(moves.max()),
            "total_moves_mean": float(moves.mean()),
            "total_moves_median": float(np.median(moves)),
            "total_moves_all": float(
                np.abs((mine.sum(axis=0) - whole) / np.where(whole == 0, 1, whole)).max()
            ),
            "largest_error": max(
                (float(np.abs(a - b).max()) for a, b in zip(found, exact, strict=True) if len(a)),
                default=0.0,
            ),
            "rounds_alike": float(np.mean(np.concatenate(alike))),
        }
        pairs = [(p[:, 0], t) for p, t in zip(found, truth, strict=True) if t is not None]
        if pairs and exact[0].shape[1] == 1:
            error = np.concatenate([np.asarray(t, np.float64) - p for p, t in pairs])
            hits = np.concatenate([np.rint(p) == np.rint(t) for p, t in pairs])
            row["acc_round"], row["mae"] = float(hits.mean()), float(np.abs(error).mean())
        out.append(row)
    return out


def _totals(
    engine: Engine,
    blocks: Sequence[Array],
    found: Sequence[Array],
    head: str | None,
    mean: Callable[[Array], Array] | None,
) -> Array:
    """Totals of traces, [traces, outputs], as the engine's users get them."""
    if mean is not None:
        return np.array([mean(p).sum(axis=0, dtype=np.float64) for p in found])
    if engine.spec.head(head).compositional:
        return np.array([engine.totals(b, [0, len(b)], head)[0] for b in blocks])
    return np.array([p.sum(axis=0, dtype=np.float64) for p in found])
