"""Layers ready to run: packed weights that threads share, and runners that hold a thread's state.

A runner is bound to the block that it reads when it is made; ``run(steps)`` then fills its own
``output`` for the first ``steps`` steps.  Blocks go from layer to layer in the format that the
reader wants: float32, or the format in which an LSTM keeps its state (emit.Emitter.store_as).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import UsageError
from tracekit.infer import cpu, loops
from tracekit.infer.alternate import round_in_turns, shuffled
from tracekit.infer.emit import Copy, Product
from tracekit.infer.functions import apply_activation
from tracekit.infer.kernels import TARGETS, Kernel, linear_kernel, lstm_kernel
from tracekit.infer.pack import (
    aligned,
    bf16_bits,
    group_count,
    pack,
    pack_rows,
    quantize_rows,
    round_bf16,
    round_up,
)
from tracekit.model.spec import ACTIVATIONS, READOUTS, Head, Layer, reads_input

__all__ = ["Block", "Columns", "Formats", "HeadPlan", "Plan", "Runner", "plan_head", "plan_layers"]

Array = NDArray[Any]
Tensors = Mapping[str, Array]
DTYPE = {
    "f32": np.float32,
    "f32bf16": np.float32,
    "f32int8": np.float32,
    "bf16": np.uint16,
    "i16": np.int16,
    "u8": np.uint8,
}
UNIT = 1.0 / 127.0  # the scale of a recurrent activation, which is in ±1


@dataclass
class Block:
    """[steps, rows, padded width]; what is past ``width`` is finite and multiplied by zeros."""

    array: Array
    width: int
    format: str = "f32"
    scale: float = 1.0
    apart: Block | None = None  # what of it is kept in another format

    @classmethod
    def make(cls, steps: int, rows: int, width: int, format: str = "f32", pad: int = 1) -> Block:
        dtype = np.dtype(DTYPE[format])
        padded = round_up(round_up(width, pad), 64 // dtype.itemsize)
        return cls(aligned((steps, rows, padded), dtype), width, format)

    @property
    def strides(self) -> tuple[int, int]:
        """Bytes from row to row and from step to step."""
        return self.array.strides[1], self.array.strides[0]


class Runner(Protocol):
    """One layer's state for a set of rows."""

    output: Block

    def run(self, steps: int) -> None:
        """Fill ``output`` from the block that the runner was made for."""

    def reset(self, rows: Sequence[int]) -> None:
        """Set the state of these rows to zero."""


class Plan(Protocol):
    """A layer with its weights; shared, never changed."""

    wants: str
    """Format of the input: f32, or an LSTM's own."""

    def runner(self, source: Block, steps: int, rows: int) -> Runner:
        """State and output for ``rows`` rows and at most ``steps`` steps at a time."""


class Stateless:
    """Base of runners without state."""

    output: Block

    def reset(self, rows: Sequence[int]) -> None:
        """Nothing to do."""


@dataclass(frozen=True)
class Formats:
    """What a number format means on an instruction set."""

    isa: str
    dtype: str

    @property
    def stored(self) -> str:
        """How an LSTM keeps h."""
        if self.dtype == "f32":
            return "f32"
        if self.dtype == "bf16":
            return "bf16" if self.half else "f32bf16"
        if self.isa == "avx512" and cpu.has("avx512vnni"):
            return "u8"
        return "f32int8" if self.isa == "portable" else "i16"

    @property
    def half(self) -> bool:
        """Whether there are bfloat16 dot products."""
        return self.isa == "avx512" and cpu.has("avx512bf16")

    @property
    def rounded(self) -> str:
        """The format of an input in bfloat16."""
        return "bf16" if self.half else "f32bf16"


def kind_of(format: str) -> str:
    """The product that reads a format."""
    return "f32" if format.startswith("f32") else format


