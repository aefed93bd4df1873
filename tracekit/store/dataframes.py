"""A trace as other people's dataframes: pyarrow, pandas, polars, whatever takes Arrow's C
stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tracekit.store import arrow

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

__all__ = ["Dataframes"]

Rows = slice | tuple[int, int] | None


def _table(
    f: arrow.Columns, columns: Sequence[str] | None, rows: Rows, disassembly: bool
) -> pyarrow.Table:
    names = arrow.column_names(f, columns, disassembly=disassembly)
    batches = list(arrow.record_batches(f, names, f.range(rows)))
    return arrow.pyarrow().Table.from_batches(batches, arrow.record_schema(f, names))


class Dataframes:
    """What a TraceFile offers to them."""

    def to_arrow(
        self: arrow.Columns,
        columns: Sequence[str] | None = None,
        rows: Rows = None,
        *,
        disassembly: bool = False,
    ) -> pyarrow.Table:
        """A ``pyarrow.Table`` of ``columns`` (all unless given), with names for op, branch and
        flags (dictionaries of strings), units and meaning as the fields' metadata, architecture,
        level and clock as the schema's.

        ``disassembly``: a column with each row's text, too.  UsageError where a column is not
        there or pyarrow is not installed.
        """
        return _table(self, columns, rows, disassembly)

    def to_pandas(
        self: arrow.Columns,
        columns: Sequence[str] | None = None,
        rows: Rows = None,
        *,
        disassembly: bool = False,
    ) -> pandas.DataFrame:
        """A ``pandas.DataFrame``, as ``to_arrow``; names are categories."""
        return arrow.pandas_of(_table(self, columns, rows, disassembly))

    def to_polars(
        self: arrow.Columns,
        columns: Sequence[str] | None = None,
        rows: Rows = None,
        *,
        disassembly: bool = False,
    ) -> polars.DataFrame:
        """A ``polars.DataFrame``, as ``to_arrow``; names are categories."""
        return arrow.polars_of(lambda: _table(self, columns, rows, disassembly))

    def __arrow_c_stream__(self: arrow.Columns, requested_schema: object = None) -> object:
        """All columns for any library that takes Arrow's C stream (pyarrow, polars, DuckDB), chunk
        by chunk, without a copy of the file in memory."""
        names = arrow.column_names(self)
        reader = arrow.pyarrow().RecordBatchReader.from_batches(
            arrow.record_schema(self, names), arrow.record_batches(self, names)
        )
        return reader.__arrow_c_stream__(requested_schema)
