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
from tracekit.evaluation.intervals import judged_intervals
from tracekit.evaluation.program_totals import totals_of
from tracekit.evaluation.several_workers import evaluated, evaluated_by
from tracekit.mixture.fit import Sums
from tracekit.mixture.model import FEATURE_SET, load_model
from tracekit.model import Card, load_card
from tracekit.prediction import predict
from tracekit.prediction.intervals import Intervals, model_intervals
from tracekit.sim import SamplePlan
from tracekit.sim.clock import period
from tracekit.sim.spread import Spread

__all__ = ["evaluate_model"]

F64 = npt.NDArray[np.float64]


def evaluate_model(
    folder: str | Path,
    manifest: Manifest,
    rows: int | None = None,
    threads: int | None = None,
    spread: Spread | None = None,
    samples: SamplePlan | None = None,
) -> dict[str, Any]:
    """``unseen`` and ``seen`` (None where there is none): summaries over the programs whose family
    no program of the model's training has, and over those that it was trained on; each with
    ``intervals`` (None where the model has no residuals) and ``warnings`` (program -> sentences
    that belong in front of the figures).

    ``rows``: only the first of each program; ``spread``: who does the programs, this process unless
    given; ``samples``: of which rows a mixture's predictions are made, all unless given.  Raises
    `UsageError` for samples of a network, of the first rows, or with ``spread``.
    """
    card = load_card(folder)
    if samples is not None and card.feature_set != FEATURE_SET:
        raise UsageError("a network predicts all rows, not samples", path=str(folder))
    if samples is not None and (rows is not None or spread is not None):
        raise UsageError("samples are of all rows, and this process takes them")
    names = _names(card)
    trained = {
        p["name"] if isinstance(p, dict) else str(p) for p in card.training.get("programs", [])
    }
    families = {p.family for p in manifest.programs if p.name in trained}
    parts = {
        "unseen": [p for p in manifest.programs if p.family not in families],
        "seen": [p for p in manifest.programs if p.name in trained],
    }
    periods = np.array([period(manifest.machines.get(m, {})) for m in names])
    scale = np.ones(len(names))
    if card.feature_set != FEATURE_SET and card.unit == "0.1ns":
        scale = 1e-10 / periods
    out: dict[str, Any] = {"model": str(folder), "preset": card.preset, "rows": rows}
    for kind, programs in parts.items():
        if not programs:
            out[kind] = None
            continue
        clocks = np.where(np.isfinite(periods), periods, 1.0)
        if samples is not None:
            cycles, true, intervals = _sampled(folder, programs, samples, threads)
        else:
            found, true = _all(folder, programs, rows, threads, spread)
            cycles = np.stack(found) * scale
            of_cores = card.feature_set == FEATURE_SET
            intervals = _intervals(folder, programs, cycles) if of_cores else [None]
        own, total = [p.name for p in programs], np.stack([t.y.sum(axis=0) for t in true])
        judged = judged_intervals(own, names, clocks, cycles, total, intervals)
        told = {
            name: list(i.warnings) if i is not None else []
            for name, i in zip(own, intervals, strict=False)
        }
        summary = summarise(true, cycles, clocks, names)
        out[kind] = {
            **summary,
            "intervals": judged,
            "warnings": {n: w for n, w in told.items() if w},
        }
    return out


def _sampled(
    folder: str | Path, programs: Sequence[Program], samples: SamplePlan, threads: int | None
) -> tuple[F64, list[Sums], list[Intervals | None]]:
    """What a mixture predicts of samples of each program, float64 [programs, machines], and the
    truth of all rows."""
    model = load_model(folder)
    found, true = [], []
    for p in programs:
        with p.open() as data:
            at = [data.column_of(m) for m in model.names]
            y = data.sums(np.array([0, len(data)]))[:, at]
            true.append(Sums(p.name, p.family, len(data), y, y))
            found.append(
                predict(data.trace, model, own_machine=False, samples=samples, threads=threads)
            )
    return np.stack([r.cycles for r in found]), true, [r.intervals for r in found]


def _intervals(
    folder: str | Path, programs: Sequence[Program], cycles: F64
) -> list[Intervals | None]:
    """Of a mixture's ``cycles`` of whole programs, float64 [programs, machines]."""
    model = load_model(folder)
    out = []
    for p, own in zip(programs, cycles, strict=True):
        with p.open() as data:
            out.append(model_intervals(model, data.trace, own))
    return out


def _names(card: Card) -> list[str]:
    return [str(m.get("name")) for m in card.microarchitectures]


def _all(
    folder: str | Path,
    programs: Sequence[Program],
    rows: int | None,
    threads: int | None,
    spread: Spread | None,
) -> tuple[list[F64], list[Sums]]:
    if spread is None:
        model = totals_of(folder, threads)
        each = [evaluated(model, p, rows) for p in programs]
    else:
        each = evaluated_by(spread, folder, programs, rows, threads)
    true = [Sums(p.name, p.family, n, y, y) for p, (_, y, n) in zip(programs, each, strict=True)]
    return [found for found, _, _ in each], true
