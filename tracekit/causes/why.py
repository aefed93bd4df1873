"""Why a program takes the time that it takes on a machine: the answer in words, and what it stands
on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.causes.names import CAUSES, GROUP_TITLES, GROUPS, TITLES
from tracekit.causes.places import By, Places, symbols_of
from tracekit.causes.stacks import Stacks, parameters_of, spread, stacks
from tracekit.causes.what_if import Effect, WhatIf, limits, what_if
from tracekit.sim import KeptRows, MachineLike, period
from tracekit.store.reader import TraceFile
from tracekit.text import html_table, shown

__all__ = ["MOST_ROWS", "Costly", "Why", "costly", "why"]

#: Rows that all changes are tried on, and those that a few of them are then tried on again.
MOST_ROWS, CONFIRMED_ROWS = 100_000, 2_000_000
_CONFIRMED = 10


@dataclass(frozen=True)
class Costly:
    """A place: its ``cycles``, the cause of most of them but base (base where there is no other),
    and that cause's cycles.  ``rows``: how often its instructions were executed."""

    name: str
    cycles: float
    cause: str
    of_cause: float
    rows: int


@dataclass(frozen=True)
class Why:
    """``stacks``: of one machine.  ``places``: costliest first, by ``by``; ``functions`` likewise.
    ``changes``: None where they were not tried, else the steps of one parameter that may help."""

    machine: dict[str, Any]
    stacks: Stacks
    by: str
    places: list[Costly]
    functions: list[Costly]
    changes: WhatIf | None
    problems: dict[str, str]
    function_of: Places | None = None

    @property
    def cycles(self) -> float:
        """Of the whole trace."""
        return float(self.stacks.cycles[0])

    @property
    def seconds(self) -> float:
        """Of the whole trace."""
        return self.cycles * period(self.machine)

    def helpful(self, count: int = 3) -> list[Effect]:
        """The changes of most gain, one a parameter, the clock left out."""
        out: list[Effect] = []
        seen = {"clock_ghz"}
        for e in self.changes.best() if self.changes is not None else []:
            (parameter,) = e.change.set
            if parameter not in seen and e.gain > 0.0005:
                seen.add(parameter)
                out.append(e)
        return out[:count]

    def folded(self) -> str:
        """Folded stacks, for speedscope and flame graphs: ``function;cause cycles`` a line."""
        if self.function_of is None:
            return ""
        sums = np.zeros((len(self.function_of.names), len(CAUSES)))
        np.add.at(sums, self.function_of.labels, self.stacks.places[:, 0])
        names = [shown(n).replace(";", ":") for n in self.function_of.names]
        return "".join(
            f"{names[i]};{TITLES[CAUSES[k]]} {sums[i, k]:.0f}\n" for i, k in np.argwhere(sums > 0)
        )

    def paragraph(self) -> str:
        """The answer in plain words."""
        return " ".join(_sentences(self))

    def __repr__(self) -> str:
        return ascii(_sentences(self)[0])[1:-1]

    def _repr_html_(self) -> str:
        """For notebooks: the paragraph, the stack, and the places that cost most."""
        total = self.cycles or 1.0

        def amount(n: float) -> tuple[str, str]:
            return f"{n:,.0f}", f"{n / total:.1%}"

        stack = sorted(self.stacks.of(0).items(), key=lambda kv: (-kv[1], kv[0]))
        causes = [(TITLES[c], *amount(n)) for c, n in stack if n]
        places = [
            (p.name, *amount(p.cycles), f"{p.rows:,}", TITLES[p.cause]) for p in self.places[:10]
        ]
        head = (self.by, "cycles", "share", "executed", "most but base")
        return html_table(self.paragraph(), causes, ("cause", "cycles", "share")) + html_table(
            "", places, head
        )


def why(
    trace: TraceFile,
    machine: Mapping[str, Any] | MachineLike,
    *,
    binary: str | None = None,
    changes: bool = True,
    phases: int = 1,
    threads: int | None = None,
) -> Why:
    """Walks a trace through a core with the parameters of ``machine``.

    ``binary``: the program, of a trace that does not tell it.  ``changes``: tries every parameter
    one step up and down on evenly spread rows, and what helps there on all (`confirmed`).
    ``phases``: equal ranges of rows that the stacks tell apart.
    """
    machine = parameters_of(machine)
    kept = KeptRows(trace)
    found = stacks(kept, [machine], phases=phases, threads=threads)
    named = symbols_of(trace, binary) is not None
    by: By = "line" if named else "instruction"
    places = Places.of(trace, by, binary)
    functions = Places.of(trace, "function", binary)
    tried = None
    if changes:
        all_steps = limits(kept, machine, most_rows=MOST_ROWS, ideal=False, threads=threads)
        tried = confirmed(kept, machine, all_steps, threads=threads)
    count = trace.statics.count
    return Why(
        machine,
        found,
        by,
        costly(found.places[:, 0], places, count),
        costly(found.places[:, 0], functions, count),
        tried,
        places.problems,
        functions,
    )


