"""Feature sets as they come out of a file."""

from __future__ import annotations

import numpy as np
import pytest

import tracekit
from tracekit import features
from tracekit.features.sets import entropy_nats


@pytest.fixture(scope="module")
def trace(golden, tmp_path_factory):
    out = tmp_path_factory.mktemp("x") / "f.zst"
    tracekit.extract(golden / "lua.arm.trace.xz", out, chunk_rows=1000)
    with tracekit.open(out) as f:
        yield f


@pytest.mark.parametrize(
    ("name", "width"), [("perfvec-ref", 51), ("perfvec", 51), ("neuroscalar", 13)]
)
def test_shapes_and_ranges(trace, name, width):
    x = trace.features(name)
    assert x.shape == (len(trace), width) and x.dtype == np.float32
    part = trace.features(name, slice(900, 2100))
    assert np.array_equal(part, x[900:2100])
    out = np.full((5, width), np.nan, np.float32)
    assert trace.features(name, (10, 15), out=out) is out
    assert np.array_equal(out, x[10:15])


def column(trace, name, column, **kw):
    return trace.features(name, **kw)[:, features.get(name).columns.index(column)]


def test_dynamic_columns(trace):
    for set_name, feature, stored in (
        ("perfvec-ref", "fetch_distance", "fetch_distance"),
        ("perfvec-ref", "load_distance", "load_distance_ref"),
        ("perfvec-ref", "data_reuse", "data_reuse"),
        ("perfvec", "data_distance", "data_distance"),
        ("perfvec", "store_distance", "store_distance"),
        ("perfvec", "branching", "taken"),
        ("perfvec", "fault", "fault"),
    ):
        assert np.array_equal(column(trace, set_name, feature), trace[stored].astype(np.float32))
    branch = trace.statics.has("IsCondControl")[trace["static_id"]]
    now = entropy_nats(trace["window_now"] / 16)
    np.testing.assert_allclose(
        column(trace, "perfvec-ref", "entropy_now"), np.where(branch, now, 0), rtol=1e-6
    )
    p = trace["p_local"].astype(np.float64)
    bits = np.where(branch, entropy_nats(p) / np.log(2), 0)
    np.testing.assert_allclose(column(trace, "perfvec", "entropy_local"), bits, rtol=1e-6)
    linear = np.where(branch, 2 * np.minimum(p, 1 - p), 0)
    got = column(trace, "perfvec", "entropy_local", entropy="linear")
    np.testing.assert_allclose(got, linear, rtol=1e-6)


def test_neuroscalar_parts_make_up_pc_and_address(trace):
    x = trace.features("neuroscalar").astype(np.uint64)
    pc = x[:, 0] | x[:, 1] << np.uint64(22) | x[:, 2] << np.uint64(44)
    addr = x[:, 4] | x[:, 5] << np.uint64(22) | x[:, 6] << np.uint64(44)
    assert np.array_equal(pc, trace["pc"]) and np.array_equal(addr, trace["addr"])


def test_operands(trace):
    """`subs x2, x1`-like rows: sources and destination by class and number, plus 1, 0 for none."""
    at = trace.statics.disassembly.index("ldr   x1, [sp]")
    row = int(np.flatnonzero(trace["static_id"] == at)[0])
    x = trace.features("perfvec", (row, row + 1))[0]
    names = features.get("perfvec").columns
    values = dict(zip(names, x.tolist(), strict=True))
    assert (values["src0_class"], values["src0_index"]) == (1, 32)  # sp
    assert (values["dst0_class"], values["dst0_index"]) == (1, 2)  # x1
    assert values["src1_class"] == values["dst1_index"] == 0
    assert values["op"] == 48 and values["load"] == 1 and values["is_mem"] == 1


