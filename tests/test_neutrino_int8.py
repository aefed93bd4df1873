"""The int8 engine against the accelerator's static schedule, bit for bit.

The schedule is carried out as `tracekit.infer.neutrino.schedule` lists it: gate by gate, panel by
panel of ``lanes`` outputs, one input (of x and h) a cycle, in whole numbers.  What follows the
products in the accelerator's pipeline (scale, bias, functions, the rounding of h) is the engine's
own: its kernel runs once more, without weights, on the schedule's sums in the place of its biases.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest

from tests.test_infer import engine, lstm_model, path, quantized, rows_of  # noqa: F401
from tracekit.infer.alternate import set_at
from tracekit.infer.lstm import LstmRunner
from tracekit.infer.neutrino import Machine, schedule
from tracekit.infer.pack import aligned, pack_rows

STEPS, ROWS = 9, 2
COLUMNS, HIDDEN = 5, 40
GATES = "ifgo"


def whole(block, width):
    """What a product reads, as whole numbers (u8 with its zero of 128 left in)."""
    values = block[..., :width].astype(np.float64)
    assert (values == np.rint(values)).all()
    return values.astype(np.int64)


def carried_out(step, machine, inputs, weights):
    """One matrix of the schedule: int64 [outputs] sums and the cycles that they took."""
    out, k = weights.shape
    sums, cycles = np.zeros(out, np.int64), 0
    for panel in range(0, out, machine.lanes):
        for cycle in range(k):  # one activation, broadcast to the lanes
            sums[panel : panel + machine.lanes] += (
                inputs[cycle] * weights[panel : panel + machine.lanes, cycle]
            )
            cycles += 1
    assert cycles == step.compute and step.macs == out * k
    assert np.abs(sums).max(initial=0) < 1 << 24  # exact in the engine's int32 and float32
    return sums


def fma(a, b, c):
    """Rounded once, from float64, which holds these products exactly."""
    return (a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)).astype(np.float32)


@pytest.mark.parametrize("lanes", [16, 256])
def test_the_int8_engine_is_its_schedule(path, lanes):  # noqa: F811
    if path[1] != "int8":
        pytest.skip("of int8 alone")
    made = lstm_model(COLUMNS, HIDDEN, 3)
    parts = quantized(*made, None)
    machine = Machine(lanes=lanes)
    steps = {s.name: s for s in schedule(made[0], machine).steps}
    it = engine(made, "int8")
    inputs, layers, _, _ = it.chains(STEPS, ROWS)
    runners = [r for r in layers.runners if isinstance(r, LstmRunner)]
    assert len(runners) == 3
    inputs.run(rows_of(COLUMNS, 200), np.arange(inputs.output.array.shape[1]), STEPS)
    layers.run(STEPS)
    compared = 0
    for number, runner in enumerate(runners):
        if number == 0:
            continue  # its x are features, which int8 leaves in bfloat16 here
        part = parts[f"rnn.l{number}"]
        width = part.weight_ih.shape[2]
        own, plan = runner.history, runner.plan
        before = np.zeros_like(own[0])
        before[...] = runner.zero
        state = LstmRunner(_without_weights(plan), runner.source, STEPS, own.shape[1])
        for t in range(STEPS):
            h = before if t == 0 else own[t]
            x = runner.source.array[t]
            kept = state.cells.copy(), state.rest.copy()
            after = kept[0].copy(), kept[1].copy()
            for row in range(own.shape[1]):
                state.plan.bias[...] = _biases(
                    plan, part, steps, f"rnn.l{number}", machine, set_at(t),
                    whole(x[row], width), whole(h[row], HIDDEN),
                )  # fmt: skip
                state.cells[...], state.rest[...] = kept
                state.history[0] = h
                state.position = t
                state.source = _at(runner.source, t)
                state.run(1)
                assert np.array_equal(state.history[1, row], own[t + 1, row]), (number, t, row)
                after[0][row], after[1][row] = state.cells[row], state.rest[row]
                compared += HIDDEN
            state.cells[...], state.rest[...] = after
        assert np.array_equal(state.cells, runner.cells)
        assert len(np.unique(own[1:])) > 8
    assert compared == 2 * STEPS * HIDDEN * runners[0].history.shape[1]


def _without_weights(plan):
    out = copy.copy(plan)
    out.weights = aligned(plan.weights.shape, plan.weights.dtype)  # zeros
    out.bias = aligned(plan.bias.shape, plan.bias.dtype)
    return out


def _at(block, step):
    out = copy.copy(block)
    object.__setattr__(out, "array", block.array[step : step + 1])
    return out


def _biases(plan, part, steps, name, machine, turn, x, h):
    """The sums of the schedule with scale and bias, packed as the kernel reads biases."""
    lanes = plan.target.lanes
    bias = plan.bias[turn if len(plan.bias) > 1 else 0]
    scales = plan.scales
    weight = {k: getattr(part, k)[turn].astype(np.int64) for k in ("weight_ih", "weight_hh")}
    acc = []
    for k, gate in enumerate(GATES):
        rows = slice(k * HIDDEN, (k + 1) * HIDDEN)
        both = np.concatenate([weight["weight_ih"][rows], weight["weight_hh"][rows]], axis=1)
        step = steps[f"{name}.{gate}"]
        acc.append(carried_out(step, machine, np.concatenate([x, h]), both))
    sums = pack_rows(np.concatenate(acc).astype(np.float32), lanes, 4)
    # both inputs are an LSTM's h, so that one scale follows the sum of both
    assert np.array_equal(scales[:, 0], scales[:, 1])
    return fma(sums, scales[:, 0].reshape(sums.shape), bias.reshape(sums.shape))
