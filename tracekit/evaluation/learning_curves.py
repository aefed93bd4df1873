"""Learning curves: what more instructions and more machines are worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.evaluation.unseen_families import STRENGTH, unseen_error
from tracekit.mixture.family_folds import folds
from tracekit.mixture.fit import Sums, fit_row, mixture_row, with_columns

__all__ = ["over_instructions", "over_machines"]

F64 = npt.NDArray[np.float64]
#: Sets of machines that are drawn for each number of them.
DRAWS = 3


def over_instructions(
    programs: Sequence[Sums],
    priors: F64,
    shares: Sequence[float] = (0.1, 0.25, 0.5, 1.0),
    seed: int = 0,
) -> dict[str, float]:
    """Mean error on unseen families when only the first share of each training program's segments
    is used."""
    out = {}
    for share in shares:
        cut = [
            replace(p, x=p.x[:n], y=p.y[:n])
            for p in programs
            for n in [max(1, round(share * len(p.y)))]
        ]
        out[str(share)] = unseen_error(programs, priors, seed, train=cut)
    return out


def over_machines(
    programs: Sequence[Sums],
    priors: F64,
    counts: Sequence[int] = (10, 20, 40),
    tuning: int = 3,
    seed: int = 0,
) -> dict[str, dict[str, Any]]:
    """Mean errors on unseen families when the cores and the rows of only ``count`` machines are
    there: on those machines; and on the others, a row from ``tuning`` programs, with their own core
    beside those (``known``) and without it (``unknown``)."""
    rng = np.random.default_rng(seed)
    parts = folds([p.family for p in programs], 5, seed)
    with_core = np.flatnonzero(priors.max(axis=1) == 1)  # machines whose parameters are known
    programs = [
        replace(with_columns(p, priors[with_core].argmax(axis=1)), y=p.y[:, with_core])
        for p in programs
    ]
    machines = len(with_core)
    out: dict[str, dict[str, Any]] = {}
    for count in [c for c in counts if c < machines]:
        errors: dict[str, list[float]] = {"seen": [], "known": [], "unknown": []}
        for _ in range(DRAWS):
            inside = np.sort(rng.choice(machines, count, replace=False))
            few = [replace(with_columns(p, inside), y=p.y[:, inside]) for p in programs]
            errors["seen"].append(unseen_error(few, np.eye(count), seed))
            for part in parts:
                rest = [i for i in range(len(programs)) if i not in part]
                for j in np.setdiff1d(np.arange(machines), inside).tolist():
                    chosen = [
                        programs[i] for i in rng.choice(rest, min(tuning, len(rest)), replace=False)
                    ]
                    own = np.append(inside, j)
                    prior = np.zeros(count + 1)
                    prior[-1] = 1
                    row = fit_row([with_columns(p, own) for p in chosen], j, prior, STRENGTH)
                    errors["known"] += _errors([programs[i] for i in part], own, row, j)
                    row = mixture_row([with_columns(p, inside) for p in chosen], j)
                    errors["unknown"] += _errors([programs[i] for i in part], inside, row, j)
        out[str(count)] = {k: float(np.mean(v)) for k, v in errors.items()}
    return out


def _errors(
    programs: Sequence[Sums], columns: npt.NDArray[np.int64], row: F64, machine: int
) -> list[float]:
    return [
        float(abs(p.x[:, columns].sum(axis=0) @ row / p.y[:, machine].sum() - 1)) for p in programs
    ]
