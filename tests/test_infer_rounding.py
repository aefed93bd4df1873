"""Weights and features in int8: how they are rounded, and what corrects the sums."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import test_infer
from hypothesis import given
from hypothesis import strategies as st
from oracles import lstm as oracle
from test_infer import TOLERANCE, engine, lstm_model, model, relaxed, rows_of, save, table

from tracekit.infer import REPRESENTATION, load, quantize
from tracekit.infer.alternate import SETS, round_in_turns, set_at, shuffled
from tracekit.infer.correct import WARM, corrections, lstm_moments
from tracekit.infer.feedback import round_weights
from tracekit.infer.quantization import (
    quantize_tensors,
)
from tracekit.model import (
    load_card,
)

path = test_infer.path  # the fixture


def test_weights_keep_their_products_in_int8():
    """Rows of very different size keep their own scales; errors of weights cancel on the states."""
    card, tensors = lstm_model(4, 16, 1)
    tensors["rnn.weight_hh_l0"] *= np.logspace(-3, 1, 64, dtype=np.float32)[:, None]
    tensors["rnn.weight_hh_l0"][5] = 0
    x = rows_of(4, 3000)
    part = quantize_tensors(card, tensors, x)["rnn.l0"]
    weight, scale = tensors["rnn.weight_hh_l0"], part.scale_hh[:, None]
    np.testing.assert_allclose(
        scale[:, 0] * 127, np.abs(weight).max(1) + (weight == 0).all(1) * 127
    )
    h = engine((card, tensors)).represent(x).astype(float)
    # the first set, as each by itself; the sets together; each weight's nearest
    whole = part.weight_hh[0], part.weight_hh.mean(axis=0), np.rint(weight / scale)
    first, kept, nearest = (np.square(h @ (w - weight / scale).T).sum() for w in whole)
    assert 0 < first < 0.8 * nearest and 0 < kept < 0.2 * first
    assert part.weight_ih is None  # raw features stay in bfloat16


@relaxed
@given(seed=st.integers(0, 1000), inputs=st.integers(1, 8), rank=st.integers(1, 8))
def test_rounding_with_feedback(seed, inputs, rank):
    """No further from the products than each weight's nearest, on inputs that go together; that,
    where they do not."""
    rng = np.random.default_rng(seed)
    weight = rng.standard_normal((64, inputs)) * 10
    nearest = np.rint(weight)
    np.testing.assert_array_equal(round_weights(weight, np.eye(inputs)), nearest)
    z = rng.standard_normal((500, rank)) @ rng.standard_normal((rank, inputs))
    rounded = round_weights(weight, z.T @ z / 500)
    mine, plain = (np.square(z @ (q - weight).T).sum() for q in (rounded, nearest))
    assert mine < 1.1 * plain + 1e-9


@relaxed
@given(seed=st.integers(0, 1000), outputs=st.integers(1, 40), inputs=st.integers(1, 40))
def test_roundings_in_turns(seed, outputs, inputs):
    """Together SETS times as near as the nearest whole number can be, in whatever order."""
    weight = np.random.default_rng(seed).uniform(-9, 9, (outputs, inputs))
    sets = round_in_turns(weight, np.rint)
    assert np.abs(sets - weight).max() <= 1 and np.abs(sets[0] - weight).max() <= 0.5
    assert np.abs(sets.mean(axis=0) - weight).max() <= 0.5 / SETS + 1e-12
    mixed = shuffled(sets)
    np.testing.assert_array_equal(np.sort(mixed, axis=0), np.sort(sets, axis=0))
    if outputs * inputs > 400:  # about as many weights begin with each of the sets
        same = [(mixed[0] == s)[(sets != s).any(axis=0)].mean() for s in sets]
        assert min(same) > 0.2


def test_steps_of_loops_have_all_sets():
    """A loop's instruction comes by every set, as often, whatever the loop's length."""
    for length in range(1, 34):
        found = [set_at(-256 + length * k) for k in range(400)]
        assert set(found) == set(range(SETS))
        assert np.bincount(found).min() > 80


@pytest.mark.parametrize("backward", [False, True])
def test_whole_numbers_keep_the_sum_of_states(path, backward):
    """What an int8 LSTM reads of itself adds up to its states, to half a step of 1/127."""
    if path[1] != "int8":
        pytest.skip("of int8 alone")
    lstm = {"type": "lstm", "name": "rnn", "hidden": 20, "layers": 1, "bidirectional": backward}
    it = engine(model(3, [lstm], scale=0.5), "int8", lookahead=8 if backward else None)
    inputs, layers, _, _ = it.chains(60, 3)
    inputs.run(rows_of(3, 200), np.arange(inputs.output.array.shape[1]), 60)
    layers.run(60)
    (runner,) = (r for r in layers.runners if hasattr(r, "parts") or hasattr(r, "own"))
    for part in getattr(runner, "parts", (runner,)):
        zero = 128.0 if part.own.format == "u8" else 0.0
        mine = (part.own.array[..., :20].astype(float) - zero).sum(axis=0)
        states = part.output.array if part.output.format == "f32" else layers.output.array
        error = np.abs(mine - 127 * states[..., :20].astype(float).sum(axis=0))
        assert 0.1 < error.max() < 0.51
        assert np.abs(states).max() > 0.2


def test_moments_are_the_oracles():
    """Of an LSTM's states and inputs side by side."""
    made, x = lstm_model(4, 16, 2), rows_of(4, 500) + 1
    found = lstm_moments(engine(made), x)
    assert set(found) == {"rnn.bias_ih_l0", "rnn.bias_ih_l1"}
    spec = made[0].spec.to_dict()["layers"]
    first = [{**spec[0], "layers": 1}]
    h0, h1 = (oracle.stack(layers, x, made[1]) for layers in (first, spec))
    for name, h, z in (("rnn.bias_ih_l0", h0, x), ("rnn.bias_ih_l1", h1, h0)):
        both = np.concatenate([h, z], axis=1)[WARM:]
        np.testing.assert_allclose(found[name], both.T @ both / len(both), atol=1e-4)


