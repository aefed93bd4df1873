"""Errors of a trained model folder, of whichever preset, on the programs that it has not seen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.dataset import Manifest, Program
from tracekit.errors import UsageError
from tracekit.evaluation.cross_validation import summarise
from tracekit.extras import install_command
from tracekit.mixture.fit import Sums
from tracekit.mixture.model import FEATURE_SET, load_model
from tracekit.model import Card, load_card
from tracekit.sim.clock import period

__all__ = ["evaluate_model"]

F64 = npt.NDArray[np.float64]


def evaluate_model(
    folder: str | Path,
    manifest: Manifest,
    rows: int | None = None,
    threads: int | None = None,
) -> dict[str, Any]:
    """``unseen`` and ``seen`` (None where there is none): summaries over the programs whose family
    no program of the model's training has, and over those that it was trained on."""
    card = load_card(folder)
    names = [str(m.get("name")) for m in card.microarchitectures]
    trained = {
        p["name"] if isinstance(p, dict) else str(p) for p in card.training.get("programs", [])
    }
    families = {p.family for p in manifest.programs if p.name in trained}
    parts = {
        "unseen": [p for p in manifest.programs if p.family not in families],
        "seen": [p for p in manifest.programs if p.name in trained],
    }
    cycles = _of_cores if card.feature_set == FEATURE_SET else _of_network
    periods = np.array([period(manifest.machines.get(m, {})) for m in names])
    out: dict[str, Any] = {"model": str(folder), "preset": card.preset, "rows": rows}
    for kind, programs in parts.items():
        if not programs:
            out[kind] = None
            continue
        found, true = cycles(folder, card, programs, rows, threads, names, periods)
        out[kind] = summarise(true, found, np.where(np.isfinite(periods), periods, 1.0), names)
    return out


def _true(p: Program, names: Sequence[str], rows: int | None) -> Sums:
    with p.open() as data:
        n = min(len(data), rows or len(data))
        at = [data.column_of(m) for m in names]
        y = data.sums(np.array([0, n]))[:, at]
    return Sums(p.name, p.family, n, y, y)


def _of_cores(
    folder: str | Path,
    _: Card,
    programs: Sequence[Program],
    rows: int | None,
    threads: int | None,
    names: Sequence[str],
    __: F64,
) -> tuple[F64, list[Sums]]:
    model = load_model(folder)
    true = [_true(p, names, rows) for p in programs]
    found = []
    for p, t in zip(programs, true, strict=True):
        with p.open() as data:
            sums = model.represent(data.trace, np.array([0, t.rows]), threads)
        found.append(model.cycles(sums)[0])
    return np.stack(found), true


def _of_network(
    folder: str | Path,
    card: Card,
    programs: Sequence[Program],
    rows: int | None,
    threads: int | None,
    names: Sequence[str],
    periods: F64,
) -> tuple[F64, list[Sums]]:
    try:
        from tracekit import infer
    except ModuleNotFoundError:
        raise UsageError("a network needs numba to be run", hint=install_command("infer")) from None
    if card.unit not in ("cycles", "0.1ns"):
        raise UsageError(f"the model counts in {card.unit!r}", path=str(folder))
    engine = infer.load(folder, dtype="f32", threads=threads)
    true = [_true(p, names, rows) for p in programs]
    found = []
    for p, t in zip(programs, true, strict=True):
        with p.open() as data:
            x = data.features(card.feature_set, (0, t.rows))
            found.append(engine.totals(x, [0, t.rows])[0])
    scale = 1e-10 / periods if card.unit == "0.1ns" else np.ones(len(names))
    return np.stack(found) * scale, true
