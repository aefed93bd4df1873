"""What a report shows, as one JSON object."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tracekit._version import __version__
from tracekit.analysis.mrc import data_counts, fetch_counts
from tracekit.causes.names import CAUSES, GROUP_TITLES, GROUPS, TITLES
from tracekit.causes.places import Places, instruction_name, symbols_of
from tracekit.causes.stacks import stacks
from tracekit.causes.what_if import limits
from tracekit.causes.why import Why, confirmed, costly
from tracekit.errors import TracekitError, UsageError
from tracekit.io.files import open_descriptor
from tracekit.report.loop import pipeline
from tracekit.report.notes import intervals, notes
from tracekit.sim import KeptRows, period
from tracekit.store.reader import TraceFile
from tracekit.text import counted

__all__ = ["MOST_FUNCTIONS", "MOST_LINES", "MOST_MACHINES", "collect"]

F64 = npt.NDArray[np.float64]
MOST_FUNCTIONS: Final = 200
MOST_LINES: Final = 2000
MOST_MACHINES: Final = 20
_PHASES = 120
#: Rows that tell what limits the program.
_LIMIT_ROWS = 1_000_000
#: Lines of one function.
_MOST_OF_ONE = 400
_SOURCE_BYTES = 4 << 20
#: Files that a program's DWARF may name and a report may hold lines of.
_SOURCE_NAMES: Final = frozenset(
    {
        *(".c", ".h", ".cc", ".hh", ".cpp", ".hpp", ".cxx", ".hxx", ".inc", ".s", ".S", ".rs"),
        *(".go", ".d", ".f", ".f90", ".zig", ".m", ".mm", ".nim"),
    }
)
#: Of the miss-ratio curve: 1 kB to 64 MB.
_SIZES = [1 << k for k in range(10, 27)]


def collect(
    trace: TraceFile,
    machines: Sequence[Mapping[str, Any]],
    *,
    name: str | None = None,
    binary: str | None = None,
    title: str | None = None,
    command: str = "",
    threads: int | None = None,
) -> dict[str, Any]:
    """All numbers of a report; docs/json.md describes it.

    ``machines``: the first one's limits are looked for.  ``name``: of what was traced; the file's
    path unless given.  ``binary``: the program, of a trace that
    does not tell it.
    """
    if not 1 <= len(machines) <= MOST_MACHINES:
        raise UsageError(f"a report has 1 to {MOST_MACHINES} machines")
    kept = KeptRows(trace)
    phases = max(1, min(_PHASES, len(trace) // 50))
    found = stacks(kept, machines, phases=phases, threads=threads)
    tried = limits(kept, machines[0], most_rows=_LIMIT_ROWS, threads=threads)
    best = confirmed(kept, machines[0], tried, threads=threads)
    functions = Places.of(trace, "function", binary)
    count = trace.statics.count
    half = intervals(trace, kept, machines, threads)
    whole = []
    for k, m in enumerate(machines):
        one = type(found)(
            [dict(m)], found.rows, found.walked, found.breaks,
            found.places[:, k : k + 1], found.phases[:, k : k + 1],
        )  # fmt: skip
        top = costly(found.places[:, k], functions, count, 1)
        words = Why(dict(m), one, "function", [], top, None if k else best, {}).paragraph()
        cycles = float(found.cycles[k])
        whole.append(
            {
                "name": str(m.get("name", f"machine {k}")),
                "cycles": cycles,
                "seconds": cycles * period(m),
                "half_interval": _known(half, k),
                "causes": found.causes[k].tolist(),
                "paragraph": words,
            }
        )
    shown, left, sources = _functions(trace, found.places, functions, binary)
    return {
        "title": title or f"{Path(trace.path).name} on {counted(len(machines), 'machine')}",
        "rows": found.rows,
        "causes": [{"name": c, "title": TITLES[c], "group": GROUPS[c]} for c in CAUSES],
        "groups": GROUP_TITLES,
        "machines": whole,
        "phases": {
            "edges": found.breaks,
            "machines": found.phases.transpose(1, 0, 2).astype(np.int64).tolist(),
        },
        "functions": shown,
        "functions_left": left,
        "sources": sources,
        "limits": {
            "walked": tried.walked,
            "effects": [{"change": e.change.text, "gain": e.gain} for e in tried.best()],
        },
        "pipeline": pipeline(trace, machines[0], found.places[:, 0].sum(1), threads),
        "mrc": _miss_ratios(trace, machines),
        "notes": notes(trace),
        "how": _how(trace, name or trace.path, machines, command),
    }


def _known(half: F64 | None, k: int) -> float | None:
    return None if half is None or not np.isfinite(half[k]) else float(half[k])


def _most_but_base(cycles: F64) -> list[list[float]]:
    """Of machines x causes: [cycles, number of the cause of most of them but base]."""
    out = []
    for row in cycles:
        k = int(row[1:].argmax()) + 1
        out.append([float(row.sum()), k if row[k] > 0 else 0])
    return out


def _functions(
    trace: TraceFile, cycles: F64, places: Places, binary: str | None
) -> tuple[list[dict[str, Any]], int, dict[str, str]]:
    """The costliest functions on the first machine, how many more there are, and source lines."""
    n = len(places.names)
    sums = np.zeros((n, *cycles.shape[1:]))
    np.add.at(sums, places.labels, cycles)
    rows = np.bincount(places.labels, trace.statics.count, n)
    order = np.argsort(-sums[:, 0].sum(1), kind="stable").tolist()
    order = [i for i in order if rows[i]]
    symbols = symbols_of(trace, binary)
    budget, out, names = MOST_LINES, [], set()
    pc, upc = trace.statics.pc, trace.statics.upc
    for i in order[:MOST_FUNCTIONS]:
        mine = np.flatnonzero(places.labels == i)
        mine = mine[np.lexsort((upc[mine], pc[mine]))]
        keep = mine
        if len(mine) > min(budget, _MOST_OF_ONE):  # the costliest, in the order of addresses
            best = np.argsort(-cycles[mine, 0].sum(1), kind="stable")
            keep = mine[np.sort(best[: min(budget, _MOST_OF_ONE)])]
        budget -= len(keep)
        lines = []
        for s in keep.tolist():
            where = symbols.line(int(pc[s])) if symbols is not None else ""
            names.add(where)
            lines.append(
                {
                    "text": instruction_name(trace, s),
                    "line": where if where.rpartition(":")[2].isdecimal() else "",
                    "rows": int(trace.statics.count[s]),
                    "machines": _most_but_base(cycles[s]),
                }
            )
        out.append(
            {
                "name": places.names[i],
                "rows": int(rows[i]),
                "machines": _most_but_base(sums[i]),
                "lines": lines,
                "lines_left": len(mine) - len(keep) if len(keep) else 0,
            }
        )
    return out, max(0, len(order) - MOST_FUNCTIONS), _sources(names)


def _sources(names: set[str]) -> dict[str, str]:
    """The text of each ``file:line`` whose file is here: regular ones of at most 4 MiB
    with a source file's suffix."""
    texts: dict[str, list[str]] = {}
    out = {}
    for name in sorted(names):
        file, _, line = name.rpartition(":")
        if not line.isdecimal():
            continue
        if file not in texts:
            texts[file] = _source_lines(Path(file))
        if 0 < int(line) <= len(texts[file]):
            out[name] = texts[file][int(line) - 1][:200]
    return out