def test_own_set(trace):
    spec = tracekit.FeatureSet(
        "test-own",
        1,
        (
            tracekit.Feature("size", static=lambda t: t.access_size),
            tracekit.Feature("far", dynamic=lambda c: c.column("data_distance") > 64),
            tracekit.Feature("reuse", column="data_reuse"),
        ),
    )
    tracekit.register_feature_set(spec)
    x = trace.features("test-own")
    assert np.array_equal(x[:, 0], trace["access_size"])
    assert np.array_equal(x[:, 1], trace["data_distance"] > 64)
    assert np.array_equal(x[:, 2], trace["data_reuse"])
    with pytest.raises(tracekit.UsageError, match="exists already"):
        tracekit.register_feature_set(spec)
    with pytest.raises(tracekit.UsageError, match="no feature set 'x'"):
        trace.features("x")


def test_windows(trace):
    x, y = trace.features("perfvec"), trace.targets("cycles")
    plain = list(trace.windows("perfvec", 256, target="cycles"))
    assert all(w.shape == (256, 51) and t.shape == (256,) for w, t in plain)
    assert np.array_equal(plain[0][0], x[:256]) and np.array_equal(plain[0][1], y[:256])
    one, other = (list(trace.windows("perfvec", 256, shuffle=s)) for s in (1, 2))
    assert len(one) == len(other) == len(plain)
    key = sorted(w.tobytes() for w, _ in plain)
    assert sorted(w.tobytes() for w in one) == key and not all(
        np.array_equal(a, b) for a, b in zip(one, other, strict=True)
    )


def test_windows_longer_than_every_chunk_are_no_empty_file(trace):
    longest = int(np.diff(trace.starts).max())
    assert next(trace.windows("perfvec", longest)).shape == (longest, 51)
    with pytest.raises(tracekit.UsageError, match=f"the longest chunk has {longest:,}"):
        trace.windows("perfvec", longest + 1, target="cycles")


def test_ranges(trace):
    n = len(trace)
    assert trace.column("pc", (n, n)).size == 0
    assert np.array_equal(trace.column("pc", slice(-5, None)), trace["pc"][-5:])
    with pytest.raises(tracekit.UsageError, match="not within"):
        trace.column("pc", (0, n + 1))
    with pytest.raises(KeyError, match="no column 'x'"):
        trace["x"]
    with pytest.raises(ValueError, match="read-only"):
        trace["pc"][0] = 1


@pytest.mark.parametrize("kind", ["parquet", "arrow", "npy"])
def test_export(trace, tmp_path, kind):
    from tracekit.exporting.columns import export

    if kind != "npy":
        pa = pytest.importorskip("pyarrow")
    out, rows = tmp_path / "out", tmp_path / "rows"
    export(trace.path, out, to=kind)
    export(trace.path, rows, to=kind, features="perfvec")
    with pytest.raises(tracekit.TracekitError, match="exists already"):
        export(trace.path, out, to=kind)
    if kind == "npy":
        assert np.array_equal(np.load(out / "retire.npy"), trace["retire"])
        assert np.array_equal(np.load(rows / "perfvec.npy"), trace.features("perfvec"))
        return
    if kind == "parquet":
        import pyarrow.parquet as pq

        tables = [pq.read_table(p) for p in (out, rows)]
    else:
        tables = [pa.ipc.open_file(p).read_all() for p in (out, rows)]
    for name in ("pc", "addr", "taken", "retire"):
        assert np.array_equal(tables[0][name].to_numpy(), trace[name])
    x = trace.features("perfvec")
    for k, name in enumerate(features.get("perfvec").columns):
        assert np.array_equal(tables[1][name].to_numpy(), x[:, k])


@pytest.mark.parametrize("bits", [(0, 1), (0, 24), (6, 6), (12, 20), (2, 24), (40, 24), (63, 1)])
def test_bits_of_the_address(trace, bits):
    first, count = bits
    name = f"test-bits-{first}-{count}"
    tracekit.register_feature_set(
        tracekit.FeatureSet(name, 1, (tracekit.Feature("a", column="addr", bits=bits),))
    )
    want = trace["addr"] >> np.uint64(first) & np.uint64((1 << count) - 1)
    assert np.array_equal(trace.features(name)[:, 0], want)


