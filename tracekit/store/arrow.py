"""A file as Arrow record batches: the doors to pyarrow, pandas, polars, DuckDB and Parquet.

Names stand where the file has numbers: ``op``, ``branch`` and ``flags`` are dictionaries of
strings.  Each field's metadata has its unit and meaning, the schema's the architecture, the level
and the clock.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tracekit import schema
from tracekit.errors import UsageError
from tracekit.store.index_types import Index
from tracekit.store.statics import StaticTable

__all__ = ["column_names", "record_batches", "record_schema"]

#: A column that no array has: the text of the row's instruction.
DISASSEMBLY = "disassembly"
_NAMED = ("op", "branch", "flags", DISASSEMBLY)


class Columns(Protocol):
    """What is needed of a file (tracekit.store.reader.TraceFile)."""

    path: str
    index: Index
    timed: bool

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """Where each chunk begins, and the number of rows."""

    @property
    def statics(self) -> StaticTable:
        """The static table."""

    @property
    def clock_ps(self) -> int:
        """The clock's period."""

    def range(self, rows: slice | tuple[int, int] | None) -> tuple[int, int]:
        """The rows as [begin, end)."""

    def column(self, name: str, rows: tuple[int, int]) -> npt.NDArray[Any]:
        """A range of a column."""


_Names = dict[str, tuple[npt.NDArray[np.int32], list[str]]]


def pyarrow() -> Any:
    """The package; UsageError names the extra where it is not installed."""
    try:
        import pyarrow as pa
    except ImportError:
        from tracekit.extras import needed

        raise needed("pyarrow") or UsageError("pyarrow is not installed") from None
    return pa


def pandas_of(table: Any) -> Any:
    """A pyarrow table as a ``pandas.DataFrame`` whose ``attrs`` are the schema's metadata.  Raises
    UsageError where pandas is not installed."""
    try:
        frame = table.to_pandas()
    except ModuleNotFoundError as e:
        raise UsageError(f"{e.name} is not installed", hint=f"pip install {e.name}") from None
    frame.attrs = {k.decode(): v.decode() for k, v in (table.schema.metadata or {}).items()}
    return frame


def polars_of(table: Callable[[], Any]) -> Any:
    """What ``table()``, asked where polars is there, gives as a ``polars.DataFrame``."""
    try:
        import polars
    except ImportError:
        raise UsageError("polars is not installed", hint="pip install polars") from None
    return polars.from_arrow(table())


def column_names(
    f: Columns, columns: Sequence[str] | None = None, *, disassembly: bool = False
) -> list[str]:
    """The columns asked for, or the one; all that the file has values of unless given."""
    if isinstance(columns, str):
        columns = [columns]
    known = [n for n in f.columns if n != "bits" and (f.timed or n not in schema.STAGES)]
    if columns is None:
        return [*known, DISASSEMBLY] if disassembly else known
    if wrong := [n for n in columns if n not in (*known, DISASSEMBLY)]:
        raise UsageError(f"no column {', '.join(wrong)}; there are {', '.join(known)}", path=f.path)
    return [*columns, DISASSEMBLY] if disassembly and DISASSEMBLY not in columns else [*columns]


def _dictionary(texts: Sequence[str]) -> tuple[npt.NDArray[np.int32], list[str]]:
    numbers: dict[str, int] = {}
    codes = [numbers.setdefault(t, len(numbers)) for t in texts]
    return np.array(codes, np.int32), list(numbers)


def _flag_names(flags: int) -> str:
    return "|".join(n for k, n in enumerate(schema.FLAGS) if flags >> k & 1)


def _names(f: Columns, columns: Sequence[str]) -> _Names:
    """Of each named column: the code of every static instruction, and the strings."""
    table = f.statics
    text: dict[str, Callable[[], list[str]]] = {
        "op": lambda: [table.op_name(i) for i in range(len(table))],
        "branch": lambda: [schema.BRANCH_KINDS[k] for k in table.branch.tolist()],
        "flags": lambda: [_flag_names(k) for k in table.flags.tolist()],
        DISASSEMBLY: lambda: table.disassembly,
    }
    return {n: _dictionary(text[n]()) for n in _NAMED if n in columns}


def _described(name: str) -> dict[str, str]:
    if name in schema.BITS:
        return {"description": schema.BITS[name][1]}
    if name == DISASSEMBLY:
        return {"description": "text of the instruction"}
    column = schema.COLUMNS.get(name) or schema.STATIC_COLUMNS[name]
    doc = column.doc.partition(", an index into")[0].partition(", bit k")[0]
    return {"description": doc, **({"unit": column.unit} if column.unit else {})}


def record_schema(f: Columns, columns: Sequence[str]) -> Any:
    """The ``pyarrow.Schema`` of ``columns``."""
    pa = pyarrow()

    def kind(name: str) -> Any:
        if name in _NAMED:
            return pa.dictionary(pa.int32(), pa.string())
        if name in schema.BITS:
            return pa.bool_()
        column = schema.COLUMNS.get(name) or schema.STATIC_COLUMNS[name]
        return pa.from_numpy_dtype(column.dtype)

    meta = {"tracekit.arch": str(f.index["arch"]), "tracekit.level": str(f.index["level"])}
    if f.timed:
        meta["tracekit.clock_ps"] = str(f.clock_ps)
    fields = [pa.field(n, kind(n), metadata=_described(n)) for n in columns]
    return pa.schema(fields, metadata=meta)


def record_batches(
    f: Columns, columns: Sequence[str], rows: tuple[int, int] | None = None
) -> Iterator[Any]:
    """``pyarrow.RecordBatch`` objects, one a chunk of the file, of the rows [begin, end)."""
    pa = pyarrow()
    form, names = record_schema(f, columns), _names(f, columns)
    begin, end = f.range(rows)
    edges = [begin, *(int(s) for s in f.starts if begin < s < end), end]
    for first, last in itertools.pairwise(edges):
        if first == last:
            continue
        ids = f.column("static_id", (first, last)) if names else np.empty(0, np.uint32)
        arrays = []
        for name in columns:
            if name in names:
                codes, texts = names[name]
                arrays.append(pa.DictionaryArray.from_arrays(codes[ids], pa.array(texts)))
            else:
                arrays.append(pa.array(f.column(name, (first, last))))
        yield pa.RecordBatch.from_arrays(arrays, schema=form)
