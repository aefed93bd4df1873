"""Two stacks side by side: where the difference of time sits, by cause and by place."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.causes.names import CAUSES, TITLES
from tracekit.causes.places import By, Places, symbols_of
from tracekit.causes.stacks import parameters_of, period_ps, stacks
from tracekit.errors import UsageError
from tracekit.sim import MachineLike
from tracekit.store.reader import TraceFile
from tracekit.text import html_table

__all__ = ["Difference", "explain"]

I64 = npt.NDArray[np.int64]
#: Causes and places that a notebook's table names; the others are one line.
_SHOWN = 20


@dataclass(frozen=True)
class Difference:
    """B against A.  ``picoseconds``: of both.  ``parts``: place -> cause -> picoseconds by which B
    takes longer there; whole numbers, which add up to the difference without remainder.  ``by``:
    what a place is.  ``rows``: of both."""

    by: str
    picoseconds: tuple[int, int]
    rows: tuple[int, int]
    parts: dict[str, dict[str, int]]
    problems: dict[str, str]

    @property
    def moved(self) -> int:
        """Picoseconds by which B takes longer."""
        return self.picoseconds[1] - self.picoseconds[0]

    @property
    def causes(self) -> dict[str, int]:
        """Cause -> picoseconds by which B takes longer, in the order of `CAUSES`."""
        sums: Counter[str] = Counter()
        for row in self.parts.values():
            for cause, n in row.items():
                sums[cause] += n
        return {c: sums[c] for c in CAUSES if sums[c]}

    @property
    def places(self) -> dict[str, int]:
        """Place -> picoseconds by which B takes longer, the largest part first."""
        sums = {name: sum(row.values()) for name, row in self.parts.items()}
        return dict(sorted(sums.items(), key=lambda kv: (-abs(kv[1]), kv[0])))

    def tables(self, most: int) -> dict[str, list[tuple[str, int]]]:
        """ "cause" and ``by`` -> names and picoseconds by which B takes longer, the largest part
        first; those behind the first ``most`` are one more, so that each adds up."""
        by_cause = sorted(self.causes.items(), key=lambda c: -abs(c[1]))
        parts = {
            "cause": [(TITLES[c], n) for c, n in by_cause],
            self.by: list(self.places.items()),
        }
        for kind, each in parts.items():
            if rest := each[most:]:
                more = f"{len(rest):,} more", sum(n for _, n in rest)
                parts[kind] = [*each[:most], more]
        return parts

    def __repr__(self) -> str:
        a, b = self.picoseconds
        change = f" ({self.moved / a:+.2%})" if a else ""
        return f"{a * 1e-6:,.3f} us against {b * 1e-6:,.3f} us{change}, by {self.by} and cause"

    def _repr_html_(self) -> str:
        """For notebooks: two tables, by cause and by place; each adds up to the difference."""
        out = ""
        for kind, parts in self.tables(_SHOWN).items():
            rows = [(name, f"{n * 1e-6:+,.3f} us") for name, n in parts]
            rows.append(("together", f"{self.moved * 1e-6:+,.3f} us"))
            out += html_table(
                repr(self) if kind == "cause" else "", rows, (kind, "B takes longer by")
            )
        return out


def explain(
    a: TraceFile,
    b: TraceFile,
    machine_a: Mapping[str, Any] | MachineLike,
    machine_b: Mapping[str, Any] | MachineLike,
    *,
    by: By = "function",
    binary_a: str | None = None,
    binary_b: str | None = None,
    threads: int | None = None,
) -> Difference:
    """Why trace ``b`` on ``machine_b`` takes another time than trace ``a`` on ``machine_a``.

    One program on two machines (``a`` is ``b``), or two versions of a program on one machine: their
    functions belong together by name, their lines by file, function and number within it.  Where a
    trace has no symbols, blocks do whose instructions are the same but for addresses, in the order
    of their addresses.
    """
    machine_a, machine_b = parameters_of(machine_a), parameters_of(machine_b)
    same = a is b or a.path == b.path
    if same:
        places = Places.of(a, by, binary_a or binary_b)
        found = stacks(a, [machine_a, machine_b], labels=places.labels, threads=threads)
        sides = [(places.names, found.places[:, 0]), (places.names, found.places[:, 1])]
        problems = places.problems
    else:
        names = [symbols_of(t, x) for t, x in ((a, binary_a), (b, binary_b))]
        if by == "instruction":
            raise UsageError("two programs have no instructions in common: by function or line")
        blocks = None in names
        sides, problems = [], {}
        for t, m, x in ((a, machine_a, binary_a), (b, machine_b, binary_b)):
            places = _blocks(t) if blocks else _versioned(t, by, x)
            found = stacks(t, [m], labels=places.labels, threads=threads)
            sides.append((places.names, found.places[:, 0]))
            problems |= places.problems
        by = "block" if blocks else by  # type: ignore[assignment]
    periods = period_ps(machine_a), period_ps(machine_b)
    return _difference(by, sides, periods, (len(a), len(b)), problems)


def _difference(
    by: str,
    sides: list[tuple[list[str], Any]],
    periods: tuple[int, int],
    rows: tuple[int, int],
    problems: dict[str, str],
) -> Difference:
    parts: dict[str, dict[str, int]] = {}
    totals = [0, 0]
    for k, (names, cycles) in enumerate(sides):
        time: I64 = np.rint(cycles).astype(np.int64) * periods[k]
        totals[k] = int(time.sum())
        for i, j in zip(*(x.tolist() for x in np.nonzero(time)), strict=True):
            row = parts.setdefault(names[i], {})
            row[CAUSES[j]] = row.get(CAUSES[j], 0) + (1 if k else -1) * int(time[i, j])
    parts = {name: {c: row[c] for c in CAUSES if row.get(c)} for name, row in parts.items()}
    return Difference(
        by, (totals[0], totals[1]), rows, {n: r for n, r in parts.items() if r}, problems
    )


def _versioned(trace: TraceFile, by: By, binary: str | None) -> Places:
    """Places without the program's name, and lines counted from their function's first: those of
    two versions are alike."""
    places = Places.of(trace, "function", binary)
    functions = [n.partition(":")[2] or n for n in places.names]
    if by == "function":
        return Places(by, functions, places.labels, places.problems)
    lines = Places.of(trace, "line", binary)
    each = [
        (functions[f], *_file_and_line(lines.names[n]))
        for f, n in zip(places.labels.tolist(), lines.labels.tolist(), strict=True)
    ]
    first: dict[tuple[str, str], int] = {}
    for function, file, line in each:
        if line is not None:
            key = function, file
            first[key] = min(line, first.get(key, line))
    texts = [
        f"{file}:{function}+{line - first[function, file]}" if line is not None else function
        for function, file, line in each
    ]
    return _numbered(by, texts, places.problems)


def _file_and_line(name: str) -> tuple[str, int | None]:
    file, colon, line = name.rpartition(":")
    if not colon or not line.isdecimal():
        return name, None
    return file.rpartition("/")[2], int(line)


_ADDRESS = re.compile(r"0x[0-9a-fA-F]+|[#$]-?\d+|<[^>]*>")


def _blocks(trace: TraceFile) -> Places:
    """Straight runs of code by their instructions without addresses; the same ones are told apart
    by the order of their addresses."""
    s = trace.statics
    order = np.lexsort((s.upc, s.pc)).tolist()
    texts = [_ADDRESS.sub("@", t.strip()) for t in s.disassembly]
    branch, pcs = s.branch.tolist(), s.pc.tolist()
    names: list[str] = [""] * len(order)
    times: Counter[str] = Counter()

    def close(block: list[int]) -> None:
        lines = [texts[i] for i in block]
        key = " ; ".join(lines)
        times[key] += 1
        shown = "; ".join(lines[:3]) + ("; …" if len(lines) > 3 else "")
        name = f"{shown} ({len(lines)} instructions, {_hash(key)}, no. {times[key]})"
        for i in block:
            names[i] = name

    block: list[int] = []
    for i in order:
        if block and (branch[block[-1]] or not 0 <= pcs[i] - pcs[block[-1]] <= 16):
            close(block)
            block = []
        block.append(i)
    if block:
        close(block)
    return _numbered("function", names, {})


def _hash(text: str) -> str:
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _numbered(by: By, each: list[str], problems: dict[str, str]) -> Places:
    names = list(dict.fromkeys(each))
    number = {n: k for k, n in enumerate(names)}
    return Places(by, names, np.array([number[n] for n in each], np.uint32), problems)
