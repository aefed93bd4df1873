"""Predictions beside measurements and baselines: errors by program, pairs of versions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tracekit.evaluation.ranks import spearman
from tracekit.mixture.least_squares import nnls
from tracekit.validation.program_list import Group, ListedProgram
from tracekit.validation.timing import Timed

__all__ = ["BASELINES", "Judged", "Judgement", "fitted_factor", "judge", "pairs_of", "summary"]

F64 = npt.NDArray[np.float64]

BASELINES: Final = ("constant ns/instruction", "nearest machine", "instruction mix")
#: Versions of a pair differ by at least so much, and by so many times their spread, to be scored.
FASTER, CLEAR, CLOSE = 0.10, 3.0, 0.03


@dataclass(frozen=True)
class Judged:
    """One program: ``seconds`` are at the median clock of all rounds; ``mix``: shares of its
    instructions by operation class; ``others``: seconds on machines that are not calibrated."""

    program: ListedProgram
    timed: Timed
    instructions: int
    seconds: float
    predicted: float
    mix: Mapping[str, float] = field(default_factory=dict)
    others: Mapping[str, float] = field(default_factory=dict)

    @property
    def error(self) -> float:
        """Predicted over measured, less one."""
        return self.predicted / self.seconds - 1


@dataclass(frozen=True)
class Judgement:
    """``programs``: those that were timed and predicted; ``baselines``: name → seconds by program;
    ``pairs``: of `pairs_of`; ``host``: the processor that was timed, None where it is not known."""

    programs: list[Judged]
    baselines: dict[str, dict[str, float]]
    pairs: list[dict[str, Any]]
    host: str | None = None

    def half(self, half: str) -> list[Judged]:
        """The judged programs of a half."""
        return [j for j in self.programs if j.program.half == half and j.program.judged]

    def summary(self, half: str) -> dict[str, Any]:
        """Errors of the prediction and of the baselines over a half, and its pairs."""
        some = self.half(half)
        truth = np.array([j.seconds for j in some])
        out: dict[str, Any] = {"programs": len(some)}
        out["families"] = len({j.program.family for j in some})
        out["prediction"] = summary(np.array([j.predicted for j in some]), truth, some)
        for name, seconds in self.baselines.items():
            there = np.array([seconds[j.program.name] for j in some])
            out[name] = summary(there, truth, some)
        scored = [p for p in self.pairs if p["half"] == half and p["scored"]]
        out["pairs"] = len(scored)
        out["pairs_right"] = sum(p["right"] for p in scored)
        return out


def summary(predicted: F64, truth: F64, some: Sequence[Judged]) -> dict[str, float | None]:
    """Mean and median of the absolute relative errors, and Spearman's correlation of times an
    instruction; None where there are no programs."""
    if not len(truth):
        return {"mean": None, "median": None, "spearman": None}
    errors = np.abs(predicted / truth - 1)
    n = np.array([j.instructions for j in some], np.float64)
    rank = spearman(predicted / n, truth / n)
    return {
        "mean": float(errors.mean()),
        "median": float(np.median(errors)),
        "spearman": None if math.isnan(rank) else rank,
    }


def fitted_factor(some: Sequence[Judged]) -> tuple[float, dict[str, float]]:
    """What predictions are to be multiplied by: the median of measured over predicted, which one
    program that is far off does not move.  And of each program the error with the factor of all
    others: what to expect of programs that were not fitted."""
    ratios = {j.program.name: j.seconds / j.predicted for j in some}
    left_out = {
        name: float(np.median([r for n, r in ratios.items() if n != name])) / ratio - 1
        for name, ratio in ratios.items()
        if len(ratios) > 1
    }
    return float(np.median(list(ratios.values()))), left_out


def judge(programs: Sequence[Judged], groups: Sequence[Group]) -> Judgement:
    """Fits the baselines on the development half and judges the pairs."""
    fitted = [j for j in programs if j.program.half == "development" and j.program.judged]
    baselines = {}
    if fitted:
        baselines[BASELINES[0]] = _constant(programs, fitted)
        if (nearest := _nearest(programs, fitted)) is not None:
            baselines[f"{BASELINES[1]} ({nearest})"] = {
                j.program.name: j.others[nearest] for j in programs
            }
        baselines[BASELINES[2]] = _mix(programs, fitted)
    return Judgement(list(programs), baselines, pairs_of(programs, groups))


def _constant(programs: Sequence[Judged], fitted: Sequence[Judged]) -> dict[str, float]:
    """The seconds an instruction with the least mean relative error: that of one of the programs,
    since the sum of absolute values is linear between them."""
    each = [j.seconds / j.instructions for j in fitted]
    best = min(each, key=lambda c: sum(abs(c / e - 1) for e in each))
    return {j.program.name: best * j.instructions for j in programs}


def _nearest(programs: Sequence[Judged], fitted: Sequence[Judged]) -> str | None:
    """Of the other machines, which every program was simulated on, that of the least error."""
    names = set.intersection(*(set(j.others) for j in programs))
    if not names:
        return None
    return min(sorted(names), key=lambda n: sum(abs(j.others[n] / j.seconds - 1) for j in fitted))


def _mix(programs: Sequence[Judged], fitted: Sequence[Judged]) -> dict[str, float]:
    """Seconds as a sum over operation classes of instructions x a cost that is never negative, the
    costs fitted to relative errors."""
    names = sorted({k for j in fitted for k in j.mix})

    def row(j: Judged) -> list[float]:
        return [j.mix.get(n, 0.0) * j.instructions for n in names]

    a = np.array([row(j) for j in fitted]) / np.array([[j.seconds] for j in fitted])
    scale = np.maximum(a.max(axis=0), 1e-30)
    costs = nnls(a / scale, np.ones(len(fitted))) / scale
    return {j.program.name: float(np.dot(row(j), costs)) for j in programs}


def pairs_of(programs: Sequence[Judged], groups: Sequence[Group]) -> list[dict[str, Any]]:
    """Every two versions of a group: times for the same work, whether they are ``scored`` (they
    differ by at least 10 % and by three times their spread), and whether the prediction names the
    faster one (``right``).  Those that differ by under 3 % are left out."""
    by_name = {j.program.name: j for j in programs}
    out = []
    for g in groups:
        there = [by_name[v] for v in g.versions if v in by_name]
        for a, b in itertools.combinations(there, 2):
            x, y = a.seconds / a.program.work, b.seconds / b.program.work
            p, q = a.predicted / a.program.work, b.predicted / b.program.work
            differ = max(x, y) / min(x, y) - 1
            if differ < CLOSE:
                continue
            spread = math.hypot(a.timed.spread, b.timed.spread)
            out.append(
                {
                    "group": g.name,
                    "half": a.program.half,
                    "versions": [a.program.name, b.program.name],
                    "measured_ratio": x / y,
                    "predicted_ratio": p / q,
                    "scored": differ >= FASTER and differ >= CLEAR * spread,
                    "right": (x < y) == (p < q),
                }
            )
    return out
