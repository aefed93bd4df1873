"""A machine with changes, each beside the machine as it is: what moves, and where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.causes.changes import HINT, Change, idealizations, parse_change, steps
from tracekit.causes.names import CAUSES, TITLES
from tracekit.causes.stacks import parameters_of, spread, stacks
from tracekit.errors import UsageError
from tracekit.sim import KeptRows, MachineLike, machine_errors, period
from tracekit.sim.parameters import joined
from tracekit.store.reader import TraceFile
from tracekit.text import counted, html_table

__all__ = ["Effect", "WhatIf", "limits", "what_if"]

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Effect:
    """``machine``: the changed one; ``seconds`` its time.  ``gain``: by how much the time falls, as
    a share of what it was.  ``causes`` and ``places``: seconds by which each grows; both add up to
    the change of time."""

    change: Change
    machine: dict[str, Any]
    cycles: float
    seconds: float
    gain: float
    causes: dict[str, float]
    places: F64


@dataclass(frozen=True)
class WhatIf:
    """``effects``: as asked for.  ``walked`` of ``rows`` rows tell them; ``seconds`` and
    ``cycles`` are of the machine as it is and those rows."""

    machine: dict[str, Any]
    rows: int
    walked: int
    cycles: float
    seconds: float
    effects: list[Effect]

    def best(self) -> list[Effect]:
        """Those that help most first."""
        return sorted(self.effects, key=lambda e: -e.gain)

    def __repr__(self) -> str:
        name = ascii(str(self.machine.get("name", "machine")))[1:-1]
        best = self.best()[0]
        return (
            f"{counted(len(self.effects), 'change')} of {name}, by {self.walked:,} of "
            f"{counted(self.rows, 'row')}; the "
            f"best is {ascii(best.change.text)[1:-1]}, {-best.gain:+.2%} time"
        )

    def _repr_html_(self) -> str:
        """For notebooks: each change, the best first, and the cause that moves most."""
        rows = []
        for e in self.best():
            most = max(e.causes, key=lambda c: abs(e.causes[c]), default=None)
            moved = f"{TITLES[most]}: {1e6 * e.causes[most]:+,.3f} us" if most is not None else ""
            time = f"{1e6 * e.seconds:,.3f} us"
            rows.append((e.change.text, time, f"{-e.gain:+.2%}", moved))
        name = self.machine.get("name", "machine")
        caption = (
            f"{name}: {1e6 * self.seconds:,.3f} us, told by {self.walked:,} of "
            f"{counted(self.rows, 'row')}"
        )
        return html_table(caption, rows, ("change", "time", "moved", "most in"))


def what_if(
    trace: TraceFile | KeptRows,
    machine: Mapping[str, Any] | MachineLike,
    changes: Sequence[str | Change],
    *,
    together: bool = False,
    labels: npt.NDArray[np.uint32] | None = None,
    ranges: Sequence[tuple[int, int]] | None = None,
    threads: int | None = None,
) -> WhatIf:
    """The time of a trace on a machine with each of ``changes`` alone; ``together``: and one more
    effect, of all of them.

    ``labels``: uint32 of each static instruction; ``places`` adds up by them, to one place unless
    given.  ``ranges``: rows that are walked instead of all.  Raises `UsageError` where a change
    makes no machine.
    """
    machine = parameters_of(machine)
    if errors := machine_errors(machine):
        raise UsageError(f"{machine.get('name', 'machine')}: {joined(errors)}")
    if not changes:
        raise UsageError("no change", hint=HINT)
    made = [parse_change(c, machine) if isinstance(c, str) else c for c in changes]
    if together and len(made) > 1:
        made.append(_together(made, changes, machine))
    machines = [machine, *(c.apply(machine) for c in made)]
    for c, m in zip(made, machines[1:], strict=True):
        if errors := machine_errors(m):
            raise UsageError(f"{c.text} makes no machine: {joined(errors)}")
    if labels is None:
        count = trace.statics if isinstance(trace, KeptRows) else len(trace.statics)
        labels = np.zeros(count, np.uint32)
    found = stacks(trace, machines, labels=labels, ranges=ranges, threads=threads)
    periods = np.array([period(m) for m in machines])
    time = found.cycles * periods
    by_cause = found.causes * periods[:, None]
    by_place = found.places.sum(2) * periods
    effects = []
    for k, c in enumerate(made, 1):
        moved = (by_cause[k] - by_cause[0]).tolist()
        effects.append(
            Effect(
                c,
                machines[k],
                float(found.cycles[k]),
                float(time[k]),
                float(1 - time[k] / time[0]) if time[0] else 0.0,
                {n: v for n, v in zip(CAUSES, moved, strict=True) if v},
                by_place[:, k] - by_place[:, 0],
            )
        )
    return WhatIf(
        machines[0], found.rows, found.walked, float(found.cycles[0]), float(time[0]), effects
    )


def _together(
    made: Sequence[Change], changes: Sequence[str | Change], machine: Mapping[str, Any]
) -> Change:
    """All of them, each of the machine that those before it made: l2_kb*2 twice is l2_kb*4."""
    changed = dict(machine)
    for c in changes:
        changed = (parse_change(c, changed) if isinstance(c, str) else c).apply(changed)
    return Change(
        " and ".join(c.text for c in made),
        {k: v for k, v in changed.items() if k not in machine or machine[k] != v},
    )


def limits(
    trace: TraceFile | KeptRows,
    machine: Mapping[str, Any] | MachineLike,
    *,
    most_rows: int | None = None,
    ideal: bool = True,
    labels: npt.NDArray[np.uint32] | None = None,
    threads: int | None = None,
) -> WhatIf:
    """Every parameter one step down and up (`steps`), and, ``ideal``, every idealisation: what
    limits this program on this machine, and what is wasted on it.

    ``most_rows``: about so many rows tell, evenly spread; all unless given.
    """
    machine = parameters_of(machine)
    if errors := machine_errors(machine):
        raise UsageError(f"{machine.get('name', 'machine')}: {joined(errors)}")
    changes = steps(machine, trace.arch) + (idealizations(machine) if ideal else [])
    ranges = spread(len(trace), most_rows) if most_rows is not None else None
    return what_if(trace, machine, changes, labels=labels, ranges=ranges, threads=threads)
