"""A result as other people's dataframes: a row a machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from tracekit.store import arrow

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

__all__ = ["ResultFrames"]

_HALF: Final = "half the 95 % interval of cycles"
#: Columns of numbers: unit, meaning.
_NUMBERS: Final = {
    "cycles": ("cycles", "of the whole trace"),
    "seconds": ("s", "of the whole trace"),
    "cpi": ("cycles an instruction", "of the whole trace"),
    "half_interval": ("cycles", _HALF),
    "model_half_interval": ("cycles", f"{_HALF}, of the model"),
    "sampling_half_interval": ("cycles", f"{_HALF}, of sampling"),
}


class _Result(Protocol):
    def to_dict(self) -> dict[str, Any]: ...


def _table(result: _Result) -> pyarrow.Table:
    pa = arrow.pyarrow()
    found = result.to_dict()
    machines: list[dict[str, Any]] = found["machines"]
    columns, fields = [], []

    def add(name: str, values: list[Any], kind: Any, unit: str = "", meaning: str = "") -> None:
        said = {k: v for k, v in (("unit", unit), ("meaning", meaning)) if v}
        columns.append(pa.array(values, kind))
        fields.append(pa.field(name, kind, metadata=said or None))

    for name in machines[0] if machines else ():
        values = [m[name] for m in machines]
        if name in _NUMBERS:
            add(name, values, pa.float64(), *_NUMBERS[name])
        elif name == "causes":
            for cause in values[0]:
                kind = pa.float64(), "cycles", f"cycles by cause: {cause}"
                add(f"cause_{cause}", [v[cause] for v in values], *kind)
        else:
            add(name, values, pa.bool_() if isinstance(values[0], bool) else pa.string())
    of_trace = {k: str(found[k]) for k in ("path", "rows", "instructions")}
    return pa.table(columns, schema=pa.schema(fields, metadata=of_trace))


class ResultFrames:
    """What results of machines offer to dataframes: the entries of ``to_dict()["machines"]``."""

    def to_arrow(self: _Result) -> pyarrow.Table:
        """A ``pyarrow.Table`` with a row a machine: name, summary, cycles, seconds, cycles an
        instruction, intervals and causes (``cause_…``) where there are some; units and meaning as
        the fields' metadata, path, rows and instructions of the trace as the schema's.

        Raises `UsageError` where pyarrow is not installed.
        """
        return _table(self)

    def to_pandas(self: _Result) -> pandas.DataFrame:
        """A ``pandas.DataFrame``, as ``to_arrow``."""
        return arrow.pandas_of(_table(self))

    def to_polars(self: _Result) -> polars.DataFrame:
        """A ``polars.DataFrame``, as ``to_arrow``."""
        return arrow.polars_of(lambda: _table(self))

    def __arrow_c_stream__(self: _Result, requested_schema: object = None) -> object:
        """The same for any library that takes Arrow's C stream (polars, DuckDB)."""
        return _table(self).__arrow_c_stream__(requested_schema)