def confirmed(
    trace: KeptRows, machine: Mapping[str, Any], tried: WhatIf, *, threads: int | None = None
) -> WhatIf:
    """The ten best steps of one parameter, the clock left out, on all rows (on
    `CONFIRMED_ROWS` of them, evenly spread, where there are more): a few rows from cold caches say
    too much of misses."""
    best = [
        e.change
        for e in tried.best()
        if e.gain > 0 and len(e.change.set) == 1 and "clock_ghz" not in e.change.set
        if not next(iter(e.change.set)).startswith("ideal_")
    ][:_CONFIRMED]
    if not best or tried.walked == tried.rows:
        return replace(tried, effects=[e for e in tried.effects if e.change in best])
    ranges = spread(len(trace), CONFIRMED_ROWS)
    return what_if(trace, machine, best, ranges=ranges, threads=threads)


def costly(
    cycles: npt.NDArray[np.float64], places: Places, rows: npt.NDArray[Any], most: int | None = None
) -> list[Costly]:
    """Places by their cycles, most first.  ``cycles``: static instructions x causes; ``rows``:
    executions of each."""
    n = len(places.names)
    sums = np.zeros((n, len(CAUSES)))
    np.add.at(sums, places.labels, cycles)
    times = np.bincount(places.labels, rows, n)
    total = sums.sum(1)
    out = []
    for i in np.argsort(-total, kind="stable")[:most].tolist():
        if total[i] <= 0:
            break
        k = int(sums[i, 1:].argmax()) + 1
        k = k if sums[i, k] > 0 else 0
        out.append(
            Costly(places.names[i], float(total[i]), CAUSES[k], float(sums[i, k]), int(times[i]))
        )
    return out


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.095 else f"{100 * share:.1f} %"


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def _sentences(w: Why) -> list[str]:
    stack, total = w.stacks.of(0), w.cycles or 1.0
    width = int(w.machine["width"])
    name = str(w.machine.get("name", "the machine"))
    out = [
        f"{w.stacks.rows:,} rows take {w.cycles:,.0f} cycles on {name}"
        f" ({w.cycles / w.stacks.rows:.2f} a row; {_time(w.seconds)})."
    ]
    base = stack["base"] / total
    others = sorted(((n, c) for c, n in stack.items() if c != "base" and n), reverse=True)
    if not others or base > 0.8:
        out.append(
            f"{_percent(base)} of that is what {width} a cycle take at least: this machine hardly"
            " waits."
        )
        if not others:
            return out
    else:
        out.append(f"Width alone would take {_percent(base)} of that.")
    said = [
        f"{_percent(n / total)} {'goes' if k == 0 else 'more'} to {TITLES[c]}"
        for k, (n, c) in enumerate(others[:3])
        if k == 0 or n / total >= 0.03
    ]
    sentence = said[0] if len(said) == 1 else f"{', '.join(said[:-1])} and {said[-1]}"
    out.append(f"{sentence}.")
    groups = w.stacks.groups()[0]
    group = max((g for g in groups if g != "retiring"), key=groups.__getitem__)
    if GROUPS[others[0][1]] != group:
        share = _percent(groups[group] / total)
        out.append(f"Together, the {GROUP_TITLES[group]} has the largest part: {share}.")
    if w.functions:
        f = w.functions[0]
        at = f"{f.name} has {_percent(f.cycles / total)} of the cycles"
        out.append(f"{at}, most of them for {TITLES[f.cause]}.")
    helpful = w.helpful()
    if w.changes is not None:
        if helpful:
            each = [f"{e.change.text} ({_percent(e.gain)} less time)" for e in helpful]
            out.append(f"What would help most, one step of one parameter: {', '.join(each)}.")
        else:
            out.append("No single step of a parameter but the clock helps.")
    return out