def test_corrections_of_programs():
    """A program that goes its own way does not count for more than the others, and what does not
    help programs that are left out is not kept."""
    made = lstm_model(4, 16, 1, heads=[table(3)])
    exact = engine(made)
    x, edges = rows_of(4, 2000), np.arange(0, 2001, 200)
    shift = np.zeros((10, 16))

    class Narrow:
        def sum_representations(self, features, breaks):
            return exact.sum_representations(features, breaks) + 200 * shift

    for value, kept in ((0.1, True), (0.0, False)):
        shift[:] = value
        shift[3] = -5
        added, moved = corrections(exact, lambda _: Narrow(), x, edges)
        assert moved < 1e-6 and set(added) == ({REPRESENTATION} if kept else set())
        if kept:
            np.testing.assert_allclose(added[REPRESENTATION], -value, atol=1e-6)


def test_calibration_takes_all_programs(tmp_path, monkeypatch):
    """As many rows of each as there is room for, and no program that is empty."""
    monkeypatch.setattr(sys.modules["tracekit.infer.quantization"], "MAX_ROWS", 1500)
    save(tmp_path, lstm_model(4, 8, 1, heads=[table(2)]))
    quantize(tmp_path, [rows_of(4, n, seed=n) for n in (900, 0, 200, 400, 300)])
    about = load_card(tmp_path).extra["corrections"]
    assert about["rows"] == 375 + 200 + 375 + 300
    assert set(about["totals_move"]) == {"bf16", "int8"}
    assert 0 < about["totals_move"]["bf16"] < 0.05


