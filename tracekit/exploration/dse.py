"""Design-space exploration: every design of a grid is a simulated core with its parameters, and
what the cores get wrong is learnt from the few designs whose times are known."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.errors import FormatError, UsageError, values_of_a_file
from tracekit.exploration.intervals import design_intervals, tied_with_best
from tracekit.exploration.objective import Expression
from tracekit.io.files import read_json
from tracekit.io.json_types import finite_or_null
from tracekit.progress import Progress
from tracekit.sim import (
    Machine,
    SampledCycles,
    SamplePlan,
    machine_errors,
    machine_notes,
    sampled_totals,
    totals,
)
from tracekit.sim.clock import period
from tracekit.sim.machine import gem5_parameters
from tracekit.sim.parameters import joined, suggestion
from tracekit.sim.spread import Spread, spread_totals
from tracekit.store.reader import TraceFile
from tracekit.text import counted

__all__ = ["Space", "explore", "load_space", "pareto"]

F64 = npt.NDArray[np.float64]
MAX_DESIGNS = 4096
#: Designs that are walked together, each with its caches: more than these in turn.
_TOGETHER = 1024
#: Known cycles from which a correction is learnt; of fewer it would be noise.
_LEAST_KNOWN = 3


class Space:
    """A base machine and the values of the parameters that vary."""

    def __init__(
        self, base: Mapping[str, Any], vary: Mapping[str, Sequence[Any]], path: str
    ) -> None:
        if not vary:
            raise UsageError("no parameter varies", path=path)
        if unknown := [k for k in vary if k not in base]:
            parts = [f"{k}{suggestion(k, base)}" for k in unknown]
            raise UsageError(f"{', '.join(parts)} is no parameter of the base machine", path=path)
        if "name" in vary:
            raise UsageError("a name is no parameter that varies", path=path)
        if any(not isinstance(v, list) or not v for v in vary.values()):
            raise UsageError("vary: a list of values for each parameter", path=path)
        for k, values in vary.items():
            if twice := [v for i, v in enumerate(values) if v in values[:i]]:
                raise UsageError(f"vary: {k} has {twice[0]!r} twice", path=path)
        count = int(np.prod([len(v) for v in vary.values()], dtype=object))
        if count > MAX_DESIGNS:
            raise UsageError(f"{count} designs; at most {MAX_DESIGNS}", path=path)
        self.vary = {k: list(v) for k, v in vary.items()}
        self.points = [
            dict(zip(vary, values, strict=True)) for values in itertools.product(*vary.values())
        ]
        self.machines = [{**base, **p, "name": f"design{i}"} for i, p in enumerate(self.points)]
        if errors := [e for m in self.machines for e in machine_errors(m)]:
            raise UsageError(joined(errors), path=path)
        #: What gem5 could not run, each once.
        self.notes = list(dict.fromkeys(n for m in self.machines for n in machine_notes(m)))

    def numbers(self) -> dict[str, F64]:
        """Each parameter that is a number: its values by design."""
        return {
            k: np.array([float(m[k]) for m in self.machines])
            for k, v in self.machines[0].items()
            if isinstance(v, int | float) and not isinstance(v, bool)
        }

    def values(self, expression: str) -> F64:
        """An expression of the parameters, by design; UsageError where it has other names."""
        found = Expression(expression)(self.numbers())
        return np.broadcast_to(found, len(self.points)).astype(np.float64)


def load_space(path: str | Path) -> Space:
    """{"base": machine, "vary": {"l1d_kb": [4, 8], …}} as JSON.  The machine is an object of
    parameters, a name, or a file beside this one."""
    path = Path(path)
    data = read_json(path)
    if not isinstance(data, dict) or not isinstance(data.get("vary"), dict):
        raise FormatError("a space has base, a machine, and vary, an object", path=str(path))
    if unknown := sorted(data.keys() - {"base", "vary"}):
        raise FormatError(
            f"unknown {', '.join(unknown)}: a space has base and vary", path=str(path)
        )
    return Space(_base(data.get("base"), path), data["vary"], str(path))


def _base(what: object, path: Path) -> dict[str, Any]:
    if isinstance(what, str):
        beside = path.parent / what
        with values_of_a_file(path, "base"):
            return Machine.load(beside if beside.is_file() else what).to_dict()
    if not isinstance(what, dict):
        raise FormatError("base: a machine's parameters, name or file", path=str(path))
    return gem5_parameters(what, path, "base ")


def load_known(path: str | Path) -> dict[str, dict[int, float]]:
    """{program: {number of a design: cycles}} as JSON; `FormatError` for anything else."""
    data = read_json(path)

    def bad(where: str, what: str) -> FormatError:
        return FormatError(f"{where}: {what}" if where else what, path=str(path))

    if not isinstance(data, dict):
        raise bad("", "an object: {program: {number of a design: cycles}}")
    out: dict[str, dict[int, float]] = {}
    for program, designs in data.items():
        if not isinstance(designs, dict):
            raise bad(program, "an object: {number of a design: cycles}")
        for number, cycles in designs.items():
            if not re.fullmatch(r"0|[1-9][0-9]{0,8}", number):
                raise bad(program, f"{number!r} is no design's number")
            plain = isinstance(cycles, int | float) and not isinstance(cycles, bool)
            if not plain or not abs(cycles) < 1e300:
                raise bad(program, f"design {number}: its cycles are no number")
        out[program] = {int(d): float(c) for d, c in designs.items()}
    return out


def explore(
    space: Space,
    traces: Mapping[str, TraceFile],
    objective: str,
    known: Mapping[str, Mapping[int, float]] | None = None,
    threads: int | None = None,
    *,
    quiet: bool = True,
    spread: Spread | None = None,
    samples: SamplePlan | None = None,
) -> dict[str, Any]:
    """Every design's cycles and objective for each trace, the best one first, with intervals and
    which designs they do not tell from the best.

    ``known``: cycles of some programs on some designs (by number): the ratio of known to computed
    cycles, averaged over programs and smoothed over the designs' parameters (in logarithms, by
    ridge regression), is what corrects all others; a note says where they are too few.  The
    objective may use each parameter that varies, ``cycles``, ``time`` (seconds) and the base
    machine's numbers.  ``quiet``: no progress on standard error; ``spread``: who walks the traces
    instead; ``samples``: of which rows the cycles are estimated, all unless given (not with
    ``spread``).
    """
    expression = Expression(objective)
    numbers = space.numbers()
    expression.check_names({*numbers, "cycles", "time"})  # walking may take hours
    _check_known(space, traces, known or {})
    sampled: dict[str, SampledCycles] = {}
    if spread is not None:
        if samples is not None:
            raise UsageError("samples are not spread")
        found = spread_totals(spread, list(traces.values()), space.machines)
        raw = {name: x[0] for name, x in zip(traces, found, strict=True)}
    elif samples is not None:
        sampled = _sampled(space, traces, samples, threads, quiet)
        raw = {name: s.cycles for name, s in sampled.items()}
    else:
        raw = _walked(space, traces, threads, quiet)
    factor, unused = _correction(space, raw, known or {})
    periods = np.array([period(m) for m in space.machines])
    out: dict[str, Any] = {
        "objective": objective,
        "designs": space.points,
        "notes": [*space.notes, *unused],
        "programs": {},
    }
    for name, cycles in raw.items():
        predicted = cycles * factor

        def value(cycles: F64) -> F64:
            values = expression({**numbers, "cycles": cycles, "time": cycles * periods})
            return np.broadcast_to(values, cycles.shape)

        values = value(predicted)
        order = np.argsort(values, kind="stable")
        best = int(order[0])
        intervals, of_two = design_intervals(
            traces[name], space.machines, predicted, sampled.get(name)
        )
        out["programs"][name] = {
            "cycles": predicted.tolist(),
            "objective": values.tolist(),
            "ranking": order.tolist(),
            "best": space.points[best],
            "half_interval": _numbers(intervals.half),
            "model_half_interval": _numbers(intervals.model),
            "sampling_half_interval": _numbers(intervals.sampling),
            "tied_with_best": tied_with_best(predicted, best, value, intervals, of_two).tolist(),
            "samples": intervals.samples,
            "strange": intervals.strange,
            "warnings": list(intervals.warnings),
        }
    return out


def _numbers(values: F64) -> list[float | None]:
    return [finite_or_null(x) for x in values]


def _sampled(
    space: Space,
    traces: Mapping[str, TraceFile],
    plan: SamplePlan,
    threads: int | None,
    quiet: bool,
) -> dict[str, SampledCycles]:
    """Each trace's cycles on each design, from samples."""
    if len(space.machines) > _TOGETHER:
        raise UsageError(f"{len(space.machines)} designs; from samples at most {_TOGETHER}")
    out: dict[str, SampledCycles] = {}
    for name, t in traces.items():
        with Progress(
            f"{counted(len(space.points), 'design')}, {name}", len(t), quiet=quiet
        ) as progress:
            out[name] = sampled_totals(t, space.machines, plan, threads, progress.update)
    return out