@pytest.mark.parametrize("bits", [(-1, 4), (64, 1), (65, 1), (0, 0), (0, 25), (41, 24), (60, 5)])
def test_bits_that_are_none(bits):
    with pytest.raises(tracekit.UsageError, match="no 1 to 24 of 64"):
        tracekit.Feature("a", column="addr", bits=bits)
    with pytest.raises(tracekit.UsageError, match="bits are of the column addr"):
        tracekit.Feature("a", column="pc", bits=(0, 1))


def test_kinds_of_stores_that_are_more():
    class Table:
        def __init__(self, *flags):
            self.flags = flags

        def has(self, flag):
            return np.array([flag in self.flags])

    cases = {(): 0, ("IsStoreConditional",): 1, ("IsAtomic",): 2}
    cases[("IsStoreConditional", "IsAtomic")] = 3
    for flags, want in cases.items():
        assert features.builtin._store_cond(Table("IsStore", *flags)).tolist() == [want]
        plain = features.builtin._store(Table("IsStore", *flags)).tolist()
        assert plain == [not flags]


@pytest.mark.parametrize("name", ["perfvec-ref", "perfvec", "neuroscalar"])
def test_numbers_of_sets_are_what_models_were_trained_on(name):
    """A set whose columns change gets the next number, here and in the models' cards."""
    assert features.get(name).version == 1


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda t: np.zeros(3), r"feature x of the set .*: its function gives shape \(3,\)"),
        (lambda t: 1, r"its function gives shape \(\)"),
        (lambda t: 1 / 0, "feature x of the set .*: ZeroDivisionError"),
        (lambda t: ["no number"] * len(t), "feature x of the set .*: ValueError"),
    ],
)
@pytest.mark.parametrize("kind", ["static", "dynamic"])
def test_a_function_that_gives_no_column_is_named(trace, function, words, kind):
    name = f"test-wrong-{len(features.names())}"
    if "no number" in str(function.__code__.co_consts) and kind == "dynamic":
        function = lambda c: ["no number"] * c.rows  # noqa: E731 -- a chunk has no len()
    tracekit.register_feature_set(
        tracekit.FeatureSet(name, 1, (tracekit.Feature("x", **{kind: function}),))
    )
    with pytest.raises(tracekit.UsageError, match=words):
        trace.features(name)


def test_a_feature_that_is_none_is_refused_where_it_is_made():
    with pytest.raises(tracekit.UsageError, match=r"'nope' is stored.*there are static_id, bits"):
        tracekit.Feature("x", column="nope")
    with pytest.raises(tracekit.UsageError, match=r"static=lambda table: table\.pc"):
        tracekit.Feature("x", column="pc")
    with pytest.raises(tracekit.UsageError, match="are functions"):
        tracekit.Feature("x", static="pc")
    with pytest.raises(tracekit.UsageError, match="a tuple of Feature"):
        tracekit.FeatureSet("x", 1, ("pc",))
    with pytest.raises(tracekit.UsageError, match="a FeatureSet is needed"):
        tracekit.register_feature_set("x")


def test_arguments_that_are_none_of_those_there_are(trace):
    for rows in ((0.0, 5.0), (1, 2, 3), 5, "ab"):
        with pytest.raises(tracekit.UsageError, match="rows: a slice or two whole numbers"):
            trace.column("pc", rows)
    with pytest.raises(tracekit.UsageError, match="'bits' or 'linear', not 'bit'"):
        trace.features("perfvec", entropy="bit")
    with pytest.raises(tracekit.UsageError, match="'micro' or 'macro', not 'marco'"):
        tracekit.open(trace.path, level="marco")
    out = np.zeros((5, 51), np.float32)
    out.flags.writeable = False
    with pytest.raises(tracekit.UsageError, match="not read-only"):
        trace.features("perfvec", (0, 5), out=out)
    for wrong in ({"name": "perf"}, {"target": "cycle"}, {"shuffle": -1}):  # at once
        with pytest.raises(tracekit.UsageError):
            trace.windows(**wrong)
