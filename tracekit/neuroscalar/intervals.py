"""How far a program's total cycles are off on families that models of single instructions were not
trained on, and which designs that does not tell apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.errors import UsageError
from tracekit.io.output import write_json
from tracekit.mixture.residuals import RESIDUALS, Residuals, joined

__all__ = ["known_residuals", "program_intervals", "residuals_of", "save_residuals"]

F64 = npt.NDArray[np.float64]


def residuals_of(result: Mapping[str, Any]) -> Residuals | None:
    """What `evaluate` found of unseen families; None where it was asked for seen ones, or where the
    programs are of one family alone."""
    programs: Mapping[str, Any] = result["programs"]
    families = tuple(str(p["family"]) for p in programs.values())
    if result["seen"] or len(set(families)) < 2:
        return None
    machines = tuple(result["machines"])
    errors = np.array(
        [[p["machines"][m]["model"]["total"] for m in machines] for p in programs.values()]
    )
    if not (errors > -1).all():  # a program without a cycle says nothing, NaN neither
        return None
    return Residuals(machines, tuple(programs), families, np.zeros(len(families)), np.log1p(errors))


def save_residuals(result: Mapping[str, Any], folder: str | Path) -> None:
    """Into the model's folder, for the intervals of `compare`; `UsageError` where there are
    none."""
    found = residuals_of(result)
    if found is None:
        raise UsageError(
            "residuals are those of programs of two unseen families or more",
            path=str(folder),
            hint="--split families, and a manifest whose test has them",
        )
    write_json(Path(folder) / RESIDUALS, found.as_dict(), force=True)


def known_residuals(folders: Sequence[str | Path]) -> Residuals | None:
    """Those that the models' folders have, over the programs that all of them know; None where one
    has none."""
    places = [Path(f) / RESIDUALS for f in folders]
    if not all(p.exists() for p in places):
        return None
    return joined([Residuals.load(p) for p in places])


def program_intervals(
    machines: Sequence[str], cycles: Mapping[str, float], residuals: Residuals | None
) -> dict[str, Any]:
    """Of a program's total ``cycles`` by machine: half the 95 % interval (null where it is not
    known), its parts, and which machines are not told from the fastest.  All rows are predicted, so
    that sampling has no part."""
    unknown = np.full(len(machines), np.nan)
    values = np.array([cycles[m] for m in machines])
    best = int(np.argmin(values))
    half = unknown if residuals is None else np.expm1(residuals.half(machines, 0.0)) * values
    pair = unknown if residuals is None else residuals.pair_half(machines, best, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        tied = np.log(values / values[best]) <= pair
    tied[best] = True
    halves = {m: float(h) if np.isfinite(h) else None for m, h in zip(machines, half, strict=True)}
    return {
        "half_interval": halves,
        "model_half_interval": halves,
        "sampling_half_interval": dict.fromkeys(machines, 0.0),
        "tied_with_fastest": dict(zip(machines, tied.tolist(), strict=True)),
    }