def _walked(
    space: Space, traces: Mapping[str, TraceFile], threads: int | None, quiet: bool
) -> dict[str, F64]:
    """Each trace's cycles on each design."""
    out: dict[str, F64] = {}
    machines = space.machines
    batches = [machines[k : k + _TOGETHER] for k in range(0, len(machines), _TOGETHER)]
    rows, before = len(batches) * sum(len(t) for t in traces.values()), 0
    with Progress(counted(len(space.points), "design"), rows, quiet=quiet) as progress:
        for name, t in traces.items():
            found = []
            for batch in batches:

                def report(done: int, name: str = name, before: int = before) -> None:
                    progress.update(before + done, name)

                found.append(totals(t, batch, None, threads, report)[0])
                before += len(t)
            out[name] = np.concatenate(found)
    return out


def _check_known(
    space: Space, programs: Iterable[str], known: Mapping[str, Mapping[int, float]]
) -> None:
    """Raises UsageError for known cycles of no program, of no design, or that are none."""
    programs = list(programs)
    for program, values in known.items():
        if program not in programs:
            raise UsageError(
                f"cycles of {program} are known, but it is not among the traces",
                hint=f"they are {', '.join(programs)}",
            )
        for design, cycles in values.items():
            if not 0 <= design < len(space.points) or not 0 < cycles < math.inf:
                raise UsageError(
                    f"{program}: design {design} or its cycles {cycles} is out of range"
                )


