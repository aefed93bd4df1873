"""Traces as Arrow, pandas and polars: the same values by name."""

from __future__ import annotations

import numpy as np
import pytest

import tracekit
from tracekit import schema
from tracekit.errors import UsageError

pa = pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def trace(tmp_path_factory, golden):
    out = tmp_path_factory.mktemp("arrow") / "lua.zst"
    tracekit.extract(str(golden / "lua.arm.trace.xz"), str(out), chunk_rows=512)
    return tracekit.open(str(out))


def test_every_column_with_its_names_units_and_clock(trace):
    table = trace.to_arrow()
    assert table.num_rows == len(trace) and "bits" not in table.column_names
    for name in table.column_names:
        values = table[name].to_pylist()
        if name == "op":
            expected = [trace.statics.op_name(i) for i in trace["static_id"]]
        elif name == "branch":
            expected = [schema.BRANCH_KINDS[k] for k in trace["branch"]]
        elif name == "flags":
            expected = ["|".join(trace.statics[i].flags) for i in trace["static_id"]]
        else:
            expected = trace[name].tolist()
        assert values == expected, name
    assert table.schema.metadata[b"tracekit.arch"] == b"arm"
    assert int(table.schema.metadata[b"tracekit.clock_ps"]) == trace.clock_ps
    assert table.schema.field("retire").metadata[b"unit"]
    assert pa.types.is_dictionary(table.schema.field("op").type)


def test_the_c_stream_is_the_table(trace):
    stream = pa.RecordBatchReader.from_stream(trace)
    assert stream.read_all().equals(trace.to_arrow())


def test_columns_rows_and_disassembly(trace):
    table = trace.to_arrow(["pc", "op"], (100, 1200), disassembly=True)
    assert table.column_names == ["pc", "op", "disassembly"]
    assert table["pc"].to_pylist() == trace["pc"][100:1200].tolist()
    texts = [trace.statics.disassembly[i] for i in trace.column("static_id", (100, 1200))]
    assert table["disassembly"].to_pylist() == texts
    assert trace.to_arrow(["pc"], (5, 5)).num_rows == 0
    with pytest.raises(UsageError, match="no column nothing"):
        trace.to_arrow(["pc", "nothing"])


def test_pandas(trace):
    pandas = pytest.importorskip("pandas")
    frame = trace.to_pandas(["pc", "op", "taken"])
    assert list(trace.to_pandas("pc").columns) == ["pc"]
    assert isinstance(frame, pandas.DataFrame) and frame.attrs["tracekit.arch"] == "arm"
    assert np.array_equal(frame["pc"].to_numpy(), trace["pc"])
    assert frame.groupby("op", observed=True).size().sum() == len(trace)


def test_polars(trace):
    polars = pytest.importorskip("polars")
    frame = trace.to_polars(["pc", "op"])
    assert isinstance(frame, polars.DataFrame) and frame["pc"].to_list() == trace["pc"].tolist()


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_the_format_is_told_by_the_name(trace, tmp_path, ending):
    from tracekit.exporting.columns import export

    out = tmp_path / f"t.{ending}"
    export(trace.path, out, disassembly=True)
    if ending == "parquet":
        import pyarrow.parquet as pq

        table = pq.read_table(out)
    else:
        table = pa.ipc.open_file(str(out)).read_all()
    assert table["op"].to_pylist() == trace.to_arrow(["op"])["op"].to_pylist()
    assert table["disassembly"].to_pylist()[0] == trace.statics.disassembly[trace["static_id"][0]]
    with pytest.raises(UsageError, match="tells no format"):
        export(trace.path, tmp_path / "t.what")


def test_results_are_a_row_a_machine(trace):
    machines = list(tracekit.machines().values())[:3]
    result = tracekit.simulate(trace, machines, causes=True)
    table = result.to_arrow()
    assert table["name"].to_pylist() == [m.name for m in machines]
    np.testing.assert_array_equal(table["cycles"].to_numpy(), result.cycles)
    np.testing.assert_array_equal(table["seconds"].to_numpy(), result.seconds)
    stacks = np.array([table[f"cause_{c}"].to_numpy() for c in result.cause_names]).T
    np.testing.assert_array_equal(stacks, result.causes)
    assert table.schema.metadata[b"rows"] == str(len(trace)).encode()
    assert table.schema.field("seconds").metadata[b"unit"] == b"s"
    assert pa.table(result).equals(table)
    predicted = tracekit.predict(trace)
    frame = predicted.to_arrow()
    assert frame["tied_with_fastest"].to_pylist() == predicted.tied.tolist()
    np.testing.assert_array_equal(frame["half_interval"].to_numpy(), predicted.intervals.half)
    pytest.importorskip("pandas")
    assert result.to_pandas()["cycles"].tolist() == result.cycles.tolist()
    assert result.to_pandas().attrs["instructions"] == str(result.instructions)
