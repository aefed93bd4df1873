"""A trace's counts beside those of the gem5 run that it was made by (m5out/stats.txt).

Names are those of gem5 v19 to v24: src/cpu/base.cc, src/cpu/o3/commit.cc, src/mem/cache/base.cc.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from tracekit import _core, schema
from tracekit.errors import FormatError, UsageError
from tracekit.io.files import read_limited
from tracekit.store.instruction_bounds import is_blind
from tracekit.store.reader import TraceFile

__all__ = ["Count", "compared", "cpu_of", "read_statistics"]

MAX_FILE: Final = 256 << 20
_LINE: Final = re.compile(r"^([^\s#]+)\s+(-?[\d.]+(?:e[+-]?\d+)?)\s")
_BEGIN: Final = "Begin Simulation Statistics"
#: What of a CPU each count is in gem5, the newest name first.
_ROWS: Final = ("commitStats0.numOps", "commit.opsCommitted", "commit.committedOps", "committedOps")
_INSTRUCTIONS: Final = (
    *("commitStats0.numInsts", "commit.instsCommitted"),
    *("commit.committedInsts", "committedInsts"),
)
_LOADS: Final = ("commitStats0.numLoadInsts", "commit.loads")
_STORES: Final = ("commitStats0.numStoreInsts",)
_SQUASHED: Final = ("commit.commitSquashedInsts",)
_MISPREDICTED: Final = ("commit.branchMispredicts",)
_BRANCHES: Final = ("commitStats0.committedControl::{}", "committedControl_0::{}")
_OPS: Final = (
    *("commitStats0.committedInstType::{}", "commit.committedInstType_0::{}"),
    *("committedInstType_0::{}", "commit.op_class_0::{}"),
)
_CONTROL: Final = (
    *("IsControl", "IsDirectControl", "IsIndirectControl", "IsCondControl"),
    *("IsUncondControl", "IsCall", "IsReturn"),
)
_FILLS: Final = ("overallMshrMisses::total", "overall_mshr_misses::total")
#: How configurations call their first caches, where no config.ini tells.
_USUAL: Final = {
    "l1i": re.compile(r"(^|\.)(l1_?i|i_?cache|l1_?i_?cache|il1)$", re.I),
    "l1d": re.compile(r"(^|\.)(l1_?d|d_?cache|l1_?d_?cache|dl1)$", re.I),
}


@dataclass(frozen=True)
class Count:
    """One count of the trace beside gem5's.

    ``statistic``: gem5's name of it.  ``exact``: both count the same, so that a difference is an
    error of the trace or of its reading; ``why`` says why an approximate one may differ.
    """

    name: str
    statistic: str
    trace: float
    gem5: float
    exact: bool
    why: str = ""

    @property
    def difference(self) -> float:
        """Of the trace from gem5, in parts of gem5's; 0 where both are 0."""
        if self.trace == self.gem5:
            return 0.0
        return self.trace / self.gem5 - 1 if self.gem5 else float("inf")

    @property
    def wrong(self) -> bool:
        """Whether an exact count differs."""
        return self.exact and self.trace != self.gem5


Statistics = Mapping[str, float]


def read_statistics(path: str | os.PathLike[str], section: int | None = None) -> dict[str, float]:
    """gem5's statistics by name.

    ``section``: which of several dumps in the file, from 1.  FormatError where the file has none;
    UsageError where there are several and none is chosen, or not that many.
    """
    name = os.fspath(path)
    text = read_limited(Path(path), MAX_FILE).decode("utf-8", "replace")
    sections = text.split(_BEGIN)[1:]
    if not sections:
        raise FormatError("no gem5 statistics", path=name, hint="gem5 writes them to m5out")
    if section is None and len(sections) > 1:
        raise UsageError(
            f"{len(sections)} dumps of statistics", path=name, hint="--section N picks one, from 1"
        )
    if section is not None and not 1 <= section <= len(sections):
        raise UsageError(f"section {section} of {len(sections)}", path=name)
    chosen = sections[(section or 1) - 1]
    found = {m[1]: float(m[2]) for line in chosen.splitlines() if (m := _LINE.match(line))}
    if not found:
        raise FormatError("no gem5 statistics: the dump is empty", path=name)
    return found


def cpu_of(statistics: Statistics, path: str, named: str) -> str:
    """Which CPU of the run a trace is of: the one that is named, or the only one.

    UsageError where there is no such one, or several and none is named.
    """
    cpus = [n.removesuffix(".numCycles") for n in statistics if n.endswith(".numCycles")]
    if named in cpus:
        return named
    if not named and len(cpus) == 1:
        return cpus[0]
    what = f"no CPU {named}" if named else "the trace names no CPU"
    raise UsageError(f"{what}; there are {', '.join(cpus) or 'none'}", path=path, hint="--cpu")


class _Run:
    """The statistics of one CPU."""

    def __init__(self, statistics: Statistics, cpu: str) -> None:
        self._all, self._cpu = statistics, cpu

    def find(self, names: tuple[str, ...], of: str = "") -> tuple[str, float] | None:
        """The first of these names that there is, and its value.  ``of`` stands for {}: of a
        vector, whose zeros gem5 may leave out."""
        for name in names:
            full = f"{self._cpu}.{name.format(of)}"
            if full in self._all:
                return full, self._all[full]
            if of and f"{self._cpu}.{name.format('total')}" in self._all:
                return full, 0.0
        return None

    def members(self, names: tuple[str, ...]) -> list[str]:
        """The members of a vector."""
        for name in names:
            prefix = f"{self._cpu}.{name.format('')}"
            found = [n.removeprefix(prefix) for n in self._all if n.startswith(prefix)]
            if found:
                return [n for n in found if n != "total"]
        return []

    def fills(self, level: str, path: str | None) -> tuple[str, float] | None:
        """The misses of a cache that were its first for a line: those that got an entry."""
        for name, value in self._all.items():
            for end in _FILLS:
                cache = name.removesuffix(f".{end}")
                known = cache == path if path else _USUAL[level].search(cache) is not None
                if cache != name and known:
                    return name, value
        return None


