"""How well a recipe predicts what it has not seen: folds by family, quadrants of programs and
machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.errors import UsageError
from tracekit.perfvec.baselines import BASELINES, predict_baseline
from tracekit.perfvec.fit import Sums, fit_row, fit_table
from tracekit.perfvec.folds import folds
from tracekit.perfvec.ranks import kendall, spearman

__all__ = ["cross_validate", "learning_curve", "summarise"]

F64 = npt.NDArray[np.float64]


def summarise(
    programs: Sequence[Sums], predicted: F64, periods: F64, machines: Sequence[str]
) -> dict[str, Any]:
    """Errors of total time: overall, of each program and of each machine.  ``periods``: seconds a
    cycle (all 1 where clocks are not known), since machines are ranked by time."""
    true = np.stack([p.y.sum(axis=0) for p in programs])
    e = predicted / true - 1
    size = np.abs(e)
    by_program = size.mean(axis=1)
    rho = np.array(
        [spearman(a * periods, b * periods) for a, b in zip(predicted, true, strict=True)]
    )
    tau = np.array(
        [kendall(a * periods, b * periods) for a, b in zip(predicted, true, strict=True)]
    )
    return {
        "mean": float(size.mean()),
        "median": float(np.median(size)),
        "max": float(size.max()),
        "bias": float(e.mean()),
        "programs_below_25": float((by_program < 0.25).mean()),
        "worst_program": float(by_program.max()),
        "spearman_median": float(np.nanmedian(rho)),
        "spearman_min": float(np.nanmin(rho)),
        "kendall_median": float(np.nanmedian(tau)),
        "programs": {
            p.name: {
                "mean": float(by_program[i]),
                "max": float(size[i].max()),
                "bias": float(e[i].mean()),
                "spearman": float(rho[i]),
                "kendall": float(tau[i]),
            }
            for i, p in enumerate(programs)
        },
        "machines": {
            m: {
                "mean": float(size[:, j].mean()),
                "max": float(size[:, j].max()),
                "bias": float(e[:, j].mean()),
            }
            for j, m in enumerate(machines)
        },
    }


def cross_validate(
    programs: Sequence[Sums],
    machines: Sequence[str],
    priors: F64,
    periods: F64,
    aggregates: dict[str, F64],
    *,
    count: int = 5,
    seed: int = 0,
) -> dict[str, Any]:
    """``count`` folds by family.  The strength of the fit is chosen inside each fold, on families
    of its training part; the test part decides nothing."""
    from tracekit.train.default import choose_strength

    parts = folds([p.family for p in programs], count, seed)
    if len(parts) < 2:
        raise UsageError("evaluation needs programs of at least two families")
    shape = (len(programs), len(machines))
    unseen, seen = np.zeros(shape), [np.zeros(shape), 0]
    baselines: dict[str, F64 | None] = {name: np.zeros(shape) for name in BASELINES}
    own = np.stack([p.x.sum(axis=0) @ priors.T for p in programs])
    for part in parts:
        train = [p for i, p in enumerate(programs) if i not in part]
        test = [programs[i] for i in part]
        strength, _ = choose_strength(train, priors, frozenset(), seed)
        table = fit_table(train, priors, strength)
        unseen[part] = np.stack([p.x.sum(axis=0) @ table.T for p in test])
        rest = [i for i in range(len(programs)) if i not in part]
        seen[0][rest] += np.stack([programs[i].x.sum(axis=0) @ table.T for i in rest])  # type: ignore[index]
        for name, values in baselines.items():
            if values is None:
                continue
            found = predict_baseline(name, train, test, aggregates)
            if found is None:
                baselines[name] = None
            else:
                values[part] = found
    average = np.asarray(seen[0]) / (len(parts) - 1)
    return {
        "folds": [[programs[i].name for i in part] for part in parts],
        "seed": seed,
        "unseen_programs_seen_machines": summarise(programs, unseen, periods, machines),
        "seen_programs_seen_machines": summarise(programs, average, periods, machines),
        "reference_cores_unfitted": summarise(programs, own, periods, machines),
        "baselines": {
            name: None if v is None else summarise(programs, v, periods, machines)
            for name, v in baselines.items()
        },
        "predicted_cycles": {p.name: unseen[i].tolist() for i, p in enumerate(programs)},
        "true_cycles": {p.name: p.y.sum(axis=0).tolist() for p in programs},
    }


def unseen_machines(
    programs: Sequence[Sums],
    machines: Sequence[str],
    priors: F64,
    periods: F64,
    *,
    tuning: int = 3,
    strength: float = 0.3,
    count: int = 5,
    seed: int = 0,
) -> dict[str, Any]:
    """Machines that the table has no row for: a row from ``tuning`` programs, the rest of the table
    unused.

    A machine's own core is among the columns (its parameters are known; nothing of it is trained).
    Of each fold's training families ``tuning`` programs are drawn; the other programs of those
    families count as seen, the fold's as unseen.
    """
    parts = folds([p.family for p in programs], count, seed)
    rng = np.random.default_rng(seed)
    errors: dict[str, list[float]] = {"seen": [], "unseen": []}
    for part in parts:
        rest = [i for i in range(len(programs)) if i not in part]
        for j in range(len(machines)):
            chosen = [
                programs[int(i)] for i in rng.choice(rest, min(tuning, len(rest)), replace=False)
            ]
            row = fit_row(chosen, j, priors[j], strength)
            for kind, where in (("seen", rest), ("unseen", part)):
                for i in where:
                    if programs[i] in chosen:
                        continue
                    p = programs[i]
                    errors[kind].append(float(abs(p.x.sum(axis=0) @ row / p.y[:, j].sum() - 1)))
    return {"tuning_programs": tuning, **{k: float(np.mean(v)) for k, v in errors.items()}}


def learning_curve(
    programs: Sequence[Sums],
    priors: F64,
    shares: Sequence[float] = (0.1, 0.25, 0.5, 1.0),
    seed: int = 0,
) -> dict[str, float]:
    """Mean error on unseen families when only the first share of each training program's segments
    is used."""
    from dataclasses import replace

    parts = folds([p.family for p in programs], 5, seed)
    out = {}
    for share in shares:
        errors = []
        for part in parts:
            cut = []
            for i, p in enumerate(programs):
                if i not in part:
                    n = max(1, round(share * len(p.y)))
                    cut.append(replace(p, x=p.x[:n], y=p.y[:n]))
            table = fit_table(cut, priors, 0.3)
            for i in part:
                p = programs[i]
                errors.append(np.abs(p.x.sum(axis=0) @ table.T / p.y.sum(axis=0) - 1).mean())
        out[str(share)] = float(np.mean(errors))
    return out
