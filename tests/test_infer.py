"""The CPU engine: every path against the float64 oracle and torch, and against itself in pieces."""

from __future__ import annotations

import hashlib
import itertools
import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracles import lstm as oracle

from tracekit.errors import FormatError, UsageError
from tracekit.infer import REPRESENTATION, Engine, Stream, load, quantize
from tracekit.infer.accuracy import accuracy
from tracekit.infer.correct import WARM, mean_products, of_layers
from tracekit.infer.cpu import ISAS, active_isa
from tracekit.infer.quantization import (
    CORRECTIONS,
    INT8,
    load_corrections,
    load_quantised,
    quantize_tensors,
)
from tracekit.model import (
    Card,
    ModelSpec,
    load_card,
    read_safetensors,
    save_card,
    save_model,
)

PATHS = [(isa, dtype) for isa in ISAS for dtype in ("f32", "bf16", "int8")]
# f32 is the 1e-5; the others are a few units of their formats, for h in ±1
TOLERANCE = {"f32": 1e-5, "bf16": 2e-2, "int8": 4e-2}
relaxed = settings(
    max_examples=15,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(params=PATHS, ids=lambda p: "-".join(p))
def path(request, monkeypatch):
    isa, dtype = request.param
    monkeypatch.delenv("TRACEKIT_ISA", raising=False)
    if ISAS.index(isa) > ISAS.index(active_isa()):
        pytest.skip(f"this CPU has no {isa}")
    monkeypatch.setenv("TRACEKIT_ISA", isa)
    return isa, dtype


def model(columns, layers, heads=(), inputs=None, seed=0, scale=None):
    """A card and random weights, uniform in ±1/sqrt(width) as torch makes them."""
    names = [f"c{i}" for i in range(columns)]
    spec = ModelSpec.parse(
        {
            "inputs": inputs or [{"column": c} for c in names],
            "layers": layers,
            "heads": list(heads),
        }
    )
    rng = np.random.default_rng(seed)
    tensors = {
        name: rng.uniform(-1, 1, shape).astype(np.float32) * (scale or shape[-1] ** -0.5)
        for name, shape in spec.tensors().items()
    }
    return Card("test", spec, tuple(names)), {k: v.astype(np.float32) for k, v in tensors.items()}


def lstm_model(columns, hidden, layers, **more):
    stack = [{"type": "lstm", "name": "rnn", "hidden": hidden, "layers": layers}]
    return model(columns, stack, **more)


def rows_of(columns, rows, seed=1):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((rows, columns)).astype(np.float32)


_known = {}  # what each path asks for again, of the large models seconds of CPU


def once(make, made, *more):
    """``make()``, computed once for a model and ``more``."""
    card, tensors = made
    made_of = repr(card.spec.to_dict()).encode() + b"".join(t.tobytes() for t in tensors.values())
    key = hashlib.sha256(made_of).digest(), *more
    if key not in _known:
        with pytest.MonkeyPatch.context() as patch:  # any instruction set: this computer's best
            patch.delenv("TRACEKIT_ISA", raising=False)
            _known[key] = make()
    return _known[key]


def quantized(card, tensors, lookahead):
    rows = rows_of(len(card.columns), 300, seed=9)
    return once(
        lambda: quantize_tensors(card, tensors, rows, lookahead=lookahead),
        (card, tensors),
        lookahead,
    )


def engine(made, dtype="f32", **more):
    card, tensors = made
    parts = quantized(card, tensors, more.get("lookahead")) if dtype == "int8" else None
    return Engine(card, tensors, parts, dtype=dtype, **{"threads": 1, **more})


def expected(made, rows, chunk, warmup):
    card, tensors = made
    return once(
        lambda: oracle.chunked(card.spec.to_dict()["layers"], rows, tensors, chunk, warmup),
        made,
        rows.tobytes(),
        chunk,
        warmup,
    )


@relaxed
@given(
    columns=st.integers(1, 20),
    hidden=st.sampled_from([1, 4, 16, 17, 40]),
    layers=st.integers(1, 3),
    rows=st.integers(0, 90),
    chunk=st.integers(1, 60),
    warmup=st.integers(0, 40),
)
def test_every_path_is_the_oracle(path, columns, hidden, layers, rows, chunk, warmup):
    made = lstm_model(columns, hidden, layers)
    x = rows_of(columns, rows)
    found = engine(made, path[1], chunk=chunk, warmup=warmup).represent(x)
    assert found.shape == (rows, hidden) and found.dtype == np.float32
    if rows:
        np.testing.assert_allclose(
            found, expected(made, x, chunk, warmup), atol=TOLERANCE[path[1]], rtol=0
        )


@pytest.mark.parametrize("rows", [0, 1, 2, 700])
def test_the_papers_shapes(path, rows):
    made = perfvec()
    x = rows_of(51, rows)
    found = engine(made, path[1], chunk=256, warmup=256).predict(x)
    assert found.shape == (rows, 77)
    if rows:
        want = expected(made, x, 256, 256) @ made[1]["table.weight"].T.astype(float)
        np.testing.assert_allclose(found, want, atol=TOLERANCE[path[1]], rtol=0)


def test_formats_differ_and_isas_agree(monkeypatch):
    """The narrow formats are really used, and a wider instruction set changes rounding only."""
    monkeypatch.delenv("TRACEKIT_ISA", raising=False)
    have = ISAS[: ISAS.index(active_isa()) + 1]
    made, x = lstm_model(51, 64, 2), rows_of(51, 500)
    out = {}
    for isa in have:
        monkeypatch.setenv("TRACEKIT_ISA", isa)
        for dtype in ("f32", "bf16", "int8"):
            out[isa, dtype] = engine(made, dtype).represent(x)
    for isa in have:
        assert np.abs(out[isa, "bf16"] - out[isa, "f32"]).max() > 1e-4
        assert np.abs(out[isa, "bf16"] - out[isa, "f32"]).max() < 5e-3
        assert 3e-4 < np.abs(out[isa, "int8"] - out[isa, "f32"]).max() < 2e-2
        np.testing.assert_allclose(out[isa, "f32"], out["portable", "f32"], atol=1e-6)
        np.testing.assert_allclose(out[isa, "int8"], out["portable", "int8"], atol=1e-2)


def perfvec(seed=0):
    table = [{"type": "linear", "name": "table", "out": 77, "bias": False}]
    return model(
        51,
        [{"type": "lstm", "name": "rnn", "hidden": 256, "layers": 2}, {"type": "relu"}],
        [{"name": "time", "layers": table}],
        seed=seed,
    )


def neuroscalar(seed=0):
    head = {
        "name": "cycles",
        "type": "two_way",
        "hidden": 64,
        "threshold": 10,
        "cap": 2.5,
        "classifier": ["cls_fc1", "cls_fc2"],
        "short": "output_layer_short",
        "long": "output_layer_long",
    }
    made = model(
        13,
        [
            {"type": "linear", "name": "input_proj", "out": 256},
            {"type": "lstm", "name": "rnn", "hidden": 256, "layers": 2},
        ],
        [head],
        seed=seed,
    )
    made[1]["output_layer_short.bias"][:] = 0.3  # so that the two heads are far apart
    made[1]["output_layer_long.bias"][:] = 1.2
    return made


def test_neuroscalar_is_the_papers_to_the_parameter():
    assert neuroscalar()[0].spec.parameters() == 1_073_348


def test_neuroscalar(path):
    made = neuroscalar()
    made[1]["cls_fc1.weight"] *= 8  # so that both classes occur, and few rows are near the edge
    made[1]["cls_fc2.weight"] *= 8
    x, t = rows_of(13, 900) * 3, {k: v.astype(float) for k, v in made[1].items()}
    h = expected(made, x, 300, 256)
    hidden = np.maximum(h @ t["cls_fc1.weight"].T + t["cls_fc1.bias"], 0)
    logits = hidden @ t["cls_fc2.weight"].T
    made[1]["cls_fc2.bias"][:] = [np.median(logits[:, 1] - logits[:, 0]), 0]
    logits = logits + made[1]["cls_fc2.bias"]
    short, long = (
        (h @ t[f"output_layer_{n}.weight"].T + t[f"output_layer_{n}.bias"])[:, 0]
        for n in ("short", "long")
    )
    want = np.clip(np.expm1(np.where(logits[:, 1] > logits[:, 0], long, short)), 0, 2.5)
    found = engine(made, path[1], chunk=300).predict(x)[:, 0]
    sure = np.abs(logits[:, 1] - logits[:, 0]) > 8 * TOLERANCE[path[1]]
    assert sure.mean() > 0.3 and (logits[:, 1] > logits[:, 0])[sure].std() > 0.3
    near = np.isclose(found, want, atol=4 * TOLERANCE[path[1]], rtol=0)[sure]
    assert near.all() if path[1] == "f32" else near.mean() > 0.98


@pytest.mark.parametrize("after", [[], ["tanh"], ["relu"]])
def test_relu_behind_an_lstm(path, after):
    """In the LSTM's own kernel or not, and read by another LSTM or not: what the LSTM feeds back to
    itself stays as it is."""
    lstms = [{"type": "lstm", "name": f"rnn{k}", "hidden": 24, "layers": 1} for k in (0, 1)]
    layers = [lstms[0], {"type": "relu"}, lstms[1], {"type": "relu"}]
    made, x = model(7, layers + [{"type": a} for a in after], scale=0.5), rows_of(7, 200)
    found = engine(made, path[1], chunk=70).represent(x)
    want = expected(made, x, 70, 256)
    assert (want == 0).mean() > 0.1
    np.testing.assert_allclose(found, want, atol=TOLERANCE[path[1]], rtol=0)


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_a_linear_layer_is_folded_into_the_lstm(path, both, bias):
    """Few features that a linear layer widens: one product, and the same numbers; a narrow LSTM
    that reads a wide linear layer is left as it is."""
    lstm = {"type": "lstm", "name": "rnn", "hidden": 40, "layers": 2, "bidirectional": both}
    for columns in (5, 30):
        made = model(columns, [{"type": "linear", "name": "p", "out": 40, "bias": bias}, lstm])
        x = rows_of(columns, 150)
        made[0].extra["lookahead"] = 20
        it = engine(made, path[1], chunk=150)
        kinds = [type(plan).__name__ for plan in it._layers]
        assert kinds.count("LinearPlan") == (columns == 30), kinds
        want = expected(made, x, 150, 20)
        np.testing.assert_allclose(it.represent(x), want, atol=TOLERANCE[path[1]], rtol=0)


def test_against_torch(path):
    torch = pytest.importorskip("torch")
    made, x = perfvec(), rows_of(51, 1500)
    network = torch.nn.LSTM(51, 256, 2)
    state = {k[4:]: torch.from_numpy(v) for k, v in made[1].items() if k.startswith("rnn.")}
    network.load_state_dict(state)
    with torch.inference_mode():
        want = torch.relu(network(torch.from_numpy(x)[:, None])[0][:, 0]).numpy()
    # whole, then in chunks: 256 steps of warm-up leave nothing of the state that is missing
    for chunk in (1500, 333):
        found = engine(made, path[1], chunk=chunk).represent(x)
        np.testing.assert_allclose(found, want, atol=TOLERANCE[path[1]], rtol=0)


def both_ways(columns, hidden, layers, **more):
    lstm = {"type": "lstm", "name": "rnn", "hidden": hidden, "layers": layers}
    return model(columns, [{**lstm, "bidirectional": True}, {"type": "relu"}], **more)


@relaxed
@given(
    data=st.data(),
    columns=st.integers(1, 20),
    hidden=st.sampled_from([1, 4, 16, 17, 40]),
    layers=st.integers(1, 2),
    rows=st.integers(0, 120),
    chunk=st.integers(1, 40),
    warmup=st.integers(0, 20),
    ahead=st.integers(1, 20),
)
def test_both_directions(path, data, columns, hidden, layers, rows, chunk, warmup, ahead):
    """Whole and in blocks of any size, a window's both directions are the oracle's."""
    made, x = both_ways(columns, hidden, layers, heads=[table(3)]), rows_of(columns, rows)
    options = {"chunk": chunk, "warmup": warmup, "lookahead": ahead}
    whole = engine(made, path[1], **options)
    found = whole.run(x, [REPRESENTATION, "time"])
    assert found[REPRESENTATION].shape == (rows, 2 * hidden)
    if rows:
        want = oracle.chunked(made[0].spec.to_dict()["layers"], x, made[1], chunk, warmup, ahead)
        np.testing.assert_allclose(found[REPRESENTATION], want, atol=TOLERANCE[path[1]], rtol=0)
    cuts = data.draw(st.lists(st.integers(0, rows), max_size=4).map(sorted))
    other = engine(made, path[1], threads=2, **options)
    stream = Stream(other, ["time"], sums=[REPRESENTATION], breaks=[0, rows])
    stream.batch = chunk * data.draw(st.integers(1, 3))
    parts = [*map(stream.push, np.split(x, cuts)), stream.finish()]
    np.testing.assert_array_equal(np.concatenate([p["time"] for p in parts]), found["time"])
    sums = whole.sum_representations(x, [0, rows])
    np.testing.assert_array_equal(stream.totals[REPRESENTATION], sums)


def test_both_directions_against_torch(path):
    torch = pytest.importorskip("torch")
    made, x = both_ways(13, 64, 2), rows_of(13, 500)
    network = torch.nn.LSTM(13, 64, 2, bidirectional=True)
    network.load_state_dict({k[4:]: torch.from_numpy(v) for k, v in made[1].items()})
    with torch.inference_mode():
        want = torch.relu(network(torch.from_numpy(x)[:, None])[0][:, 0]).numpy()
    for chunk in (500, 100):  # 200 rows leave nothing of what is missing at either end
        it = engine(made, path[1], chunk=chunk, warmup=200, lookahead=200)
        np.testing.assert_allclose(it.represent(x), want, atol=TOLERANCE[path[1]], rtol=0)


def test_a_lookahead_that_is_none():
    card, tensors = both_ways(3, 8, 1)
    for rows in (None, 0, True, "x", 1 << 20):
        card.extra["lookahead"] = rows
        with pytest.raises(FormatError, match="lookahead"):
            Engine(card, tensors)
    card.extra["lookahead"] = 7
    assert Engine(card, tensors).lookahead == 7
    with pytest.raises(UsageError, match="lookahead"):
        Engine(card, tensors, lookahead=0)
    with pytest.raises(UsageError, match="lookahead"):
        Engine(*lstm_model(3, 8, 1), lookahead=5)


SIZE = st.integers(1, 20)


def drawn(kind, **fields):
    return st.fixed_dictionaries({"type": st.just(kind), **fields})


LAYERS = st.lists(
    st.one_of(
        drawn("linear", out=st.integers(1, 70), bias=st.booleans()),
        drawn("lstm", hidden=SIZE, layers=st.integers(1, 2), bias=st.booleans()),
        drawn("gru", hidden=SIZE, layers=st.integers(1, 2), bias=st.booleans()),
        drawn("mingru", hidden=SIZE, bias=st.booleans()),
        drawn(
            "conv1d",
            out=SIZE,
            kernel=st.integers(1, 5),
            dilation=st.integers(1, 3),
            bias=st.booleans(),
        ),
        st.just({"type": "layernorm"}),
        st.sampled_from(["relu", "softplus", "sigmoid", "tanh", "silu"]).map(lambda t: {"type": t}),
        st.just({"type": "residual", "layers": [{"type": "gru", "hidden": 0}, {"type": "tanh"}]}),
        st.just(
            {"type": "concat", "layers": [{"type": "conv1d", "out": 3, "kernel": 2, "dilation": 1}]}
        ),
    ),
    min_size=1,
    max_size=4,
)


def named(layers, width, prefix="n"):
    """Names for drawn layers, and the width inside residual blocks."""
    out = []
    for i, entry in enumerate(layers):
        entry = dict(entry)
        if entry["type"] not in (*oracle.FUNCTIONS, "residual", "concat"):
            entry["name"] = f"{prefix}{i}"
        if entry["type"] == "concat":
            entry["layers"] = named(entry["layers"], width, f"{prefix}{i}_")
            width += 3
        if entry["type"] == "residual":
            inner = [{**e, "hidden": width} if "hidden" in e else e for e in entry["layers"]]
            entry["layers"] = named(inner, width, f"{prefix}{i}_")
        width = entry.get("hidden", entry.get("out", width))
        out.append(entry)
    return out


@relaxed
@given(layers=LAYERS, rows=st.integers(1, 60), chunk=st.integers(1, 40), warmup=st.integers(0, 20))
def test_any_stack_is_the_oracle(layers, rows, chunk, warmup):
    made, x = model(6, named(layers, 6)), rows_of(6, rows)
    found = engine(made, chunk=chunk, warmup=warmup).represent(x)
    want = expected(made, x, chunk, warmup)
    # layer normalisation of nearly equal values magnifies rounding
    loose = any(entry["type"] == "layernorm" for entry in layers)
    np.testing.assert_allclose(found, want, atol=1e-3 if loose else 1e-5, rtol=1e-5)


def test_functions_over_their_range():
    x = np.concatenate([np.linspace(-90, 88, 4001), np.linspace(-1, 1, 4001), [0.0]])
    x = x.astype(np.float32)[:, None]
    for name, function in oracle.FUNCTIONS.items():
        found = engine(model(1, [{"type": name}]), chunk=100).represent(x)
        with np.errstate(over="ignore"):
            want = function(x.astype(float))
        np.testing.assert_allclose(found, want, rtol=2e-6, atol=6e-7, err_msg=name)


def test_inputs():
    inputs = [
        {"column": "c1", "transform": "log1p", "mean": 0.5, "std": 2.0, "clip": 1.0},
        {"column": "c0", "transform": "embedding", "size": 4, "dim": 3, "name": "e"},
        {
            "column": "c2",
            "transform": "embedding",
            "edges": [-1.0, 0.0, 2.5],
            "dim": 2,
            "name": "f",
        },
        {"column": "c1", "transform": "value", "mean": 1.0, "std": 4.0},
        {"column": "c2", "transform": "bits", "bits": 3},
    ]
    made = model(3, [], inputs=inputs)
    x = np.array(
        [[0, 3, -1], [2.9, -7, 0], [9, 1e30, 2.5], [-1, 0, 5], [-2, -0.0, 7]],
        np.float32,
    )
    found = engine(made).represent(x)
    e, f = made[1]["e.weight"], made[1]["f.weight"]
    first = [np.clip((np.log1p(v) - 0.5) / 2, -1, 1) for v in (3, 0, 1e30, 0, 0)]
    np.testing.assert_allclose(found[:, 0], first, rtol=1e-6)
    np.testing.assert_array_equal(found[:, 1:4], e[[0, 2, 3, 0, 0]])
    np.testing.assert_array_equal(found[:, 4:6], f[[1, 2, 3, 3, 3]])
    np.testing.assert_allclose(found[:, 6], [0.5, -2, 2.5e29, -0.25, -0.25], rtol=1e-6)
    bits = [[1, 1, 1], [0, 0, 0], [0, 1, 0], [1, 0, 1], [1, 1, 1]]
    np.testing.assert_array_equal(found[:, 7:], bits)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_features_that_are_not_finite_are_told_by_row_and_column(value):
    made, x = lstm_model(5, 8, 1, heads=[table(2)]), rows_of(5, 300)
    x[120, 3] = value
    found = engine(made)
    wanted = re.escape(f"column {made[0].columns[3]} of row 120 is {value}")
    for call in (
        lambda: found.predict(x),
        lambda: found.totals(x, [0, 300]),
        lambda: Stream(found, ["time"]).push(x[:121]),
        lambda: [s := Stream(found, ["time"]), s.push(x[:100]), s.push(x[100:])],
    ):
        with pytest.raises(UsageError, match=wanted):
            call()
    large = np.full_like(x, 3e38)  # their sum is infinite, they are not
    assert np.isfinite(found.predict(large)).all()


@relaxed
@given(
    data=st.data(), rows=st.integers(0, 400), chunk=st.integers(1, 90), warmup=st.integers(0, 50)
)
def test_pieces_are_the_whole_bit_for_bit(path, data, rows, chunk, warmup):
    made, x = lstm_model(5, 16, 1, heads=[table(3)]), rows_of(5, rows)
    whole = engine(made, path[1], chunk=chunk, warmup=warmup)
    want = whole.run(x, ["time", REPRESENTATION])
    edges = data.draw(st.lists(st.integers(0, rows), min_size=1, max_size=6).map(sorted))
    sums = whole.sum_representations(x, edges)
    cuts = data.draw(st.lists(st.integers(0, rows), max_size=6).map(sorted))
    parts = np.split(x, cuts)
    other = engine(made, path[1], chunk=chunk, warmup=warmup, threads=2)
    stream = Stream(other, ["time", REPRESENTATION], sums=[REPRESENTATION], breaks=edges)
    stream.batch = chunk * data.draw(st.integers(1, 3))  # so that short traces come in pieces
    found = [*map(stream.push, parts), stream.finish()]
    for name, values in want.items():
        np.testing.assert_array_equal(np.concatenate([f[name] for f in found]), values)
    np.testing.assert_array_equal(stream.totals[REPRESENTATION], sums)


def table(out):
    layers = [{"type": "linear", "name": "table", "out": out, "bias": False}]
    return {"name": "time", "layers": layers}


@relaxed
@given(
    rows=st.integers(1, 300),
    chunk=st.integers(1, 100),
    edges=st.lists(st.integers(0, 300), min_size=1, max_size=8),
)
def test_sums_are_sums(rows, chunk, edges):
    edges = sorted(min(e, rows) for e in edges)
    made, x = lstm_model(4, 8, 1, heads=[table(5), softplus()]), rows_of(4, rows)
    it = engine(made, chunk=chunk, threads=2)
    one = it.run(x, [REPRESENTATION, "time", "positive"])
    pairs = list(itertools.pairwise(edges))

    def total(name):
        return np.array([one[name][a:b].astype(float).sum(0) for a, b in pairs]).reshape(
            len(pairs), one[name].shape[1]
        )

    np.testing.assert_allclose(it.sum_representations(x, edges), total(REPRESENTATION), rtol=1e-12)
    np.testing.assert_allclose(it.totals(x, edges), total("time"), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(it.totals(x, edges, "positive"), total("positive"), rtol=1e-12)


def softplus():
    layers = [{"type": "linear", "name": "mean", "out": 1}, {"type": "softplus"}]
    return {"name": "positive", "layers": layers}


def test_bad_arguments(monkeypatch):
    made = lstm_model(3, 8, 1, heads=[table(2)])
    it = engine(made)
    for bad in (
        np.zeros((4, 3)),
        np.zeros((4, 2), np.float32),
        np.zeros((3, 4), np.float32).T,
        np.zeros(3, np.float32),
        [[0.0] * 3],
    ):
        with pytest.raises(UsageError):
            it.predict(bad)
    x = rows_of(3, 10)
    for breaks in ([0, 11], [3, 2], [-1, 4], [0.5, 1.0], [[0, 1]], []):
        with pytest.raises(UsageError):
            it.sum_representations(x, breaks)
    with pytest.raises(UsageError, match="'absent'; the model has: time"):
        it.predict(x, "absent")
    for outputs in (
        lambda: it.run(x, "time"),
        lambda: it.sum(x, [0, 10], "time"),
        lambda: Stream(it, "time"),
        lambda: Stream(it, sums="time", breaks=[0, 10]),
    ):
        with pytest.raises(UsageError, match=r"outputs is 'time'; a list of names \(\['time'\]\)"):
            outputs()
    with pytest.raises(UsageError, match="representation has 8"):
        it.apply_table(np.ones((2, 5)))
    for bad in (
        *({"dtype": "f16"}, {"dtype": "int8"}, {"threads": 0}, {"chunk": 0}, {"warmup": -1}),
        *({"chunk": 1.5}, {"warmup": 2.5}),
    ):
        with pytest.raises(UsageError):
            Engine(*made, **bad)
    with pytest.raises(UsageError):
        quantize_tensors(*made, x)
    monkeypatch.setenv("TRACEKIT_ISA", "sse9")
    with pytest.raises(UsageError, match="TRACEKIT_ISA"):
        engine(made)
    stream = Stream(it, ["time"], rows=10)
    with pytest.raises(UsageError, match="0 rows came; the stream is of 10"):
        stream.finish()
    stream.push(x[:8])
    with pytest.raises(UsageError, match="11 rows came; the stream is of 10"):
        stream.push(x[:3])
    stream.push(x[8:])
    assert len(stream.finish()["time"]) == 10
    stream = Stream(it, sums=[REPRESENTATION], breaks=[0, 20])
    stream.push(x)
    with pytest.raises(UsageError):
        stream.finish()
    with pytest.raises(UsageError):
        stream.push(x)


def save(folder, made, rows=50):
    card, tensors = made
    x = rows_of(len(card.columns), rows)
    want = engine(made, chunk=1 << 20).run(x, [REPRESENTATION, *(h.name for h in card.spec.heads)])
    golden = {"input": x, REPRESENTATION: want.pop(REPRESENTATION)}
    golden.update({f"head.{k}": v for k, v in want.items()})
    save_model(folder, card, tensors, golden)
    return golden


def test_folder_and_golden_rows(tmp_path):
    made = lstm_model(7, 16, 2, heads=[table(3)])
    golden = save(tmp_path, made)
    it = load(tmp_path, "f32", threads=1, verify=True)
    np.testing.assert_allclose(it.predict(golden["input"]), golden["head.time"], atol=1e-6)
    golden["head.time"] = golden["head.time"] + 0.1
    save_model(tmp_path, *made, golden)
    load(tmp_path, "f32")
    with pytest.raises(FormatError, match=r"head\.time differs"):
        load(tmp_path, "f32", verify=True)


@pytest.mark.slow
@pytest.mark.ci
def test_quantised_folder(tmp_path, monkeypatch):
    made = neuroscalar()
    save(tmp_path, made)
    x = rows_of(13, 2000)
    with pytest.raises(UsageError, match="quantize"):
        load(tmp_path, "int8")
    parts = quantize(tmp_path, x)
    assert set(parts) == {"rnn.l0", "rnn.l1"} and parts["rnn.l1"].weight_ih is not None
    assert parts["rnn.l0"].weight_ih is None  # a linear layer is folded into it
    it = load(tmp_path, "int8", threads=1)
    assert it.dtype == "int8"
    want = load(tmp_path, "f32", threads=1).represent(x)
    error = np.abs(it.represent(x) - want).max()
    assert error > 1e-4 and error < 4e-2
    added = load_corrections(tmp_path, load_card(tmp_path))
    direct = Engine(*made, parts, added, dtype="int8", threads=1)
    np.testing.assert_array_equal(it.represent(x), direct.represent(x))
    with (tmp_path / "int8.safetensors").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x7f")
    with pytest.raises(FormatError, match="SHA-256"):
        load(tmp_path, "f32")


@pytest.mark.parametrize(
    "name, value",
    [
        ("rnn.l0.weight_hh", np.zeros((32, 9), np.int8)),
        ("rnn.l0.weight_hh", np.zeros((32, 8), np.float32)),
        ("rnn.l0.scale_hh", np.zeros(32, np.float32)),
        ("rnn.l0.scale_hh", np.full(32, np.nan, np.float32)),
        ("rnn.l1.input_scale", np.full(1, np.inf, np.float32)),
        ("rnn.l1.scale_ih", None),
    ],
)
def test_bad_quantised_files(tmp_path, name, value):
    save(tmp_path, lstm_model(4, 8, 2))
    quantize(tmp_path, rows_of(4, 300))
    tensors = read_safetensors(tmp_path / INT8)
    tensors[name] = value
    kept = {k: v for k, v in tensors.items() if v is not None}
    save_card(tmp_path, load_card(tmp_path), {INT8: kept})
    with pytest.raises(FormatError, match=name):
        load(tmp_path, "f32")


def test_accuracy_table(tmp_path):
    save(tmp_path, lstm_model(4, 16, 1, heads=[softplus()]))
    x = [rows_of(4, 400, seed) * 2 for seed in (1, 2)]
    quantize(tmp_path, x[0])
    truth = [load(tmp_path, "f32").predict(b)[:, 0] + 3 for b in x]
    table = accuracy(tmp_path, x, truth)
    assert [(r["dtype"], r["corrected"]) for r in table] == [
        ("f32", False), ("bf16", False), ("bf16", True), ("int8", False), ("int8", True)
    ]  # fmt: skip
    rows = {row["dtype"]: row for row in table if not row["corrected"]}
    assert rows["f32"]["total_moves"] == rows["f32"]["largest_error"] == 0
    assert rows["f32"]["rounds_alike"] == 1 and rows["f32"]["mae"] == pytest.approx(3, abs=1e-5)
    assert 0 < rows["bf16"]["largest_error"] < 0.01 and 0 < rows["int8"]["total_moves"] < 0.02
    assert "acc_round" not in accuracy(tmp_path, x)[0]


def trained(both):
    """Layers of all kinds, heads of all types; larger weights, as training makes them, and inputs
    whose means are far from 0, so that rounding has a direction."""
    block = [{"type": "layernorm", "name": "n"}, {"type": "conv1d", "name": "c", "out": 24,
              "kernel": 3}, {"type": "silu"}]  # fmt: skip
    layers = [
        {"type": "linear", "name": "first", "out": 24},
        {"type": "residual", "layers": block},
        {"type": "lstm", "name": "rnn", "hidden": 24, "layers": 2, "bidirectional": both},
    ]
    made = model(6, layers, [softplus()], scale=0.4)
    made[0].extra["lookahead"] = 32
    return made


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("dtype", ["bf16", "int8"])
def test_corrected_biases(tmp_path, dtype, both):
    """On rows that the calibration did not see, totals are nearer; layers' means are right."""
    made = trained(both)
    save(tmp_path, made)
    x = np.abs(rows_of(6, 6000)) + 1
    quantize(tmp_path, x[:4000])
    exact = load(tmp_path, "f32", threads=1).predict(x)
    plain, corrected = (
        load(tmp_path, dtype, threads=1, corrected=c).predict(x) for c in (False, True)
    )
    for rows in (slice(0, 4000), slice(4000, 6000)):
        off, less = (abs(p[rows].mean() / exact[rows].mean() - 1) for p in (plain, corrected))
        assert less < max(0.4 * off, 3e-4), (off, less)  # below, they need not be kept
    card, tensors = load_card(tmp_path), made[1]
    parts = load_quantised(tmp_path, card)
    assert "bf16" in load_corrections(tmp_path, card)

    def narrow(biases):
        return Engine(card, tensors, parts, {dtype: biases}, dtype=dtype, threads=1)

    it = Engine(card, tensors, dtype="f32", threads=1)
    wanted, added = mean_products(it, x[:4000]), of_layers(it, narrow, x[:4000])
    assert len(added) == (7 if both else 5)
    found = mean_products(narrow(added), x[:4000])
    mean = found["mean.bias"][0] + added["mean.bias"]
    np.testing.assert_allclose(mean, wanted["mean.bias"][0], atol=1e-5)


def test_corrections_hold_on_every_isa(tmp_path, monkeypatch):
    """What one instruction set found is right for the others."""
    monkeypatch.delenv("TRACEKIT_ISA", raising=False)
    have = ISAS[: ISAS.index(active_isa()) + 1]
    save(tmp_path, trained(False))
    x = np.abs(rows_of(6, 3000)) + 1
    quantize(tmp_path, x)
    for isa in have:
        monkeypatch.setenv("TRACEKIT_ISA", isa)
        exact = load(tmp_path, "f32", threads=1).predict(x).mean()
        for dtype in ("bf16", "int8"):
            assert abs(load(tmp_path, dtype, threads=1).predict(x).mean() / exact - 1) < 3e-4


def test_products_means_are_the_oracles(path):
    """The means that corrections are made of, from weights and the oracle's activations."""
    made = lstm_model(4, 16, 1, heads=[softplus()])
    x = rows_of(4, 500) + 1
    t = {k: v.astype(float) for k, v in made[1].items()}
    it = engine(made, path[1])
    found = mean_products(it, x)
    assert set(found) == {"rnn.bias_ih_l0", "mean.bias"}
    parts, length = 1, 500
    h = oracle.stack(made[0].spec.to_dict()["layers"], x[: parts * length], made[1])[WARM:]
    want = t["rnn.weight_hh_l0"] @ h.mean(0) + t["rnn.weight_ih_l0"] @ x[WARM:].mean(0)
    np.testing.assert_allclose(found["rnn.bias_ih_l0"][0], want, atol=TOLERANCE[path[1]])
    want = t["mean.weight"] @ h.mean(0)
    np.testing.assert_allclose(found["mean.bias"][0], want, atol=TOLERANCE[path[1]])


@pytest.mark.parametrize(
    "name, value",
    [
        ("bf16.rnn.bias_ih_l0", np.zeros(31, np.float32)),
        ("bf16.rnn.bias_ih_l0", np.full(32, np.nan, np.float32)),
        ("bf16.rnn.weight_hh_l0", np.zeros((32, 8), np.float32)),
        ("f16.rnn.bias_ih_l0", np.zeros(32, np.float32)),
        ("int8.rnn.bias_ih_l9", np.zeros(32, np.float32)),
    ],
)
def test_bad_corrections(tmp_path, name, value):
    save(tmp_path, lstm_model(4, 8, 2))
    quantize(tmp_path, rows_of(4, 300))
    tensors = {**read_safetensors(tmp_path / CORRECTIONS), name: value}
    save_card(tmp_path, load_card(tmp_path), {CORRECTIONS: tensors})
    with pytest.raises(FormatError, match=name):
        load(tmp_path, "f32")


def test_no_torch_is_imported():
    code = "import sys, tracekit.infer; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