def _correction(
    space: Space, raw: Mapping[str, F64], known: Mapping[str, Mapping[int, float]]
) -> tuple[F64, list[str]]:
    """One factor a design, and notes of why known cycles correct nothing."""
    n = len(space.points)
    at, ratios = [], []
    for program, values in known.items():
        logs = [(d, float(np.log(cycles / raw[program][d]))) for d, cycles in values.items()]
        mean = float(np.mean([x for _, x in logs])) if logs else 0.0
        at += [d for d, _ in logs]
        ratios += [
            x - mean for _, x in logs
        ]  # a program's own error says nothing about the designs
    if len(at) < _LEAST_KNOWN:
        few = f"known cycles of {len(at)} designs correct nothing: {_LEAST_KNOWN} at least"
        return np.ones(n), [few] if known else []
    columns = []
    for k, v in space.vary.items():
        if len(v) > 1 and all(isinstance(x, int | float) and x > 0 for x in v):
            x = np.log2([float(p[k]) for p in space.points])
            columns.append((x - x.mean()) / max(float(x.std()), 1e-9))
    if not columns:
        return np.ones(n), ["known cycles correct nothing: no number above 0 varies"]
    x = np.stack(
        [*columns, *(a * b for a, b in itertools.combinations_with_replacement(columns, 2))], 1
    )
    a, b = x[at] - x[at].mean(axis=0), np.array(ratios)
    w = np.linalg.solve(a.T @ a + 0.3 * len(at) / 10 * np.eye(x.shape[1]), a.T @ b)
    return np.asarray(np.exp((x - x.mean(axis=0)) @ w)), []


def pareto(cost: F64, time: F64) -> npt.NDArray[np.bool_]:
    """Designs that no other one beats in both."""
    better = (cost[None] <= cost[:, None]) & (time[None] <= time[:, None])
    strictly = (cost[None] < cost[:, None]) | (time[None] < time[:, None])
    return np.asarray(~(better & strictly).any(axis=1))
