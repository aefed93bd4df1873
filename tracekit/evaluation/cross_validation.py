"""How well a recipe predicts what it has not seen: folds by family, quadrants of programs and
machines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.calibration.informative_programs import choose_programs
from tracekit.errors import UsageError
from tracekit.evaluation.baselines import BASELINES, predict_baseline
from tracekit.evaluation.ranks import kendall, spearman
from tracekit.mixture.family_folds import folds
from tracekit.mixture.fit import Sums, fit_row, fit_table, mixture_row, with_columns
from tracekit.text import counted

__all__ = ["cross_validate", "summarise", "unseen_machines"]

OWN = "simulated cores"
KNOWN, UNKNOWN = "parameters known", "parameters not known"
CHOSEN = ", chosen programs"
#: Of so many groups of machines, each is tuned with programs that were chosen on the others.
_GROUPS = 5

F64 = npt.NDArray[np.float64]


def _of_defined(what: Callable[[F64], Any], values: F64) -> float | None:
    """``what`` of the values that are numbers; None where none is."""
    known = values[~np.isnan(values)]
    return float(what(known)) if len(known) else None


def summarise(
    programs: Sequence[Sums], predicted: F64, periods: F64, machines: Sequence[str]
) -> dict[str, Any]:
    """Errors of total time: overall, of each program and of each machine.  ``periods``: seconds a
    cycle (all 1 where clocks are not known), since machines are ranked by time.  Ranks of machines
    that tie all, or of one alone, are None."""
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
        "spearman_median": _of_defined(np.median, rho),
        "spearman_min": _of_defined(np.min, rho),
        "kendall_median": _of_defined(np.median, tau),
        "programs": {
            p.name: {
                "mean": float(by_program[i]),
                "max": float(size[i].max()),
                "bias": float(e[i].mean()),
                "spearman": _of_defined(np.min, rho[i : i + 1]),
                "kendall": _of_defined(np.min, tau[i : i + 1]),
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
    baselines: Sequence[str] = BASELINES,
) -> dict[str, Any]:
    """``count`` folds by family, the recipe and the baselines on the same ones.  The strength of
    the fit is chosen inside each fold, on families of its training part; the test part decides
    nothing."""
    from tracekit.mixture.training import choose_strength

    if count < 2:
        raise UsageError(f"{counted(count, 'fold')}: at least 2")
    parts = folds([p.family for p in programs], count, seed)
    if len(parts) < 2:
        raise UsageError("evaluation needs programs of at least two families")
    shape = (len(programs), len(machines))
    names = (OWN, *baselines)
    unseen = {name: np.zeros(shape) for name in names}
    seen = {name: np.zeros(shape) for name in names}
    missing: set[str] = set()
    for part in parts:
        rest = [i for i in range(len(programs)) if i not in part]
        train = [programs[i] for i in rest]
        strength, _ = choose_strength(train, priors, frozenset(), seed)
        table = fit_table(train, priors, strength)
        found: F64 | None = np.stack([p.x.sum(axis=0) @ table.T for p in programs])
        for name in names:
            if name != OWN:
                found = predict_baseline(name, train, programs, aggregates)
            if found is None:
                missing.add(name)
                continue
            unseen[name][part] = found[part]
            seen[name][rest] += found[rest] / (len(parts) - 1)

    def of(values: F64, name: str) -> dict[str, Any] | None:
        return None if name in missing else summarise(programs, values, periods, machines)

    own = np.stack([p.x.sum(axis=0) @ priors.T for p in programs])
    return {
        "folds": [[programs[i].name for i in part] for part in parts],
        "seed": seed,
        "unseen_programs_seen_machines": of(unseen[OWN], OWN),
        "seen_programs_seen_machines": of(seen[OWN], OWN),
        "simulated_cores_unfitted": of(own, OWN),
        "baselines": {name: of(unseen[name], name) for name in baselines},
        "baselines_on_seen_programs": {name: of(seen[name], name) for name in baselines},
        "predicted_cycles": {p.name: unseen[OWN][i].tolist() for i, p in enumerate(programs)},
        "true_cycles": {p.name: p.y.sum(axis=0).tolist() for p in programs},
    }


def unseen_machines(
    programs: Sequence[Sums],
    machines: Sequence[str],
    priors: F64,
    aggregates: dict[str, F64],
    *,
    tuning: int = 3,
    strength: float = 0.3,
    count: int = 5,
    seed: int = 0,
    baselines: Sequence[str] = BASELINES,
) -> dict[str, Any]:
    """Machines that the table has no row for: a row from ``tuning`` programs, the rest of the table
    unused; errors by method, on other programs of seen families and on unseen ones.

    With its parameters known, a machine's own core is among the columns (nothing of it is trained);
    with parameters unknown it is not: a mixture of the other cores, and of drawn ones where the
    programs have more columns than ``priors``.  Of each fold's training families ``tuning``
    programs are drawn, or chosen on other machines; the other programs of those families count as
    seen, the fold's as unseen.  Each baseline is fitted to the drawn programs.  Errors are None
    where there is no such program (all of the training families were drawn).
    """
    if tuning < 1:
        raise UsageError(f"{tuning} programs to tune on: at least 1")
    parts = folds([p.family for p in programs], count, seed)
    rng = np.random.default_rng(seed)
    errors: dict[str, dict[str, list[float]]] = {}
    own = np.where(priors.max(axis=1) == 1, priors.argmax(axis=1), -1)
    columns = np.arange(programs[0].x.shape[1])
    first = [with_columns(p, range(priors.shape[1])) for p in programs]

    def note(name: str, found: F64 | None, j: int, picked: list[int]) -> None:
        if found is None:
            return
        held = errors.setdefault(name, {"seen": [], "unseen": []})
        for i, p in enumerate(programs):
            if i not in picked:
                kind = "unseen" if i in part else "seen"
                held[kind].append(float(abs(found[i] / p.y[:, j].sum() - 1)))

    def tune(picked: list[int], j: int, label: str) -> None:
        row = fit_row([first[i] for i in picked], j, priors[j], strength)
        note(KNOWN + label, np.array([p.x.sum(axis=0) @ row for p in first]), j, picked)
        others = columns[columns != own[j]]
        if len(others):
            row = mixture_row([with_columns(programs[i], others) for i in picked], j)
            found = np.array([p.x[:, others].sum(axis=0) @ row for p in programs])
            note(UNKNOWN + label, found, j, picked)

    for part in parts:
        rest = [i for i in range(len(programs)) if i not in part]
        for j in range(len(machines)):
            picked = rng.choice(rest, min(tuning, len(rest)), replace=False).tolist()
            tune(picked, j, "")
            alone = [replace(programs[i], y=programs[i].y[:, [j]]) for i in picked]
            for name in baselines:
                b = predict_baseline(name, alone, programs, aggregates)
                note(name, None if b is None else b[:, 0], j, picked)
        if len(rest) <= tuning or len(machines) < _GROUPS or min(own) < 0:
            continue
        for group in range(_GROUPS):
            others = [j for j in range(len(machines)) if j % _GROUPS != group][::2]
            chosen = choose_programs([first[i] for i in rest], own.tolist(), others, tuning)
            picked = [rest[i] for i in chosen]
            for j in range(group, len(machines), _GROUPS):
                tune(picked, j, CHOSEN)
    return {
        "tuning_programs": min(tuning, len(programs) - min(map(len, parts))),
        "random_designs": len(columns) - priors.shape[1],
        "methods": {
            name: {
                kind: {
                    "mean": _of_defined(np.mean, np.array(v)),
                    "median": _of_defined(np.median, np.array(v)),
                }
                for kind, v in held.items()
            }
            for name, held in errors.items()
        },
    }
