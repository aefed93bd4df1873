"""LSTM layers ready to run: packed weights that threads share, and runners that hold a thread's
state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tracekit.infer import loops
from tracekit.infer.alternate import round_in_turns, shuffled
from tracekit.infer.blocks import UNIT, Array, Block, Columns, Formats, Runner, kind_of
from tracekit.infer.emit import Copy, Product
from tracekit.infer.kernels import TARGETS, Kernel, lstm_kernel
from tracekit.infer.linear import in_bits, offset
from tracekit.infer.pack import (
    aligned,
    group_count,
    pack,
    pack_rows,
    round_bf16,
    round_up,
)

__all__ = ["BiLstmPlan", "BiLstmRunner", "LstmPlan", "LstmRunner", "Quantised"]


@dataclass(frozen=True)
class Quantised:
    """One LSTM layer's part of int8.safetensors: weights are int8 [SETS, rows, in], which steps
    have in turns (alternate.py), scales float32 [rows]."""

    weight_hh: Array
    scale_hh: Array
    weight_ih: Array | None = None  # None: the input stays in bfloat16
    scale_ih: Array | None = None
    input_scale: float = UNIT
    columns: Columns | None = None  # of raw features, whose steps are in weight_ih

    def values(self, weight_ih: Array) -> tuple[Array, ...]:
        """The weights of h and of x, and of what of x stays in bfloat16, by sets, that the numbers
        stand for, given those of x in float32."""
        first = self.weight_hh * self.scale_hh[:, None]
        if self.weight_ih is None or self.scale_ih is None:
            return first, halves(weight_ih)
        second = self.weight_ih * self.scale_ih[:, None]
        if self.columns is None or not len(self.columns.apart):
            return first, second
        return first, second, halves(weight_ih[:, self.columns.apart])


class LstmPlan:
    """One LSTM layer in the engine's number format, with sets of weights that steps have in turns
    where these are rounded.

    ``folded``: the weights of x are those of a linear layer before it, too (``fold``); they and x
    are few, and stay in float32.  ``raw``: how to read raw features in bfloat16.
    """

    def __init__(
        self,
        formats: Formats,
        weight_ih: Array,
        weight_hh: Array,
        bias: Array,
        quantised: Quantised | None,
        biases: Sequence[tuple[str, int]] = (),
        folded: bool = False,
        raw: Columns | None = None,
    ) -> None:
        self.biases = tuple(biases)
        self.target = TARGETS[formats.isa]
        lanes = self.target.lanes
        own = None if quantised is None or quantised.weight_ih is None else quantised
        self.columns = None if folded or formats.dtype == "f32" else own.columns if own else raw
        # what the inputs' zeros stand for goes into the bias
        self.shift = np.zeros(len(bias))
        if self.columns is not None:
            self.shift = weight_ih.astype(np.float64) @ self.columns.center
            weight_ih = weight_ih * self.columns.step
            bias = bias + self.shift
        self.hidden, self.width = weight_hh.shape[1], weight_ih.shape[1]
        self.units = round_up(self.hidden, lanes)
        self.stored, self.scale = formats.stored, 1.0
        bias = bias.astype(np.float64)[None]
        scales = np.ones((2, 4 * self.hidden), np.float32)
        self.apart, apart = "", None
        if quantised is None:
            self.wants = self.stored
            direct = recurrent = Product(kind_of(self.stored))
            values: tuple[Array, ...] = weight_hh[None], weight_ih[None]
            if formats.dtype == "bf16" and folded:
                self.wants, direct = "f32", Product("f32")
                values = halves(weight_hh), weight_ih[None]
            elif formats.dtype == "bf16":
                values = halves(weight_hh), halves(weight_ih)
            stored = [in_bits(self.stored, values[0]), in_bits(self.wants, values[1])]
        else:
            recurrent = Product(kind_of(self.stored), scaled=True)
            values = quantised.values(weight_ih)
            stored = [quantised.weight_hh]
            scales[0] = quantised.scale_hh * np.float32(UNIT)
            bias = bias - offset(self.stored, quantised.weight_hh, scales[0])
            if quantised.weight_ih is not None and quantised.scale_ih is not None:
                self.wants, direct, self.scale = self.stored, recurrent, quantised.input_scale
                stored += [quantised.weight_ih]
                if len(values) == 3:
                    self.apart = formats.rounded
                    apart = Product(kind_of(self.apart))
                    stored += [in_bits(self.apart, values[2])]
                scales[1] = quantised.scale_ih * np.float32(self.scale)
                bias = bias - offset(self.stored, quantised.weight_ih, scales[1])
            else:
                self.wants = "f32" if folded else formats.rounded
                direct = Product(kind_of(self.wants))
                values = (values[0], weight_ih[None]) if folded else values
                stored += [in_bits(self.wants, values[1])]
        # what the layer multiplies with on average
        self.values: tuple[Array, ...] = tuple(v.mean(axis=0, dtype=np.float64) for v in values)
        products = [recurrent, direct] + ([apart] if apart else [])
        self._pack(stored, products, bias, scales)
        # both products in one sum where their scales allow it
        joint = recurrent == direct and recurrent.scaled and bool((scales[0] == scales[1]).all())
        self._variant = self.target, recurrent, direct, apart, self.stored, joint

    def _pack(
        self, stored: Sequence[Array], products: Sequence[Product], bias: Array, scales: Array
    ) -> None:
        """Sets of weights [sets, rows, in], in panels one behind the other, as the kernel reads
        them, with biases [sets, rows] and scales [2, rows]."""
        lanes = self.target.lanes
        self.groups = tuple(
            group_count(w.shape[2], p.kind) for w, p in zip(stored, products, strict=True)
        )
        sets = max(len(w) for w in stored)
        both = np.stack([
            np.concatenate([
                pack(w[k % len(w)], p.kind, lanes, 4, 4).view(np.uint8)
                for w, p in zip(stored, products, strict=True)
            ], axis=1)
            for k in range(sets)
        ])  # fmt: skip
        self.weights = aligned(both.shape, np.uint8)
        self.weights[...] = both
        rows = [pack_rows(bias[k % len(bias)].astype(np.float32), lanes, 4) for k in range(sets)]
        self.bias = aligned((sets, *rows[0].shape), np.float32)
        self.bias[...] = rows
        # bytes from set to set of both
        self.turns = (self.weights.strides[0], self.bias.strides[0]) if sets > 1 else (0, 0)
        packed = np.stack([pack_rows(s, lanes, 4) for s in scales], axis=1)
        self.scales = aligned(packed.shape, np.float32)
        self.scales[...] = packed

    def kernel(self, copy: Copy) -> Kernel:
        """The compiled steps, which store h once more as ``copy`` says."""
        return lstm_kernel(*self._variant, copy)

    def runner(self, source: Block, steps: int, rows: int) -> LstmRunner:
        """What runs it in one thread, on what ``source`` holds."""
        return LstmRunner(self, source, steps, rows)


def halves(weight: Array) -> Array:
    """Sets of weights that bfloat16 can hold, float32."""
    return shuffled(round_in_turns(weight, round_bf16))


class LstmRunner:
    """History of h: slot 0 is the state before the block, slots 1.. are its steps.

    ``backward``: from the last step to the first, each block from zero state; the state before it
    is then in the slot behind its last step.
    """

    def __init__(
        self, plan: LstmPlan, source: Block, steps: int, rows: int, backward: bool = False
    ) -> None:
        self.plan, self.rows, self.backward = plan, rows, backward
        history = Block.make(steps + 1, rows, plan.hidden, plan.stored, pad=plan.units)
        self.history = history.array
        self.zero = 128 if plan.stored == "u8" else 0
        self.history[...] = self.zero
        own = self.history[:-1] if backward else self.history[1:]
        self.own = Block(own, plan.hidden, plan.stored, UNIT)
        self.cells = aligned((rows, plan.units), np.float32)
        self.rest = aligned((rows, plan.units), np.float32)  # what rounding h to int8 has left
        self.position = 0  # in the chunk, of the next step
        self.output = self.own
        self.copy, self.beside = Copy(), (0, 0, 0)
        self.source = source
        self.kernel = plan.kernel(self.copy)

    def emit(self, format: str, rectified: bool = False) -> Block:
        """h, or max(h, 0), in the format that a layer wants that is no LSTM."""
        if (format, rectified) == (self.plan.stored, False):
            return self.own
        steps = len(self.history) - 1
        block = Block.make(steps, self.rows, self.plan.hidden, format, pad=self.plan.units)
        self.copy, self.beside = Copy(format, rectified), (block.array.ctypes.data, *block.strides)
        block.scale = UNIT if format in ("u8", "i16", "f32int8") else 1.0
        self.kernel = self.plan.kernel(self.copy)
        return block

    def run(self, steps: int) -> None:
        """The first ``steps`` steps."""
        p, history, x = self.plan, self.history, self.source.array
        out, ldf, stf = self.beside
        y = None if self.source.apart is None else self.source.apart.array
        first = 0
        sign = 1
        if self.backward:
            sign, h, last, first = -1, history[steps], x[steps - 1], steps - 1
            out += stf * first
            h[...], self.cells[...], self.rest[...] = self.zero, 0, 0
        else:
            h, last = history[0], x[0]
        self.kernel(
            steps, self.rows, p.units,
            h.ctypes.data, h.strides[0], sign * history.strides[0], p.groups[0],
            last.ctypes.data, x.strides[1], sign * x.strides[0], p.groups[1],
            *((0, 0, 0, 0) if y is None else
              (y[first].ctypes.data, y.strides[1], sign * y.strides[0], p.groups[2])),
            p.weights.ctypes.data, p.weights.strides[1], p.bias.ctypes.data, p.scales.ctypes.data,
            self.cells.ctypes.data, self.cells.strides[0], out, ldf, sign * stf,
            self.rest.ctypes.data, self.position + first, sign, *p.turns,
        )  # fmt: skip
        self.position += steps
        if not self.backward:
            h[...] = history[steps]

    def reset(self, rows: Sequence[int]) -> None:
        """These rows begin again."""
        self.history[0, rows] = self.zero
        self.cells[rows] = 0
        self.rest[rows] = 0


class BiLstmPlan:
    """An LSTM layer forward and one backward over whole windows, their results side by side."""

    def __init__(self, forward: LstmPlan, backward: LstmPlan) -> None:
        self.forward, self.backward = forward, backward
        self.wants, self.scale, self.columns = forward.wants, forward.scale, forward.columns

    def runner(self, source: Block, steps: int, rows: int) -> Runner:
        """What runs it in one thread, on what ``source`` holds."""
        return BiLstmRunner(self, source, steps, rows)


class BiLstmRunner:
    """``run`` starts from zero state at both ends of the block."""

    def __init__(self, plan: BiLstmPlan, source: Block, steps: int, rows: int) -> None:
        self.parts = (
            LstmRunner(plan.forward, source, steps, rows),
            LstmRunner(plan.backward, source, steps, rows, backward=True),
        )
        self.steps, self.rows, self.hidden = steps, rows, plan.forward.hidden
        self.output = Block.make(steps, rows, 2 * self.hidden, plan.forward.stored)
        self.output.scale = self.parts[0].own.scale

    def wide(self) -> Block:
        """h in float32, for layers that are not LSTMs."""
        for part in self.parts:
            part.output = part.emit("f32")
        if self.output.format != "f32":
            self.output = Block.make(self.steps, self.rows, 2 * self.hidden)
        return self.output

    def run(self, steps: int) -> None:
        """The first ``steps`` steps."""
        self.reset(range(self.rows))
        for k, part in enumerate(self.parts):
            part.run(steps)
            out = self.output.array[:, :, k * self.hidden :]
            loops.copy_block(part.output.array, steps, self.rows, self.hidden, out)

    def reset(self, rows: Sequence[int]) -> None:
        """These rows begin again."""
        for part in self.parts:
            part.reset(list(rows))
