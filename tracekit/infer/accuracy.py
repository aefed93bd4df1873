"""The accuracy table of the number formats: what bf16 and int8 change."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.infer.engine import load
from tracekit.infer.quantize import INT8
from tracekit.model import load_card

__all__ = ["accuracy"]

Array = NDArray[Any]


def accuracy(
    folder: str | Path,
    blocks: Sequence[Array],
    targets: Sequence[Array | None] | None = None,
    head: str | None = None,
) -> list[dict[str, Any]]:
    """One entry a format that the folder has, over traces given as raw features, one block each.

    Against f32: ``total_moves`` is the largest change of a trace's total, ``total_moves_all`` that
    of the sum of traces (fractions), ``largest_error`` that of one prediction, ``rounds_alike`` the
    share of predictions that round to the same number.  With targets (the head's unit, one value a
    row; None for a trace without), ``acc_round`` and ``mae`` are against the truth, for heads with
    one output.
    """
    card = load_card(folder)
    formats = ["f32", "bf16"] + (["int8"] if INT8 in card.files else [])
    truth = list(targets) if targets is not None else [None] * len(blocks)
    found = {
        name: [load(folder, name).predict(block, head) for block in blocks] for name in formats
    }
    exact = found["f32"]
    sums = np.array([p.sum(axis=0, dtype=np.float64) for p in exact])
    out = []
    for name in formats:
        mine = np.array([p.sum(axis=0, dtype=np.float64) for p in found[name]])
        safe = np.where(sums == 0, 1, sums)
        whole = sums.sum(axis=0)
        row: dict[str, Any] = {
            "dtype": name,
            "total_moves": float(np.abs((mine - sums) / safe).max()),
            "total_moves_all": float(
                np.abs((mine.sum(axis=0) - whole) / np.where(whole == 0, 1, whole)).max()
            ),
            "largest_error": max(
                (
                    float(np.abs(a - b).max())
                    for a, b in zip(found[name], exact, strict=True)
                    if len(a)
                ),
                default=0.0,
            ),
            "rounds_alike": float(
                np.mean(
                    np.concatenate(
                        [np.rint(a) == np.rint(b) for a, b in zip(found[name], exact, strict=True)]
                    )
                )
            ),
        }
        pairs = [(p[:, 0], t) for p, t in zip(found[name], truth, strict=True) if t is not None]
        if pairs and exact[0].shape[1] == 1:
            error = np.concatenate([np.asarray(t, np.float64) - p for p, t in pairs])
            alike = np.concatenate([np.rint(p) == np.rint(t) for p, t in pairs])
            row["acc_round"], row["mae"] = float(alike.mean()), float(np.abs(error).mean())
        out.append(row)
    return out