class Convert(Stateless):
    """float32 to the format that an LSTM reads."""

    def __init__(self, source: Block, format: str, scale: float) -> None:
        steps, rows = source.array.shape[:2]
        self.source = source
        self.output = Block.make(steps, rows, source.width, format)
        self.output.scale = scale
        self.inverse = np.float32(1.0 / scale)

    def run(self, steps: int) -> None:
        source, out = self.source.array, self.output.array
        rows, width, format = source.shape[1], self.output.width, self.output.format
        if format == "bf16":
            loops.to_bf16(source.view(np.uint32), steps, rows, width, out)
        elif format == "f32bf16":
            loops.to_rounded(source.view(np.uint32), steps, rows, width, out.view(np.uint32))
        elif format == "u8":
            loops.to_u8(source, steps, rows, width, self.inverse, out)
        else:
            loops.to_signed(source, steps, rows, width, self.inverse, out)


class LinearPlan:
    """Linear layer: its vectors of outputs in panels of up to four, as equal as they can be.

    In float32, but ``half`` multiplies in bfloat16 where the engine's format is narrower, and
    ``whole`` in int8 where it is that, what an LSTM gives, which is in ±1.
    ``biases``: name and size of the bias tensors, one after another; none where there is no bias.
    """

    def __init__(
        self,
        formats: Formats,
        weight: Array,
        bias: Array | None,
        half: bool = False,
        biases: Sequence[tuple[str, int]] = (),
        whole: bool = False,
    ) -> None:
        self.biases = tuple(biases)
        self.target = TARGETS[formats.isa]
        lanes, out = self.target.lanes, weight.shape[0]
        values = np.zeros(out, np.float32) if bias is None else bias
        scales, self.scale = np.ones(out, np.float32), 1.0
        # self.values: the weights as they are multiplied, for those who correct biases
        if whole and formats.dtype == "int8":
            self.wants, self.scale = formats.stored, UNIT
            weight, scales = quantize_rows(weight)
            self.values = (weight * scales[:, None],)
            scales = scales * np.float32(UNIT)
            values = (values - offset(self.wants, weight, scales)).astype(np.float32)
        elif half and formats.dtype != "f32":
            self.wants, self.values = formats.rounded, (round_bf16(weight),)
            weight = in_bits(self.wants, self.values[0])
        else:
            self.wants, self.values = "f32", (weight,)
        self.product = Product(kind_of(self.wants), scaled=self.scale == UNIT)
        kind = self.product.kind
        self.out, self.groups = out, group_count(weight.shape[1], kind)
        vectors = -(-out // lanes)
        count = -(-vectors // 4)
        size, larger = divmod(vectors, count)
        wide = min(out, larger * (size + 1) * lanes)
        self.parts = []
        for begin, end, vectors in ((0, wide, size + 1), (wide, out, size)):
            if begin < end:
                panels = pack(weight[begin:end], kind, lanes, vectors)
                start, scale = (
                    pack_rows(v[begin:end], lanes * vectors, 1) for v in (values, scales)
                )
                self.parts.append((begin, vectors, panels, start, scale))

    def apply(self, count: int, source: Block, out: Block) -> None:
        """For the first ``count`` rows of both (a multiple of the tile's), in out's format."""
        x, y, size = source.array.ctypes.data, out.array.ctypes.data, out.array.itemsize
        inverse = np.full(self.target.lanes, 1.0 / out.scale, np.float32)
        for at, vectors, panels, bias, scale in self.parts:
            linear_kernel(self.target, self.product, vectors, out.format)(
                count, len(panels),
                x, source.strides[0], self.groups,
                panels.ctypes.data, panels.strides[0], bias.ctypes.data, scale.ctypes.data,
                y + at * size, out.strides[0], inverse.ctypes.data,
            )  # fmt: skip

    def runner(self, source: Block, steps: int, rows: int) -> Runner:
        return LinearRunner(self, source, steps, rows)


class LinearRunner(Stateless):
    def __init__(self, plan: LinearPlan, source: Block, steps: int, rows: int) -> None:
        self.plan, self.rows, self.source = plan, rows, source
        self.output = Block.make(steps, rows, plan.out, pad=plan.target.lanes)

    def emit(self, format: str, scale: float) -> Block:
        """Store in the format that the next layer reads, so that nothing has to be converted."""
        steps, rows = self.output.array.shape[:2]
        self.output = Block.make(steps, rows, self.plan.out, format, pad=self.plan.target.lanes)
        self.output.scale = scale
        return self.output

    def run(self, steps: int) -> None:
        self.plan.apply(steps * self.rows, self.source, self.output)


@dataclass(frozen=True)
class Columns:
    """How a first layer reads each of the model's inputs x: as (x - center) / step, in its format.

    ``apart``: those that it reads in bfloat16 all the same, where its format is int8.
    """

    center: Array  # float32 [inputs], as is step
    step: Array
    apart: Array = field(default_factory=lambda: np.zeros(0, np.int64))


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
        # both products in one sum where their scales allow it
        joint = recurrent == direct and recurrent.scaled and bool((scales[0] == scales[1]).all())
        self._variant = self.target, recurrent, direct, apart, self.stored, joint

    def kernel(self, copy: Copy) -> Kernel:
        """The compiled steps, which store h once more as ``copy`` says."""
        return lstm_kernel(*self._variant, copy)

    def runner(self, source: Block, steps: int, rows: int) -> LstmRunner:
        return LstmRunner(self, source, steps, rows)


def halves(weight: Array) -> Array:
    """Sets of weights that bfloat16 can hold, float32."""
    return shuffled(round_in_turns(weight, round_bf16))


def in_bits(format: str, values: Array) -> Array:
    """Values that bfloat16 can hold as its bits, where the format is that."""
    return bf16_bits(values) if format == "bf16" else values


def offset(format: str, weight: Array, scale: Array) -> Array:
    """What the zero point adds to each output: u8 holds 128 for 0."""
    zero = 128.0 if format == "u8" else 0.0
    out: Array = zero * weight.sum(axis=-1, dtype=np.float64) * scale
    return out


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
        self.history[0, rows] = self.zero
        self.cells[rows] = 0
        self.rest[rows] = 0


class BiLstmPlan:
    """An LSTM layer forward and one backward over whole windows, their results side by side."""

    def __init__(self, forward: LstmPlan, backward: LstmPlan) -> None:
        self.forward, self.backward = forward, backward
        self.wants, self.scale, self.columns = forward.wants, forward.scale, forward.columns

    def runner(self, source: Block, steps: int, rows: int) -> Runner:
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
        self.reset(range(self.rows))
        for k, part in enumerate(self.parts):
            part.run(steps)
            out = self.output.array[:, :, k * self.hidden :]
            loops.copy_block(part.output.array, steps, self.rows, self.hidden, out)

    def reset(self, rows: Sequence[int]) -> None:
        for part in self.parts:
            part.reset(list(rows))


class GruPlan:
    """One GRU layer in float32: the input's product for a block, the state's step by step."""

    wants = "f32"

    def __init__(self, direct: LinearPlan, recurrent: LinearPlan) -> None:
        self.direct, self.recurrent, self.hidden = direct, recurrent, recurrent.out // 3

    def runner(self, source: Block, steps: int, rows: int) -> Runner:
        return GruRunner(self, source, steps, rows)


class GruRunner:
    def __init__(self, plan: GruPlan, source: Block, steps: int, rows: int) -> None:
        self.plan, self.rows = plan, rows
        self.direct = plan.direct.runner(source, steps, rows)
        self.state = Block.make(1, rows, plan.hidden)
        self.products = Block.make(1, rows, 3 * plan.hidden, pad=plan.recurrent.target.lanes)
        self.output = Block.make(steps, rows, plan.hidden)

    def run(self, steps: int) -> None:
        self.direct.run(steps)
        h, u, x = self.state, self.products, self.direct.output.array
        for t in range(steps):
            self.plan.recurrent.apply(self.rows, h, u)
            width, out = self.plan.hidden, self.output.array[t]
            loops.gru_step(x[t], u.array[0], self.rows, width, h.array[0], out)

    def reset(self, rows: Sequence[int]) -> None:
        self.state.array[0, rows] = 0


class MinGruPlan:
    """minGRU: one product for a block, then a scan."""

    wants = "f32"

    def __init__(self, linear: LinearPlan) -> None:
        self.linear = linear

    def runner(self, source: Block, steps: int, rows: int) -> Runner:
        return MinGruRunner(self, source, steps, rows)


class MinGruRunner:
    def __init__(self, plan: MinGruPlan, source: Block, steps: int, rows: int) -> None:
        self.rows, self.hidden = rows, plan.linear.out // 2
        self.linear = plan.linear.runner(source, steps, rows)
        self.state = np.zeros((rows, self.hidden), np.float32)
        self.output = Block.make(steps, rows, self.hidden)

    def run(self, steps: int) -> None:
        self.linear.run(steps)
        source, out = self.linear.output.array, self.output.array
        loops.mingru_scan(source, steps, self.rows, self.hidden, self.state, out)

    def reset(self, rows: Sequence[int]) -> None:
        self.state[rows] = 0


class ConvPlan:
    """Causal convolution: a linear layer over the taps side by side, in the format it wants."""

    def __init__(self, linear: LinearPlan, kernel: int, dilation: int) -> None:
        self.linear, self.kernel, self.dilation = linear, kernel, dilation
        self.wants = linear.wants

    def runner(self, source: Block, steps: int, rows: int) -> Runner:
        return ConvRunner(self, source, steps, rows)


class ConvRunner:
    def __init__(self, plan: ConvPlan, source: Block, steps: int, rows: int) -> None:
        self.plan, self.rows, self.source = plan, rows, source
        self.before = (plan.kernel - 1) * plan.dilation
        dtype = source.array.dtype
        self.history = np.zeros((self.before + steps, rows, source.width), dtype)
        self.taps = Block.make(steps, rows, plan.kernel * source.width, source.format)
        self.linear = plan.linear.runner(self.taps, steps, rows)
        self.output = self.linear.output

    def run(self, steps: int) -> None:
        history, width, before = self.history, self.source.width, self.before
        loops.copy_block(self.source.array, steps, self.rows, width, history[before:])
        kernel, dilation = self.plan.kernel, self.plan.dilation
        loops.gather_taps(history, steps, self.rows, width, kernel, dilation, self.taps.array)
        self.linear.run(steps)
        history[:before] = history[steps : steps + before].copy()

    def reset(self, rows: Sequence[int]) -> None:
        self.history[: self.before, rows] = 0


class NormPlan:
    """Layer normalisation."""

    wants = "f32"

    def __init__(self, weight: Array, bias: Array, eps: float) -> None:
        self.weight, self.bias, self.eps = weight, bias, eps

    def runner(self, source: Block, steps: int, rows: int) -> Runner:
        return NormRunner(self, source, steps, rows)


class NormRunner(Stateless):
    def __init__(self, plan: NormPlan, source: Block, steps: int, rows: int) -> None:
        self.plan, self.rows, self.source = plan, rows, source
        self.output = Block.make(steps, rows, source.width)

    def run(self, steps: int) -> None:
        p, s = self.plan, self.source
        out = self.output.array
        loops.layer_norm(s.array, steps, self.rows, s.width, p.weight, p.bias, p.eps, out)


class ActivationPlan:
    """An elementwise function."""

    wants = "f32"

    def __init__(self, name: str) -> None:
        self.kind = ACTIVATIONS.index(name)

    def runner(self, source: Block, steps: int, rows: int) -> Runner:
        return ActivationRunner(self.kind, source, rows)


def is_relu(plan: Plan) -> bool:
    """Whether a plan is max(x, 0) and nothing else."""
    return isinstance(plan, ActivationPlan) and ACTIVATIONS[plan.kind] == "relu"


class ActivationRunner(Stateless):
    """Has an output of its own: what it reads may be an LSTM's state."""

    def __init__(self, kind: int, source: Block, rows: int) -> None:
        self.kind, self.source, self.rows = kind, source, rows
        self.output = Block.make(len(source.array), rows, source.width)

    def run(self, steps: int) -> None:
        source, out, width = self.source.array, self.output.array, self.output.width
        apply_activation(self.kind, source, steps, self.rows, width, out)


class ResidualPlan:
    """x + layers(x)."""

    wants = "f32"

    def __init__(self, plans: Sequence[Plan]) -> None:
        self.plans = plans

    def runner(self, source: Block, steps: int, rows: int) -> Runner:
        return ResidualRunner(self.plans, source, steps, rows)


class ResidualRunner:
    def __init__(self, plans: Sequence[Plan], source: Block, steps: int, rows: int) -> None:
        self.source, self.rows = source, rows
        self.chain = Chain(plans, source, steps, rows)
        self.output = Block.make(steps, rows, source.width)

    def run(self, steps: int) -> None:
        self.chain.run(steps)
        out, width = self.output.array, self.output.width
        loops.copy_block(self.source.array, steps, self.rows, width, out)
        loops.add_block(self.chain.output.array, steps, self.rows, width, out)

    def reset(self, rows: Sequence[int]) -> None:
        self.chain.reset(rows)


class ConcatPlan(ResidualPlan):
    """x beside layers(x)."""

    def runner(self, source: Block, steps: int, rows: int) -> Runner:
        return ConcatRunner(self.plans, source, steps, rows)


class ConcatRunner(ResidualRunner):
    def __init__(self, plans: Sequence[Plan], source: Block, steps: int, rows: int) -> None:
        super().__init__(plans, source, steps, rows)
        self.output = Block.make(steps, rows, source.width + self.chain.output.width)

    def run(self, steps: int) -> None:
        self.chain.run(steps)
        first, second = self.source, self.chain.output
        out = self.output.array
        loops.copy_block(first.array, steps, self.rows, first.width, out)
        loops.copy_block(second.array, steps, self.rows, second.width, out[:, :, first.width :])


class Chain:
    """Plans one after another for one thread; ``output`` is in the format and the scale ``last``,
    float32 unless given, as those plans want it that read it."""

    def __init__(
        self,
        plans: Sequence[Plan],
        source: Block,
        steps: int,
        rows: int,
        last: tuple[str, float] = ("f32", 1.0),
    ) -> None:
        self.runners: list[Runner] = []
        block: Block = source
        before: Runner | None = None
        relu = False  # one behind an LSTM is left to its kernel
        for plan in plans:
            if isinstance(before, LstmRunner) and is_relu(plan):
                relu = True
                continue
            block = self._adapt(block, before, relu, *wanted_by(plan))
            before, relu = plan.runner(block, steps, rows), False
            self.runners.append(before)
            block = before.output
        self.output = self._adapt(block, before, relu, *last)

    def _adapt(
        self, block: Block, last: Runner | None, relu: bool, wants: str, scale: float
    ) -> Block:
        """The block in the format wanted, converted from float32 where it is not there already."""
        quantised = wants in ("u8", "i16", "f32int8")
        if (
            not relu
            and block.format == wants
            and (not quantised or abs(block.scale - scale) < 1e-12)
        ):
            return block
        if isinstance(last, LstmRunner):
            direct = not quantised or scale == UNIT
            block = last.emit(wants if direct else "f32", relu)
            if direct:
                return block
        elif isinstance(last, BiLstmRunner):
            block = last.wide()
        if wants == "f32":
            return block
        if isinstance(last, LinearRunner):
            return last.emit(wants, scale)
        convert = Convert(block, wants, scale)
        self.runners.append(convert)
        return convert.output

    def run(self, steps: int) -> None:
        for runner in self.runners:
            runner.run(steps)

    def reset(self, rows: Sequence[int]) -> None:
        for runner in self.runners:
            runner.reset(rows)

    def seek(self, position: int) -> None:
        """Say where in the chunk, from its start, the next step is."""
        for runner in self.runners:
            if isinstance(runner, LstmRunner):
                runner.position = position
            elif isinstance(runner, BiLstmRunner):
                for part in runner.parts:
                    part.position = position
            elif isinstance(runner, ResidualRunner):
                runner.chain.seek(position)


class TwoWayPlan:
    """NeuroScalar's head: all its linear layers as one, in float32 (rounded weights would move each
    total by some tenths of a percent), then the choice."""

    def __init__(self, formats: Formats, head: Head, tensors: Tensors) -> None:
        fc1, fc2 = head.classifier
        names = (fc1, head.short, head.long)
        weight = np.concatenate([tensors[f"{n}.weight"] for n in names])
        parts = [(f"{n}.bias", tensors[f"{n}.bias"]) for n in names]
        bias = np.concatenate([values for _, values in parts])
        sizes = [(name, len(values)) for name, values in parts]
        self.linear = LinearPlan(formats, weight, bias, biases=sizes)
        self.wants = self.linear.wants
        logits, self.count = tensors[f"{fc2}.weight"], head.width_out
        self.weight = np.ascontiguousarray(logits[1] - logits[0])
        self.bias = np.float32(tensors[f"{fc2}.bias"][1] - tensors[f"{fc2}.bias"][0])
        self.hidden, self.cap = head.hidden, np.float32(head.cap)

    def runner(self, source: Block, steps: int, rows: int) -> Runner:
        return TwoWayRunner(self, source, steps, rows)


class TwoWayRunner(Stateless):
    def __init__(self, plan: TwoWayPlan, source: Block, steps: int, rows: int) -> None:
        self.plan, self.rows = plan, rows
        self.linear = plan.linear.runner(source, steps, rows)
        self.output = Block.make(steps, rows, plan.count)

    def run(self, steps: int) -> None:
        self.linear.run(steps)
        p, block, out = self.plan, self.linear.output.array, self.output.array
        loops.choose_head(block, steps, self.rows, p.hidden, p.weight, p.bias, p.cap, p.count, out)


class DistributionPlan:
    """Cycles from a distribution over numbers of cycles."""

    wants = "f32"

    def __init__(self, head: Head) -> None:
        self.exact, self.kind = head.exact, READOUTS.index(head.readout)
        self.scale, self.cap = np.array(head.scale, np.float32), np.float32(head.cap)

    def runner(self, source: Block, steps: int, rows: int) -> Runner:
        return DistributionRunner(self, source, steps, rows)


class DistributionRunner(Stateless):
    def __init__(self, plan: DistributionPlan, source: Block, steps: int, rows: int) -> None:
        self.plan, self.rows, self.source = plan, rows, source
        self.output = Block.make(steps, rows, len(plan.scale))

    def run(self, steps: int) -> None:
        p, out = self.plan, self.output.array
        loops.read_distribution(
            self.source.array, steps, self.rows, p.exact, p.scale, p.cap, p.kind, out
        )


HeadPlan = Sequence[Plan]


def wanted_by(plan: Plan) -> tuple[str, float]:
    """The format and the scale in which a plan reads."""
    return plan.wants, getattr(plan, "scale", 1.0)


def plan_head(
    head: Head,
    tensors: Tensors,
    formats: Formats,
    layers: Sequence[Layer],
    added: Array | None,
) -> HeadPlan:
    """The plans of one head on such layers; ``added``: a correction of what they give, which a
    compositional head takes as its bias."""
    kinds = [layer.type for layer in layers if layer.type != "relu"]
    if head.compositional:
        weight = tensors[f"{head.layers[0].name}.weight"]
        bias = None if added is None else (weight @ added).astype(np.float32)
        whole = kinds[-1:] == ["lstm"]  # in ±1; totals do not pass through it
        return [LinearPlan(formats, weight, bias, half=whole, whole=whole)]
    if head.type == "two_way":
        return [TwoWayPlan(formats, head, tensors)]
    if head.type == "distribution":  # of logarithms: what is long would move by a percent
        return [*plan_layers(head.layers, tensors, formats, {}), DistributionPlan(head)]
    return plan_layers(head.layers, tensors, formats, {}, half=True)


def plan_layers(
    layers: Sequence[Layer],
    tensors: Tensors,
    formats: Formats,
    quantised: Mapping[str, Quantised],
    half: bool = False,
    raw: Columns | None = None,
) -> list[Plan]:
    """The plans of a stack; a layer of several layers gives several.

    ``half``: linear layers and convolutions in bfloat16 too.  ``raw``: how an LSTM that comes first
    reads the model's inputs in bfloat16.
    """
    out: list[Plan] = []
    at = 0
    while at < len(layers):
        if foldable(layers[at : at + 2]) and not _wide(layers[at + 1], formats, quantised):
            out += _plan(layers[at + 1], tensors, formats, quantised, half, layers[at])
            at += 2
        else:
            out += _plan(layers[at], tensors, formats, quantised, half, raw=None if at else raw)
            at += 1
    return out


def foldable(layers: Sequence[Layer]) -> bool:
    """Whether a linear layer does no more than widen what an LSTM reads: a product of products is
    one product, and a smaller one."""
    return [layer.type for layer in layers] == ["linear", "lstm"] and layers[0].width_in <= layers[
        0
    ].width_out // 4


def _wide(lstm: Layer, formats: Formats, quantised: Mapping[str, Quantised]) -> bool:
    """Whether a folder's int8 has the weights of the wide inputs."""
    first = quantised.get(f"{lstm.name}.l0")
    return formats.dtype == "int8" and first is not None and first.weight_ih is not None


def fold(linear: Layer, tensors: Tensors, weight_ih: Array, bias: Array) -> tuple[Array, Array]:
    """The weights of x and the bias of an LSTM layer that reads what the linear layer reads."""
    wide = weight_ih.astype(np.float64)
    whole = wide @ tensors[f"{linear.name}.weight"].astype(np.float64)
    if linear.bias:
        bias = bias + wide @ tensors[f"{linear.name}.bias"].astype(np.float64)
    return whole.astype(np.float32), bias


def _plan(
    layer: Layer,
    tensors: Tensors,
    formats: Formats,
    quantised: Mapping[str, Quantised],
    half: bool,
    before: Layer | None = None,
    raw: Columns | None = None,
) -> list[Plan]:
    """``before``: the linear layer that is folded into this LSTM; ``raw``: as in plan_layers."""

    def linear(weight: str, bias: str) -> LinearPlan:
        values = tensors[bias] if layer.bias else None
        known = [] if values is None else [(bias, len(values))]
        narrow = half and layer.type == "linear"
        return LinearPlan(formats, tensors[weight], values, narrow, known)

    n = layer.name
    if layer.type == "linear":
        return [linear(f"{n}.weight", f"{n}.bias")]
    if layer.type == "lstm":
        out: list[LstmPlan] = []
        for part, _ in layer.parts():
            ih, hh = tensors[f"{n}.weight_ih_{part}"], tensors[f"{n}.weight_hh_{part}"]
            bias = np.zeros(len(hh), np.float32)
            known = []
            if layer.bias:
                known = [(f"{n}.bias_ih_{part}", len(hh))]
                bias = tensors[f"{n}.bias_ih_{part}"] + tensors[f"{n}.bias_hh_{part}"]
            narrow = quantised.get(f"{n}.{part}") if formats.dtype == "int8" else None
            if formats.dtype == "int8" and narrow is None:
                raise UsageError(
                    f"LSTM layer {n}.{part} has no int8 weights", hint="quantize first"
                )
            folded = before is not None and reads_input(part)
            if before is not None and folded:
                ih, bias = fold(before, tensors, ih, bias)
            own = raw if reads_input(part) else None
            out.append(LstmPlan(formats, ih, hh, bias, narrow, known, folded, own))
        if layer.directions == 2:
            return [BiLstmPlan(*pair) for pair in zip(out[::2], out[1::2], strict=True)]
        return list(out)
    if layer.type == "gru":
        names = [(f"{n}.weight_{p}_l{k}", f"{n}.bias_{p}_l{k}")
                 for k in range(layer.layers) for p in ("ih", "hh")]  # fmt: skip
        plans = [linear(*name) for name in names]
        return [GruPlan(*pair) for pair in zip(plans[::2], plans[1::2], strict=True)]
    if layer.type == "mingru":
        return [MinGruPlan(linear(f"{n}.weight", f"{n}.bias"))]
    if layer.type == "conv1d":
        weight = tensors[f"{n}.weight"].transpose(0, 2, 1).reshape(layer.width_out, -1)
        known = [(f"{n}.bias", layer.width_out)] if layer.bias else []
        values = tensors[f"{n}.bias"] if layer.bias else None
        plan = LinearPlan(formats, weight, values, half, known)
        return [ConvPlan(plan, layer.kernel, layer.dilation)]
    if layer.type == "layernorm":
        return [NormPlan(tensors[f"{n}.weight"], tensors[f"{n}.bias"], layer.eps)]
    if layer.type == "residual":
        return [ResidualPlan(plan_layers(layer.inner, tensors, formats, quantised, half))]
    if layer.type == "concat":
        return [ConcatPlan(plan_layers(layer.inner, tensors, formats, quantised, half))]
    return [ActivationPlan(layer.type)]
