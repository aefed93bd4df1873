"""The preset ``default``: simulated cores (one for each machine whose parameters are known) and a
table that is fitted in closed form; one pass over the data, no torch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit._version import __version__
from tracekit.dataset import Manifest
from tracekit.errors import UsageError
from tracekit.mixture.distribution import Distribution, measure
from tracekit.mixture.family_folds import folds
from tracekit.mixture.fit import Sums, fit_table
from tracekit.mixture.model import Mixture
from tracekit.mixture.program_sums import collect
from tracekit.training_events import Report

__all__ = ["STRENGTHS", "choose_strength", "priors_of", "train_default"]

F64 = npt.NDArray[np.float64]
#: What the validation chooses from: how firmly a row is held near its prior.
STRENGTHS = (0.03, 0.1, 0.3, 1.0)


def priors_of(cores: Sequence[dict[str, Any]], machines: Sequence[str]) -> F64:
    """A machine's own core counts its cycles; without one, all cores count equally."""
    names = [str(c["name"]) for c in cores]
    out = np.full((len(machines), len(cores)), 1 / len(cores))
    for j, m in enumerate(machines):
        if m in names:
            out[j] = np.arange(len(cores)) == names.index(m)
    return out


def mean_error(programs: Sequence[Sums], table: F64) -> float:
    """Mean over programs and machines of the absolute relative error of total time."""
    errors = [p.x.sum(axis=0) @ table.T / p.y.sum(axis=0) - 1 for p in programs]
    return float(np.abs(errors).mean())


def choose_strength(
    programs: Sequence[Sums], priors: F64, validation: frozenset[str], seed: int
) -> tuple[float, dict[str, float]]:
    """The strength that does best on families that were not fitted: those of ``validation``, or
    four folds."""
    if validation:
        parts = [[i for i, p in enumerate(programs) if p.family in validation]]
    else:
        parts = folds([p.family for p in programs], 4, seed)
    parts = [p for p in parts if 0 < len(p) < len(programs)]
    if not parts:
        return STRENGTHS[1], {}
    scores = {}
    for strength in STRENGTHS:
        errors = []
        for part in parts:
            table = fit_table(
                [p for i, p in enumerate(programs) if i not in part], priors, strength
            )
            errors += [mean_error([programs[i]], table) for i in part]
        scores[str(strength)] = float(np.mean(errors))
    best = min(STRENGTHS, key=lambda s: scores[str(s)])
    return best, scores


def train_default(
    manifest: Manifest,
    out: Path,
    *,
    seed: int = 0,
    threads: int | None = None,
    machines: Sequence[str] | None = None,
    rows: int | None = None,
    report: Report = lambda _: None,
) -> Mixture:
    """Train on every family that is not in the manifest's test (the validation families choose the
    strength and are fitted in the end, too), and write the model folder ``out``.  ``rows``: only
    the first of each program."""
    begin = time.monotonic()
    programs = [p for p in manifest.programs if p.family not in manifest.test]
    if len({p.family for p in programs}) < 2:
        raise UsageError("a model needs programs of at least two families", path=str(manifest.path))
    if all(p.family in manifest.validation for p in programs):
        raise UsageError("no programs to train on", path=str(manifest.path))
    if machines:
        with programs[0].open() as data:
            names = manifest.chosen(machines, data.machines)
    else:
        names = list(manifest.common_machines())
    cores = [{**manifest.machines[m], "name": m} for m in names if manifest.machines.get(m)]
    if not cores:
        raise UsageError("no machine's parameters are known", hint="name their files in machines")
    sums = collect(programs, cores, names, out / "sums", report, threads, rows)
    priors = priors_of(cores, names)
    strength, scores = choose_strength(sums, priors, manifest.validation, seed)
    report({"event": "validation", "mean_error": scores, "strength": strength})
    table = fit_table(sums, priors, strength)
    error = mean_error(sums, table)
    count = sum(s.rows for s in sums)
    seconds = time.monotonic() - begin
    report({"event": "fitted", "train_error": error, "rows": count, "seconds": round(seconds, 1)})
    seen = Distribution()
    for p in programs:
        with p.open() as data:
            arch, level = (str(data.trace.index.get(k, "")) for k in ("arch", "level"))
            seen.add(measure(data.trace))
    training: dict[str, Any] = {
        "tracekit": __version__,
        "preset": "default",
        "seed": seed,
        "strength": strength,
        "validation_mean_error": scores,
        "train_mean_error": error,
        "rows": count,
        "programs": [
            {"name": p.name, "family": p.family, "data_sha256": p.data_digest()} for p in programs
        ],
        "held_out_families": sorted(manifest.test),
        "distribution": seen.as_dict(),
    }
    known = [{**manifest.machines.get(m, {}), "name": m} for m in names]
    model = Mixture(cores, known, table, training, arch, level)
    golden = np.stack([s.x.sum(axis=0) / s.rows for s in sums[:16]])
    model.save(out, out.name, golden)
    return model
