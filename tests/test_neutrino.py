"""The accelerator's cost model: the paper's own arithmetic, buffers, tiles, and the command."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracekit.cli.main import main
from tracekit.errors import UsageError
from tracekit.infer.neutrino import Machine, layers, schedule, table3
from tracekit.model import Card, ModelSpec, save_model

HEAD = {
    "name": "cycles",
    "type": "two_way",
    "hidden": 64,
    "threshold": 10,
    "cap": 1000,
    "classifier": ["cls_fc1", "cls_fc2"],
    "short": "output_layer_short",
    "long": "output_layer_long",
}


def card(columns=13, hidden=256, layers=2, first=True, heads=(HEAD,)):
    names = [f"c{i}" for i in range(columns)]
    stack = [{"type": "linear", "name": "input_proj", "out": hidden}] * first
    stack.append({"type": "lstm", "name": "rnn", "hidden": hidden, "layers": layers})
    spec = {"inputs": [{"column": c} for c in names], "layers": stack, "heads": list(heads)}
    return Card("x", ModelSpec.parse(spec), tuple(names))


def test_neuroscalars_layers():
    """4 gates x 512 inputs x 256 outputs over 256 lanes are 2048 cycles."""
    machine = Machine(drain=0)
    found = {row["layer"]: row for row in layers(schedule(card(), machine).steps, machine)}
    assert found["rnn.l0"] == {
        "layer": "rnn.l0",
        "macs": 524_288,
        "weights": 524_288,
        "cycles": 2048,
        "utilisation": 1.0,
    }
    assert found["input_proj"]["cycles"] == 13
    assert found["cls_fc1"]["cycles"] == 256 and found["cls_fc1"]["utilisation"] == 0.25


def test_the_papers_8264():
    """Four rows side by side, or a port of 64 bytes a cycle; the drain is fitted to it."""
    for machine in (Machine(batch=4), Machine(port=64)):
        found = {row["layer"]: row for row in layers(schedule(card(), machine).steps, machine)}
        assert found["rnn.l0"]["cycles"] == found["rnn.l1"]["cycles"] == 8264
        assert round(found["rnn.l0"]["utilisation"], 3) == (0.991 if machine.batch == 4 else 0.248)
    alone = card(first=False, columns=256, heads=())
    found = schedule(alone, Machine(port=64, clock_hz=324.84e6))
    assert found.instructions_per_s == pytest.approx(3000e6 / 152_642, rel=1e-3)
    found = schedule(alone, Machine(port=64, clock_hz=324.84e6, tiles=8))
    assert found.instructions_per_s == pytest.approx(3000e6 / 19_080, rel=1e-3)


@settings(max_examples=50)
@given(
    columns=st.integers(1, 100),
    hidden=st.integers(1, 700),
    depth=st.integers(1, 3),
    batch=st.integers(1, 9),
    port=st.integers(0, 300),
    tiles=st.integers(1, 8),
)
def test_the_schedule_adds_up(columns, hidden, depth, batch, port, tiles):
    machine = Machine(batch=batch, port=port, tiles=tiles)
    made = card(columns, hidden, depth)
    found = schedule(made, machine)
    shapes = [s for s in made.spec.tensors().values() if len(s) == 2]
    assert found.macs == sum(a * b for a, b in shapes)
    assert 0 < found.utilisation <= 1
    # no schedule is faster than the lanes, or than the port
    assert found.cycles >= found.macs * batch / 256
    if port:
        assert found.cycles >= sum(a * b for a, b in shapes) / port
    one = schedule(made, Machine(batch=batch, port=port))
    assert found.instructions_per_s == pytest.approx(tiles * one.instructions_per_s)
    for step in found.steps:
        assert step.local_weights <= machine.local_weights
    assert bool(found.notes) == any(not b["fits"] for b in found.to_dict()["buffers"].values())


def test_table3():
    rows = {row["claim"]: row for row in table3()}
    assert rows["cycles of an LSTM layer"]["derived"] == 2048
    assert not rows["cycles of an LSTM layer"]["consistent"]
    assert rows["instructions a second, 8 tiles"]["derived"] == 157_233
    assert rows["area of 8 tiles"]["derived"] == 3.14


def test_bad_machines():
    for bad in ({"tiles": 0}, {"tiles": 9}, {"batch": 0}, {"clock_hz": 0}, {"port": -1}):
        with pytest.raises(UsageError):
            Machine(**bad)
    empty = Card(
        "x", ModelSpec.parse({"inputs": [{"column": "a"}], "layers": [], "heads": []}), ("a",)
    )
    with pytest.raises(UsageError):
        schedule(empty)


def test_command(tmp_path, capsys):
    made = card()
    weights = {n: np.zeros(s, np.float32) for n, s in made.spec.tensors().items()}
    save_model(tmp_path, made, weights)
    assert main(["neutrino", str(tmp_path), "--json", "--table3", "--tiles", "8"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert out["machine"]["tiles"] == 8 and len(out["table3"]) > 10
    assert out["macs_per_instruction"] == 1_068_928
    assert out["buffers"]["weights"]["bytes"] == 1_073_348
    assert main(["neutrino", str(tmp_path), "--port", "64"]) == 0
    assert "8,264 cycles" in capsys.readouterr().out
    assert main(["neutrino", str(tmp_path / "absent")]) == 1
    assert main(["neutrino", str(tmp_path), "--tiles", "99"]) == 2