def compared(
    trace: TraceFile,
    statistics: Statistics,
    cpu: str,
    *,
    l1i: tuple[int, int] | None = None,
    l1d: tuple[int, int] | None = None,
    caches: Mapping[str, str] | None = None,
    simulated: float | None = None,
) -> list[Count]:
    """The counts that both have.

    ``l1i``, ``l1d``: kB and ways of these caches, whose misses are counted then, and ``caches``
    their names in gem5, found by what they are usually called unless given.  ``simulated``: cycles
    of the trace by `tracekit.simulate`.

    UsageError for a trace that holds a part of the run.
    """
    options = trace.index["options"]
    if options.get("start") or options.get("count") is not None:
        raise UsageError(
            "a part of a trace (--start, --count), where gem5's statistics are of the whole",
            path=trace.path,
        )
    run = _Run(statistics, cpu)
    found = [*_committed(trace, run), *_squashed(trace, run), *_cycles(trace, run, simulated)]
    for level, shape in (("l1i", l1i), ("l1d", l1d)):
        if shape is not None:
            found += _misses(trace, run, level, shape, (caches or {}).get(level))
    if not found:
        raise UsageError(f"no statistic of {cpu} that a trace has, too", path=trace.path)
    return found


def _committed(trace: TraceFile, run: _Run) -> Iterator[Count]:
    table = trace.statics
    rows = trace["static_id"][~trace["fault"]]
    ran = np.bincount(rows, minlength=len(table))
    micro = trace.level == "micro"
    blind = is_blind(trace)
    why = "O3PipeView alone does not show traps" if blind else ""
    exact = micro and not blind

    def count(name: str, names: tuple[str, ...], value: int, of: str = "") -> Iterator[Count]:
        if (known := run.find(names, of)) is not None:
            text = why or ("gem5 counts micro-ops" if not micro else "")
            yield Count(name, *_pair(known, value), exact, "" if exact else text)

    if micro:
        yield from count("rows", _ROWS, int(ran.sum()))
    if not blind and (known := run.find(_INSTRUCTIONS)) is not None:
        ended = int(ran[table.ends()].sum())
        text = "" if micro else "a joined instruction counts as trapped where one micro-op did"
        yield Count("instructions", *_pair(known, ended), micro, text)
    yield from count("loads", _LOADS, int(ran[table.has("IsLoad")].sum()))
    yield from count("stores", _STORES, int(ran[table.has("IsStore")].sum()))
    for flag in _CONTROL:
        yield from count(flag, _BRANCHES, int(ran[table.has(flag)].sum()), flag)
    if micro:
        ops: dict[str, int] = {}
        for i in np.flatnonzero(ran).tolist():
            ops[table.op_name(i)] = ops.get(table.op_name(i), 0) + int(ran[i])
        for op in dict.fromkeys((*ops, *run.members(_OPS))):
            known = run.find(_OPS, op)
            if known is not None and (ops.get(op) or known[1]):
                yield from count(f"op {op}", _OPS, ops.get(op, 0), op)


def _pair(known: tuple[str, float], value: float) -> tuple[str, float, float]:
    """Statistic, the trace's number, gem5's number."""
    return known[0], float(value), known[1]


def _squashed(trace: TraceFile, run: _Run) -> Iterator[Count]:
    source = trace.index["source"]
    if "squashed" in source and "all_cpus" not in source and (known := run.find(_SQUASHED)):
        why = "the trace's were fetched and never committed, gem5's had reached the reorder buffer"
        yield Count("squashed", *_pair(known, source["squashed"]), False, why)
    wrong = trace["mispredicted"]
    if wrong.any() and (known := run.find(_MISPREDICTED)):
        why = "the trace's are those of committed branches"
        yield Count("mispredicted", *_pair(known, int(wrong.sum())), False, why)


def _cycles(trace: TraceFile, run: _Run, simulated: float | None) -> Iterator[Count]:
    known = run.find(("numCycles",))
    if known is None:
        return
    if trace.timed:
        cycles = float(trace.targets("ticks").sum()) / trace.clock_ps
        yield Count("cycles", *_pair(known, cycles), False, "the trace's begin with its first row")
    if simulated is not None and not is_blind(trace):
        why = "by tracekit's simulator"
        yield Count("cycles simulated", *_pair(known, simulated), False, why)


def _misses(
    trace: TraceFile, run: _Run, level: str, shape: tuple[int, int], path: str | None
) -> Iterator[Count]:
    """Lines that a cache brings for the committed rows in their order."""
    known = run.fills(level, path)
    if known is None or (level == "l1d" and is_blind(trace)):
        return
    line = np.uint64(6)
    if level == "l1d":
        rows = trace["is_mem"] & ~trace["fault"]
        lines: npt.NDArray[np.uint64] = trace["addr"][rows] >> line
    else:
        lines = trace["pc"] >> line
        lines = lines[np.flatnonzero(np.diff(lines.view(np.int64), prepend=-1))]
    hits = _core.cache_hits(*shape, np.ascontiguousarray(lines), 0)
    why = "the trace's are of committed rows in order, by LRU, without prefetches"
    yield Count(f"{level} misses", *_pair(known, int((~hits.astype(bool)).sum())), False, why)


assert set(_CONTROL) <= set(schema.FLAGS)
