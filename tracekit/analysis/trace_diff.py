"""Two traces of one program side by side: which rows are the same ones, and where their values
differ."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tracekit import features, schema
from tracekit.analysis.alignment import align
from tracekit.errors import UsageError
from tracekit.opening import open_trace
from tracekit.store.reader import TraceFile
from tracekit.symbols import AddressMap

Array = npt.NDArray[Any]

_NO_COLUMN: Final = ("static_id", "bits", "pc", "untimed")
_SHARE_OF_A_MOVE: Final = 0.001
"""A difference of addresses counts as memory that lies elsewhere from this share of them on."""
_MOVES: Final = 8


@dataclass
class Example:
    """An instruction whose rows differ: how many, and the values of the first such row."""

    pc: int
    text: str
    rows: int
    a: Any
    b: Any


@dataclass
class ColumnDiff:
    """``rows``: matched rows where the column has a value in either trace."""

    rows: int
    equal: int
    examples: list[Example] = field(default_factory=list)

    @property
    def share(self) -> float:
        """Share of the rows that are equal; 1 of no rows."""
        return self.equal / self.rows if self.rows else 1.0


@dataclass
class Gap:
    """Rows [begin, end) of each that have no partner, and where in the program they are."""

    a: tuple[int, int]
    b: tuple[int, int]
    place: str


@dataclass
class Diff:
    """``moves``: how far a region of memory lies elsewhere in b (bytes), and the rows there."""

    rows_a: int
    rows_b: int
    matched: int
    span_a: tuple[int, int]
    span_b: tuple[int, int]
    columns: dict[str, ColumnDiff]
    moves: dict[int, int]
    gaps: list[Gap]

    def as_dict(self) -> dict[str, Any]:
        """For JSON (docs/json.md)."""
        out = asdict(self)
        for name, c in self.columns.items():
            out["columns"][name]["share"] = c.share
        return out


def diff(
    a: TraceFile,
    b: TraceFile,
    *,
    features_of: str | None = None,
    binary: str | None = None,
    examples: int = 3,
) -> Diff:
    """Aligns the rows of two traces by their pcs, and compares them column by column.

    ``features_of`` names a feature set, whose columns are then compared in place of the file's.
    ``addr`` is compared twice: as it is, and (``addr_moved``) after the memory that lies elsewhere
    in b has been put in its place.  ``binary`` names the places; a recording tells them itself.

    Raises `UsageError` for traces of different levels, or that have no row in common.
    """
    levels = [t.level for t in (a, b)]
    if levels[0] != levels[1]:
        raise UsageError(f"{a.path} is {levels[0]}-level and {b.path} {levels[1]}-level")
    blocks = align(a["pc"], b["pc"])
    if not len(blocks):
        raise UsageError(f"{a.path} and {b.path} have no row in common")
    rows_a, rows_b = (
        np.concatenate(
            [np.arange(s, s + n) for s, n in zip(blocks[:, k], blocks[:, 2], strict=True)]
        )
        for k in (0, 1)
    )
    names = _names(a, b, binary)
    pair = _Pair(a, b, rows_a, rows_b, examples, names)
    if features_of is not None:
        columns = dict(pair.feature_columns(features_of))
        moves: dict[int, int] = {}
    else:
        columns = dict(pair.file_columns())
        moves, columns["addr_moved"] = pair.moved()
    return Diff(
        len(a), len(b), len(rows_a),
        (int(rows_a[0]), int(rows_a[-1]) + 1), (int(rows_b[0]), int(rows_b[-1]) + 1),
        columns, moves, _gaps(a, b, blocks, names),
    )  # fmt: skip


def _names(a: TraceFile, b: TraceFile, binary: str | None) -> AddressMap | None:
    if binary is not None:
        AddressMap.of(a, binary)  # told where it is not a's program
        return AddressMap.of(b, binary)
    return AddressMap.of_trace(b) or AddressMap.of_trace(a)


class _Pair:
    """The matched rows of two traces."""

    def __init__(
        self,
        a: TraceFile,
        b: TraceFile,
        rows_a: Array,
        rows_b: Array,
        examples: int,
        names: AddressMap | None,
    ) -> None:
        self._a, self._b, self._rows_a, self._rows_b = a, b, rows_a, rows_b
        self._examples, self._names = examples, names
        self._sid = b["static_id"][rows_b]
        self._timed = a.timed and b.timed
        memory = a["is_mem"][rows_a] | b["is_mem"][rows_b]
        kind = schema.BRANCH_KINDS.index("conditional")
        branch = (a["branch"][rows_a] == kind) | (b["branch"][rows_b] == kind)
        self._domains = {"memory": memory, "branch": branch}

    def _column(self, name: str) -> tuple[Array, Array]:
        return self._a[name][self._rows_a], self._b[name][self._rows_b]

    def file_columns(self) -> Iterator[tuple[str, ColumnDiff]]:
        stored = {**schema.COLUMNS, **dict.fromkeys(schema.BITS), **schema.STATIC_COLUMNS}
        for name, spec in stored.items():
            domain = spec.domain if spec is not None else "row"
            if name in _NO_COLUMN or domain == "timed":  # of ticks, the differences: below
                continue
            yield name, self._compare(*self._column(name), self._domains.get(domain))
        for name in ("src", "dst"):
            yield name, self._registers(name)
        if self._timed:
            both = self._a.targets("ticks")[self._rows_a], self._b.targets("ticks")[self._rows_b]
            yield "ticks", self._compare(*both, None)

    def feature_columns(self, name: str) -> Iterator[tuple[str, ColumnDiff]]:
        spec = features.get(name)
        x = self._a.features(name)[self._rows_a]
        y = self._b.features(name)[self._rows_b]
        for k, column in enumerate(spec.columns):
            yield f"{k:02} {column}", self._compare(x[:, k], y[:, k], None)

    def _registers(self, which: str) -> ColumnDiff:
        """As sets: the order of operands is the disassembler's."""
        forms: dict[frozenset[tuple[int, int]], int] = {}
        ids = []
        for trace, rows in ((self._a, self._rows_a), (self._b, self._rows_b)):
            of = [
                forms.setdefault(frozenset(getattr(trace.statics[i], which)), len(forms))
                for i in range(len(trace.statics))
            ]
            ids.append(np.array(of, np.int64)[trace["static_id"][rows]])
        values = list(forms)
        found = self._compare(ids[0], ids[1], None)
        for e in found.examples:
            e.a, e.b = sorted(values[e.a]), sorted(values[e.b])
        return found

    def moved(self) -> tuple[dict[int, int], ColumnDiff]:
        """Addresses after moving: a region is what differs by one and the same number of bytes."""
        x, y = self._column("addr")
        memory = self._domains["memory"]
        delta = (y - x)[memory].astype(np.int64)
        values, counts = np.unique(delta, return_counts=True)
        order = np.argsort(-counts)[:_MOVES]
        least = max(2, int(_SHARE_OF_A_MOVE * len(delta)))
        moves = {int(values[i]): int(counts[i]) for i in order if counts[i] >= least}
        near = np.isin((y - x).astype(np.int64), list(moves))
        return moves, self._compare(np.where(near, y, x), y, memory)

    def _compare(self, x: Array, y: Array, domain: Array | None) -> ColumnDiff:
        differ = x != y
        if np.issubdtype(x.dtype, np.floating):
            differ &= ~np.isclose(x, y, rtol=1e-6, atol=1e-7)
        if domain is not None:
            differ &= domain
        rows = len(x) if domain is None else int(np.count_nonzero(domain))
        at = np.flatnonzero(differ)
        out = ColumnDiff(rows, rows - len(at))
        ids, first, counts = np.unique(self._sid[at], return_index=True, return_counts=True)
        for k in np.argsort(-counts, kind="stable")[: self._examples]:
            row = at[first[k]]
            s = self._b.statics[int(ids[k])]
            where = f" in {self._names.name(s.pc)}" if self._names else ""
            text = s.disassembly + where
            out.examples.append(Example(s.pc, text, int(counts[k]), x[row].item(), y[row].item()))
        return out


def _gaps(a: TraceFile, b: TraceFile, blocks: Array, names: AddressMap | None) -> list[Gap]:
    """The largest first; what comes before the first and behind the last matched row is none."""
    pcs = a["pc"], b["pc"]
    out = []
    for (x, y, n), (next_x, next_y, _) in itertools.pairwise(blocks):
        gap_a, gap_b = (int(x + n), int(next_x)), (int(y + n), int(next_y))
        found: list[str] = []
        for pc, (begin, end) in zip(pcs, (gap_a, gap_b), strict=True):
            inside = np.unique(pc[begin:end]).tolist()
            found += [names.name(p) if names else hex(p) for p in (inside if names else inside[:1])]
        place = ", ".join(dict.fromkeys(found))
        out.append(Gap(gap_a, gap_b, place[:200]))
    return sorted(out, key=lambda g: -(g.a[1] - g.a[0] + g.b[1] - g.b[0]))


def diff_files(a: str | Path, b: str | Path, **options: Any) -> Diff:
    """`diff` of two files by name."""
    with open_trace(a) as x, open_trace(b) as y:
        return diff(x, y, **options)
