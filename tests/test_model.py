"""Model folders: what is written is read back, and nothing that a file claims is believed."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracekit.errors import FormatError, TracekitError
from tracekit.model import (
    Card,
    ModelSpec,
    load_card,
    load_tensors,
    read_safetensors,
    save_model,
    write_safetensors,
)

SPEC = {
    "inputs": [
        {"column": "a", "transform": "log1p", "mean": 1.0, "std": 2.0, "clip": 8.0},
        {"column": "b", "transform": "embedding", "name": "e", "dim": 4, "size": 9},
        {"column": "b", "transform": "embedding", "name": "f", "dim": 2, "edges": [1.0, 2.0]},
        {"column": "a", "transform": "bits", "bits": 3},
    ],
    "layers": [
        {"type": "conv1d", "name": "c", "out": 8, "kernel": 4, "dilation": 2, "bias": False},
        {"type": "residual", "layers": [{"type": "layernorm", "name": "n", "eps": 1e-5}]},
        {"type": "gru", "name": "g", "hidden": 8, "layers": 2, "bias": True},
        {"type": "mingru", "name": "m", "hidden": 6, "bias": True},
        {"type": "lstm", "name": "l", "hidden": 5, "layers": 1, "bias": True},
        {"type": "linear", "name": "o", "out": 3, "bias": True},
        {"type": "relu"},
    ],
    "heads": [
        {
            "name": "time",
            "type": "stack",
            "targets": True,
            "layers": [{"type": "linear", "name": "t", "out": 2, "bias": False}],
        },
    ],
}


def card():
    return Card(
        "x", ModelSpec.parse(SPEC), ("a", "b"), microarchitectures=[{"name": "m"}, {"name": "n"}]
    )


def weights(spec):
    rng = np.random.default_rng(0)
    return {n: rng.standard_normal(s).astype(np.float32) for n, s in spec.tensors().items()}


def test_round_trip(tmp_path):
    made = card()
    made.extra["mine"] = {"kept": [1, 2]}
    tensors = weights(made.spec)
    save_model(tmp_path, made, tensors, {"input": np.zeros((2, 2), np.float32)})
    back = load_card(tmp_path)
    assert back == made and back.spec.to_dict() == SPEC
    saved = json.loads((tmp_path / "card.json").read_text())
    assert saved.pop("target_names") == ["m", "n"]
    (tmp_path / "card.json").write_text(json.dumps(saved))  # as before there were any
    assert load_card(tmp_path) == back
    found = load_tensors(tmp_path, back)
    assert found.keys() == tensors.keys()
    for name in tensors:
        np.testing.assert_array_equal(found[name], tensors[name])
    assert back.spec.parameters() == sum(t.size for t in tensors.values())


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u1"])
def test_tensors(tmp_path, dtype):
    rng = np.random.default_rng(0)
    want = {
        "a": (rng.standard_normal((3, 1, 2)) * 50).astype(dtype),
        "b": np.zeros((0, 4), dtype),
        "c": np.array(3, dtype),
    }
    path = tmp_path / "t.safetensors"
    write_safetensors(path, want)
    found = read_safetensors(path)
    for name, array in want.items():
        assert found[name].dtype == array.dtype and found[name].shape == array.shape
        np.testing.assert_array_equal(found[name], array)
    numpy = pytest.importorskip("safetensors.numpy")
    for name, array in numpy.load_file(path).items():
        np.testing.assert_array_equal(array, want[name])
    numpy.save_file(want, path)
    assert read_safetensors(path).keys() == want.keys()


def test_bfloat16(tmp_path):
    bits = np.array([0x3F80, 0xC000, 0x0001], "<u2")
    header = json.dumps({"x": {"dtype": "BF16", "shape": [3], "data_offsets": [0, 6]}}).encode()
    path = tmp_path / "t.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + bits.tobytes())
    np.testing.assert_array_equal(read_safetensors(path)["x"], np.float32([1, -2, 2.0**-133]))


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [2**31, 2**31, 2**31], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]},
        {"dtype": "F32", "shape": [1], "data_offsets": [2, 6]},
        {"dtype": "F32", "shape": [True], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [1.0], "data_offsets": [0, 4]},
        {"dtype": "F99", "shape": [1], "data_offsets": [0, 4]},
        {"dtype": ["F32"], "shape": [1], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [1] * 99, "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [1]},
        [],
    ],
)
def test_claims_are_checked(tmp_path, entry):
    header = json.dumps({"x": entry}).encode()
    path = tmp_path / "t.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + b"\0\0\0\0")
    with pytest.raises(FormatError, match="x"):
        read_safetensors(path)


@settings(max_examples=200)
@given(cut=st.integers(0, 300), at=st.integers(0, 299), byte=st.integers(0, 255))
def test_damaged_files_are_refused_or_read(tmp_path_factory, cut, at, byte):
    path = tmp_path_factory.getbasetemp() / "damaged.safetensors"
    write_safetensors(path, {"a": np.ones((3, 4), np.float32), "b": np.ones(5, np.int8)})
    data = bytearray(path.read_bytes())
    data[min(at, len(data) - 1)] = byte
    path.write_bytes(data[: max(0, len(data) - cut)] if cut < 200 else data)
    try:
        for array in read_safetensors(path).values():
            array.sum(dtype=float)
    except TracekitError as error:
        assert str(path) in str(error)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=300)
@given(data=st.data(), value=JSON)
def test_damaged_cards_are_refused(data, value):
    """Any one value of a good spec is replaced by another one: an error of ours, or a spec."""
    spec = json.loads(json.dumps(SPEC))
    place = spec
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        if isinstance(place[key], dict | list) and place[key] and data.draw(st.booleans()):
            place = place[key]
        else:
            place[key] = value
            break
    try:
        parsed = ModelSpec.parse(spec)
    except FormatError:
        return
    assert ModelSpec.parse(parsed.to_dict()) == parsed


@pytest.mark.parametrize(
    "change, match",
    [
        ({"format": "other"}, "not a model card"),
        ({"version": 9}, "version 9"),
        ({"features": {"columns": ["a", "a"]}}, "twice"),
        ({"features": {"columns": ["b"]}}, "'a' is not in features"),
        ({"microarchitectures": []}, "2 outputs for 0"),
        ({"microarchitectures": [{"name": "m"}, {"name": "m"}]}, "m is there twice"),
        ({"microarchitectures": [{"name": "m"}, {}]}, "a name is missing"),
        ({"microarchitectures": [{"name": "m"}, {"name": 5}]}, "or no string"),
        (
            {"microarchitectures": [{"name": "n"}, {"name": "m"}]},
            "not target_names, in their order",
        ),
        ({"target_names": ["m", 5]}, "not target_names, in their order"),
        ({"files": {}}, "not among"),
        ({"files": {"model.safetensors": "00"}}, "SHA-256"),
        ({"spec": None}, "spec is not"),
    ],
)
def test_bad_cards(tmp_path, change, match):
    made = card()
    save_model(tmp_path, made, weights(made.spec))
    data = json.loads((tmp_path / "card.json").read_text())
    (tmp_path / "card.json").write_text(json.dumps({**data, **change}))
    with pytest.raises(FormatError, match=match) as caught:
        load_tensors(tmp_path, load_card(tmp_path))
    assert str(tmp_path) in str(caught.value)


def test_convolutions_reach_is_bounded():
    layer = {"type": "conv1d", "name": "c", "out": 1, "kernel": 1024, "dilation": 1024}
    with pytest.raises(FormatError, match="reaches back"):
        ModelSpec.parse({"inputs": [{"column": "a"}], "layers": [layer], "heads": []})


def test_small_cards_ask_for_little():
    """Wide rows that are kept for long, and one large tensor in thousands of layers."""

    wide = {"type": "linear", "name": "w", "out": 4096}
    kept = {"type": "conv1d", "name": "c", "out": 1, "kernel": 16, "dilation": 1024}
    square = {"type": "linear", "name": "s", "out": 4096}
    for layers, match in (([wide, kept], "keep"), ([wide, *[square] * 9], "share weights")):
        with pytest.raises(FormatError, match=match):
            ModelSpec.parse({"inputs": [{"column": "a"}], "layers": layers, "heads": []})
    ModelSpec.parse({"inputs": [{"column": "a"}], "layers": [wide, square], "heads": []})


def test_bad_weights(tmp_path):
    made = card()
    good = weights(made.spec)
    for name, array, match in (
        ("t.weight", np.full((2, 3), np.nan, np.float32), "not finite"),
        ("t.weight", np.zeros((3, 2), np.float32), "asks for"),
        ("t.weight", np.zeros((2, 3), np.int32), "floating"),
    ):
        with pytest.raises(FormatError, match=match):
            save_model(tmp_path, made, {**good, name: array})
    del good["e.weight"]
    with pytest.raises(FormatError, match="missing"):
        save_model(tmp_path, made, good)


def test_no_folder(tmp_path):
    with pytest.raises(FormatError, match="cannot be read"):
        load_card(tmp_path / "absent")
    (tmp_path / "card.json").write_bytes(b"[" * 100000)
    with pytest.raises(FormatError, match="not JSON"):
        load_card(tmp_path)


def test_tensors_that_share_bytes_are_refused(tmp_path):
    def write(spans):
        entries = {
            name: {"dtype": "U8", "shape": [b - a], "data_offsets": [a, b]}
            for name, (a, b) in spans.items()
        }
        text = json.dumps(entries).encode()
        place = tmp_path / "t.safetensors"
        place.write_bytes(struct.pack("<Q", len(text)) + text + bytes(100))
        return place

    for spans in (
        {"a": (0, 100), "b": (0, 100)},
        {"a": (0, 10), "b": (9, 20)},
        {"a": (0, 10), "empty": (5, 5), "b": (6, 12)},
    ):
        with pytest.raises(FormatError, match="share bytes"):
            read_safetensors(write(spans))
    apart = read_safetensors(write({"a": (0, 10), "empty": (10, 10), "b": (10, 20), "c": (50, 60)}))
    assert {k: v.size for k, v in apart.items()} == {"a": 10, "empty": 0, "b": 10, "c": 10}
