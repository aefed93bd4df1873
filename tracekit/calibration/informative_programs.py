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

#: How far a good core is off in the whole time, and how firmly cores are held to equal parts.
_TOTAL, _HELD = 0.05, 300.0
#: How much more a program counts that is farther off: of a mean of errors to this power the worst
#: ones are most, and those that no choice helps do not hide the others, as in the largest error.
_POWER = 3


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
    """What a program tells, in units of how far a good core is off: of cores, ``x`` [numbers,
    cores], and of machines, ``y`` [numbers, machines]; their times of its INFORMATIVE_ROWS."""

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
    """The model's cores and ``designs`` others (RANDOM_DESIGNS unless given); all of them as if
    they were machines, too."""
    designs = default.RANDOM_DESIGNS if designs is None else designs
    kept, counts = first_rows(trace)
    x = kept.totals([*cores, *random_designs(cores, designs, seed)], threads)[1]
    informative, _, spread = informative_classes(counts)
    return _information(x, x, (informative, np.zeros_like(spread), spread))


def informations(
    paths: Sequence[str],
    cores: Sequence[Mapping[str, Any]],
    seed: int = 0,
    threads: int | None = None,
    spread: Spread | None = None,
    *,
    quiet: bool = True,
) -> list[ProgramInformation]:
    """`core_information` of features, each; ``spread``: who does them, this process unless given,
    which shows its progress on standard error unless ``quiet``."""
    if spread is not None:
        options = {"cores": [dict(c) for c in cores], "seed": seed}
        found = spread("program_information", [(path, options) for path in paths])
        return [ProgramInformation(**v) for v in found]
    programs = []
    with Progress("suggest", len(paths), "programs", quiet=quiet) as progress:
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
    programs chosen (ridge regression of logarithms), and the worst ones are off least: each
    program's error is a mean over ``machines``, of which the mean of cubes is made least.
    What no chosen program touches shows in few others, and their mean would hide it.

    ``own``: the core of each machine (-1: none), which is left out; machine k's is core k unless
    given.  ``machines``: some of all.
    """
    every = np.arange(programs[0].y.shape[1])
    some = every if machines is None else np.asarray(machines, np.int64)
    left_out = some if own is None else np.asarray(own, np.int64)[some]
    inner = []
    for p in programs:
        middle = p.x.mean(axis=1, keepdims=True)
        x, y = p.x - middle, p.y[:, some] - middle
        inner.append((x.T @ x, x.T @ y))
    time_x = np.log([p.time_x for p in programs])
    time_y = np.log([p.time_y for p in programs])[:, some]
    cores = time_x.shape[1]
    used = np.arange(cores)[:, None] != left_out
    with_own = np.flatnonzero(left_out >= 0)
    its = left_out[with_own]

    def error(chosen: list[int]) -> float:
        rest = [k for k in range(len(programs)) if k not in chosen]
        xx, xy = (np.sum([inner[i][k] for i in chosen], axis=0) for k in (0, 1))
        inverse = np.linalg.inv(xx + _HELD * np.eye(cores))
        parts = inverse @ (xy * used)
        # As if each machine's own core had not been there.
        parts[:, with_own] -= inverse[:, its] * (parts[its, with_own] / inverse[its, its])
        parts += used * (1 - parts.sum(axis=0)) / used.sum(axis=0)
        gaps = time_x[rest] @ parts - time_y[rest]
        return float((np.abs(gaps).mean(axis=1) ** _POWER).mean())

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
