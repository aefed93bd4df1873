"""PerfVec's recipe (simulated cores, a table fitted to times) judged on a dataset: by folds, and
with each of its parts taken away."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.calibration.random_designs import random_designs
from tracekit.dataset import Manifest, Program
from tracekit.evaluation import learning_curves
from tracekit.evaluation.ablation import ablate
from tracekit.evaluation.baselines import aggregates
from tracekit.evaluation.cross_validation import cross_validate, unseen_machines
from tracekit.io.arrays import save_array
from tracekit.mixture.fit import Sums, with_columns
from tracekit.mixture.program_sums import collect, file_stamp
from tracekit.mixture.training import priors_of
from tracekit.sim.clock import period
from tracekit.sim.spread import Spread

__all__ = ["ablate_recipe", "cross_validate_recipe"]

Report = Callable[[Mapping[str, Any]], None]


def _silent(event: Mapping[str, Any]) -> None:
    """Nobody asks."""


class _Cores:
    """The machines that all programs were timed on, and their simulated cores' cycles."""

    def __init__(
        self,
        manifest: Manifest,
        work: Path,
        rows: int | None,
        threads: int | None,
        report: Report,
        spread: Spread | None,
    ) -> None:
        self._manifest, self._work, self._report = manifest, work, report
        self._rows, self._threads, self._spread = rows, threads, spread
        self.names = list(manifest.common_machines())
        self.cores = [
            {**manifest.machines[m], "name": m} for m in self.names if manifest.machines.get(m)
        ]
        self.priors = priors_of(self.cores, self.names)

    def walked(self, cores: Sequence[Mapping[str, Any]]) -> list[Sums]:
        """Each program through ``cores``, beside its times."""
        return collect(
            self._manifest.programs,
            cores,
            self.names,
            self._work / "sums",
            self._report,
            self._threads,
            self._rows,
            self._spread,
        )

    def tables(self) -> dict[str, npt.NDArray[Any]]:
        """What the baselines know of each program."""
        programs = self._manifest.programs
        places = {p.name: self._work / "sums" / _table_name(p, self._rows) for p in programs}
        missing = [p for p in programs if not places[p.name].exists()]
        if self._spread is not None:
            asked = [(str(p.data), {"limit": self._rows}) for p in missing]
            found = self._spread("program_aggregates", asked)
            for p, answer in zip(missing, found, strict=True):
                save_array(places[p.name], answer["x"], force=True)
        else:
            for p in missing:
                x = aggregates(p.data, self._threads, self._rows)
                save_array(places[p.name], x, force=True)
        return {name: np.load(place, allow_pickle=False) for name, place in places.items()}

    def periods(self) -> npt.NDArray[np.float64]:
        """The machines' clock periods in seconds, 1 where one is not known."""
        periods = np.array([period(self._manifest.machines.get(m, {})) for m in self.names])
        return np.where(np.isfinite(periods), periods, 1.0)


def _table_name(p: Program, rows: int | None) -> str:
    """The file of a program's aggregates: another one for other data, whatever the program's
    name."""
    of = hashlib.sha256(json.dumps([file_stamp(p), rows]).encode()).hexdigest()[:16]
    return f"{p.name.replace('/', '_')}-aggregates-{of}.npy"


def ablate_recipe(
    manifest: Manifest,
    work: Path,
    *,
    seed: int = 0,
    rows: int | None = None,
    threads: int | None = None,
    report: Report = _silent,
    spread: Spread | None = None,
) -> dict[str, float]:
    """What was taken away -> mean error of total time on programs of unseen families.

    ``work``: a folder for what is computed once; ``rows``: only the first of each program;
    ``spread``: who walks them.
    """
    known = _Cores(manifest, work, rows, threads, report, spread)
    return ablate(known.cores, known.priors, known.walked, seed)


def cross_validate_recipe(
    manifest: Manifest,
    work: Path,
    *,
    folds: int = 5,
    tuning: int = 3,
    designs: int = 0,
    seed: int = 0,
    rows: int | None = None,
    threads: int | None = None,
    report: Report = _silent,
    spread: Spread | None = None,
) -> dict[str, Any]:
    """Errors by folds of families, of unseen machines, and by how much is learned from
    (docs/json.md, "tracekit cross-validate").

    ``tuning``: programs that a new machine is tuned on; ``designs``: random designs beside the
    known cores; the rest as of `ablate_recipe`.
    """
    known = _Cores(manifest, work, rows, threads, report, spread)
    names, priors = known.names, known.priors
    wide = known.walked([*known.cores, *random_designs(known.cores, designs)])
    sums = [with_columns(p, range(len(known.cores))) for p in wide]
    tables = known.tables()
    common: dict[str, Any] = {"count": folds, "seed": seed}
    result = cross_validate(sums, names, priors, known.periods(), tables, **common)
    result["unseen_machines"] = unseen_machines(
        wide, names, priors, tables, tuning=tuning, **common
    )
    result["learning_curve"] = learning_curves.over_instructions(sums, priors, seed=seed)
    result["machine_curve"] = learning_curves.over_machines(sums, priors, seed=seed)
    return result