def _source_lines(path: Path) -> list[str]:
    """None where it is not a source file, cannot be read, or is too long: an ELF names any path."""
    if path.suffix not in _SOURCE_NAMES:
        return []
    try:
        with os.fdopen(open_descriptor(path), "rb") as f:
            data = f.read(_SOURCE_BYTES + 1)
    except (TracekitError, OSError):
        return []
    return data.decode("utf-8", "replace").splitlines() if len(data) <= _SOURCE_BYTES else []


def _miss_ratios(trace: TraceFile, machines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    line = 1 << int(trace.index["options"]["line_bits"])
    lines = [max(1, s // line) for s in _SIZES]
    marks: dict[int, list[str]] = {}
    for m in machines:
        for cache in ("l1i", "l1d", "l2", "l3"):
            if kb := int(m.get(f"{cache}_kb") or 0):
                marks.setdefault(kb * 1024, []).append(f"{m.get('name', '')} {cache.upper()}")
    return {
        "sizes": _SIZES,
        "data": data_counts(trace).curve(lines).ratios.tolist(),
        "fetch": fetch_counts(trace).curve(lines).ratios.tolist(),
        "marks": [
            {"bytes": b, "names": names, "short": "/".join(sorted({n.split()[-1] for n in names}))}
            for b, names in sorted(marks.items())
            if _SIZES[0] <= b <= _SIZES[-1]
        ],
    }


def _how(
    trace: TraceFile, name: str, machines: Sequence[Mapping[str, Any]], command: str
) -> dict[str, str]:
    out = {
        "tracekit": __version__,
        "command": command,
        "trace": name,
        "SHA-256 of its features": trace.digest(),
        "rows": f"{len(trace):,}, {trace.level}, {trace.arch}",
        "accounting": "at retirement; simulated cores, from cold caches (docs/causes.md)",
    }
    for m in machines:
        values = ", ".join(f"{k} {v}" for k, v in m.items() if k != "name")
        out[f"machine {m.get('name', '')}"] = values
    return out
