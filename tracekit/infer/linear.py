"""A linear layer ready to run: packed weights that threads share, and its runner."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracekit.infer.blocks import UNIT, Array, Block, Formats, Runner, Stateless, kind_of
from tracekit.infer.emit import Product
from tracekit.infer.kernels import TARGETS, linear_kernel
from tracekit.infer.pack import (
    bf16_bits,
    group_count,
    pack,
    pack_rows,
    quantize_rows,
    round_bf16,
)

__all__ = ["LinearPlan", "LinearRunner", "in_bits", "offset"]


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
        """What runs it in one thread, on what ``source`` holds."""
        return LinearRunner(self, source, steps, rows)


class LinearRunner(Stateless):
    """A thread's linear layer."""

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
        """The first ``steps`` steps."""
        self.plan.apply(steps * self.rows, self.source, self.output)


def in_bits(format: str, values: Array) -> Array:
    """Values that bfloat16 can hold as its bits, where the format is that."""
    return bf16_bits(values) if format == "bf16" else values


def offset(format: str, weight: Array, scale: Array) -> Array:
    """What the zero point adds to each output: u8 holds 128 for 0."""
    zero = 128.0 if format == "u8" else 0.0
    out: Array = zero * weight.sum(axis=-1, dtype=np.float64) * scale
    return out
