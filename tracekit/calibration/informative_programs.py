"""Which programs to measure a new machine with: those that told most about the known machines, or
about simulated cores that are taken for machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.calibration import random_designs as default
from tracekit.calibration.random_designs import random_designs
from tracekit.calibration.row_classes import DIVISIONS, first_rows, informative_classes, log_shares
from tracekit.mixture.fit import Sums, mixture_row, with_columns
from tracekit.opening import open_trace
from tracekit.progress import Progress
from tracekit.sim.spread import Spread
from tracekit.store.reader import TraceFile

__all__ = [
    "ProgramInformation",
    "choose_programs",
    "core_information",
    "informations",
    "machine_information",
    "most_informative",
]

F64 = npt.NDArray[np.float64]

#: Cores that are taken for machines.
_MACHINES = 12
#: How far a good core is off in the whole time, and how firmly cores are held to equal parts.
_TOTAL, _HELD = 0.05, 300.0


def choose_programs(
    programs: Sequence[Sums], own: Sequence[int], machines: Sequence[int], count: int
) -> list[int]:
    """``count`` programs, by number, one after another: with each the mean error on all others is
    least when ``machines`` are tuned as if their parameters were not known.

    ``own``: the column of each machine's own core (-1: none), which its row does not use.
    """
    x = np.stack([p.x.sum(axis=0) for p in programs])
    y = np.stack([p.y.sum(axis=0) for p in programs])
    columns = np.arange(x.shape[1])
    chosen: list[int] = []
    while len(chosen) < min(count, len(programs) - 1):
        best, least = -1, np.inf
        for i in range(len(programs)):
            if i in chosen:
                continue
            tuned = [*chosen, i]
            rest = [k for k in range(len(programs)) if k not in tuned]
            errors = []
            for j in machines:
                others = columns[columns != own[j]]
                row = mixture_row([with_columns(programs[k], others) for k in tuned], j)
                errors.append(np.abs(x[np.ix_(rest, others)] @ row / y[rest, j] - 1).mean())
            if np.mean(errors) < least:
                best, least = i, float(np.mean(errors))
        chosen.append(best)
    return chosen


@dataclass(frozen=True)
class ProgramInformation:
    """What a program's first rows tell, in units of how far a good core is off: of cores, ``x``
    [numbers, cores], and of machines, ``y`` [numbers, machines]; their times of those rows."""

    x: F64
    y: F64
    time_x: F64
    time_y: F64


def machine_information(
    trace: TraceFile, cores: Sequence[Mapping[str, Any]], cycles: F64, threads: int | None = None
) -> ProgramInformation:
    """``cycles``: float64 [rows, machines], between retirements."""
    kept, counts = first_rows(trace)
    x = kept.totals(cores, threads)[1]
    y = np.stack([kept.sums(c)[1] for c in cycles.T], axis=1)
    return _information(x, y, informative_classes(counts))


def core_information(
    trace: TraceFile,
    cores: Sequence[Mapping[str, Any]],
    designs: int | None = None,
    seed: int = 0,
    threads: int | None = None,
) -> ProgramInformation:
    """The model's cores and ``designs`` others (RANDOM_DESIGNS unless given); the model's as if
    they were machines, too."""
    designs = default.RANDOM_DESIGNS if designs is None else designs
    kept, counts = first_rows(trace)
    x = kept.totals([*cores, *random_designs(cores, designs, seed)], threads)[1]
    informative, _, spread = informative_classes(counts)
    return _information(x, x[:, : len(cores)], (informative, np.zeros_like(spread), spread))


def informations(
    paths: Sequence[str],
    cores: Sequence[Mapping[str, Any]],
    seed: int = 0,
    threads: int | None = None,
    spread: Spread | None = None,
) -> list[ProgramInformation]:
    """`core_information` of features, each; ``spread``: who does them, this process unless given,
    which shows its progress."""
    if spread is not None:
        options = {"cores": [dict(c) for c in cores], "seed": seed}
        found = spread("program_information", [(path, options) for path in paths])
        return [ProgramInformation(**v) for v in found]
    programs = []
    with Progress("suggest", len(paths), "programs") as progress:
        for i, path in enumerate(paths):
            progress.update(i, path)
            with open_trace(path) as trace:
                programs.append(core_information(trace, cores, seed=seed, threads=threads))
    return programs


def most_informative(
    programs: Sequence[ProgramInformation],
    count: int,
    own: Sequence[int] | None = None,
    machines: Sequence[int] | None = None,
) -> list[int]:
    """``count`` programs, by number, the most telling first: with each, the times of all others on
    ``machines`` are foretold by the cores' times, weighed so that they tell the same of the
    programs chosen (ridge regression of logarithms), and the worst one is off least: each program's
    error is a mean over ``machines``, and the largest counts.  What no chosen program touches shows
    in few others, and a mean over all of them would hide it.

    ``own``: the core of each machine (-1: none), which is left out; machine k's is core k unless
    given.  ``machines``: some of all.
    """
    every = list(range(programs[0].y.shape[1]))
    own = every if own is None else own
    machines = every[:: max(1, len(every) // _MACHINES)] if machines is None else machines
    inner = []
    for p in programs:
        middle = p.x.mean(axis=1, keepdims=True)
        x, y = p.x - middle, p.y - middle
        inner.append((x.T @ x, x.T @ y))
    time_x, time_y = (np.log([getattr(p, k) for p in programs]) for k in ("time_x", "time_y"))
    cores = np.arange(time_x.shape[1])

    def error(chosen: list[int]) -> float:
        rest = [k for k in range(len(programs)) if k not in chosen]
        xx, xy = (sum(inner[i][k] for i in chosen) for k in (0, 1))
        errors = []
        for j in machines:
            c = cores[cores != own[j]]
            parts = np.linalg.solve(xx[np.ix_(c, c)] + _HELD * np.eye(len(c)), xy[c, j])
            parts += (1 - parts.sum()) / len(c)
            gap = time_x[np.ix_(rest, c)] @ parts - time_y[rest, j]
            errors.append(np.abs(np.expm1(gap)))
        return float(np.mean(errors, axis=0).max())

    chosen: list[int] = []
    while len(chosen) < min(count, len(programs) - 1):
        left = [i for i in range(len(programs)) if i not in chosen]
        chosen.append(min(left, key=lambda i: error([*chosen, i])))
    return chosen


def _information(
    x: F64, y: F64, informative: tuple[npt.NDArray[np.bool_], F64, F64]
) -> ProgramInformation:
    which, bias, spread = informative
    time_x, time_y = (t.sum(axis=0) / DIVISIONS for t in (x, y))
    shares = [log_shares(t, whole)[which] for t, whole in ((x, time_x), (y, time_y))]
    shares[1] += bias[:, None]
    own, machines = (
        np.vstack([s / spread[:, None], np.log(whole) / _TOTAL])
        for s, whole in zip(shares, (time_x, time_y), strict=True)
    )
    return ProgramInformation(own, machines, time_x, time_y)