def flags_and_distances(rows, seed=3):
    """Raw features as PerfVec's are: flags, register numbers, distances that are mostly 0, a flag
    that is hardly ever set, a column that never varies; and their means and deviations."""
    rng = np.random.default_rng(seed)
    x = np.zeros((rows, 8))
    x[:, 0] = rng.random(rows) < 0.3
    x[:, 1] = rng.integers(0, 33, rows)
    x[:, 2] = np.where(rng.random(rows) < 0.8, 0, rng.exponential(2e6, rows)).clip(0, 1e7)
    x[:, 3] = rng.random(rows) < 1e-3
    x[:, 5:] = rng.standard_normal((rows, 3))
    std = x.std(axis=0)
    inputs = [{"column": f"c{j}", "mean": float(x[:, j].mean()), "std": float(std[j] or 1)}
              for j in range(8)]  # fmt: skip
    return x.astype(np.float32), inputs


def test_raw_features_in_int8(path, tmp_path):
    """Common values are exact, rare flags stay apart, and what is out of range is cut off."""
    x, inputs = flags_and_distances(4000)
    lstm = [{"type": "lstm", "name": "rnn", "hidden": 40, "layers": 2}, {"type": "relu"}]
    made = model(8, lstm, [table(5)], inputs=inputs)
    made[0].microarchitectures = [{"name": f"m{i}"} for i in range(5)]
    part = quantize_tensors(*made, x[:3000], raw=True)["rnn.l0"]
    columns, v = part.columns, (x - [i["mean"] for i in inputs]) / [i["std"] for i in inputs]
    assert columns.apart.tolist() == [3]
    assert (part.weight_ih[..., 3] == 0).all() and (part.weight_ih[..., :3] != 0).any()
    read = np.rint((v - columns.center) / columns.step).clip(-127, 127)
    back = read * columns.step + columns.center
    np.testing.assert_allclose(back[:, [0, 1, 4]], v[:, [0, 1, 4]], atol=1e-4)
    common = x[:, 2] == 0
    np.testing.assert_allclose(back[common, 2], v[common, 2], atol=1e-6)
    tame = [0, 1, 2, 4, 5, 6, 7]
    assert (np.abs(back - v)[:, tame] <= 0.51 * columns.step[tame]).mean() > 0.99
    save(tmp_path, made)
    quantize(tmp_path, x[:3000], raw=True)
    about = load_card(tmp_path).extra["int8"]
    assert about["inputs"] == "int8" and about["inputs_in_bf16"] == ["c3"]
    exact, it = (load(tmp_path, d, threads=1, chunk=300) for d in ("f32", path[1]))
    error = np.abs(it.represent(x) - exact.represent(x))
    assert error.max() < TOLERANCE[path[1]]
    totals = exact.totals(x, [0, 4000])
    assert np.abs(it.totals(x, [0, 4000]) / totals - 1).max() < 0.02
    near = it.sum_representations(x, [0, 3000]) - exact.sum_representations(x, [0, 3000])
    assert path[1] == "f32" or 0 < np.abs(near / 3000).max() < 1e-4  # as calibrated
    assert np.abs(it.predict(x) - exact.predict(x)).max() < TOLERANCE[path[1]]
    both = it.run(x, ["time", REPRESENTATION])
    np.testing.assert_array_equal(both["time"], it.predict(x))
    x[:50, 0], x[:50, 2], x[:50, 4] = 1e9, -1e9, 1e30
    if path[1] == "int8":
        assert np.isfinite(it.predict(x)).all() and np.abs(it.represent(x)).max() <= 1


def test_raw_features_stay_where_int8_does_harm(tmp_path, monkeypatch):
    """The calibration rows decide, and the card says how."""
    module = sys.modules["tracekit.infer.quantization"]
    x, inputs = flags_and_distances(1500)
    save(tmp_path, model(8, [{"type": "lstm", "name": "rnn", "hidden": 8}], inputs=inputs))
    for limit, inputs_in in ((1e9, "int8"), (-1, "bf16")):
        monkeypatch.setattr(module, "WORSE", limit)
        monkeypatch.setattr(module, "HARMLESS", limit)
        part = quantize(tmp_path, x)["rnn.l0"]
        assert (part.weight_ih is None) == (inputs_in == "bf16")
        about = load_card(tmp_path).extra["int8"]
        assert about["inputs"] == inputs_in and set(about["totals_move"]) == {"bf16", "int8"}
        assert load(tmp_path, "int8").represent(x).shape == (1500, 8)
