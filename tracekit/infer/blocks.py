"""Blocks that go from layer to layer, in the format that the reader wants, and what plans and
runners are.

A runner is bound to the block that it reads when it is made; ``run(steps)`` then fills its own
``output`` for the first ``steps`` steps.  Formats: float32, or the one in which an LSTM keeps its
state (emit.Emitter.store_as).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tracekit.infer import cpu, loops
from tracekit.infer.pack import (
    aligned,
    round_up,
)

__all__ = [
    "UNIT",
    "Block",
    "Columns",
    "Convert",
    "Formats",
    "Plan",
    "Runner",
    "Stateless",
    "kind_of",
    "wanted_by",
]

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
        """A block of zeros: ``width`` values a row in ``format``, padded to multiples of
        ``pad``."""
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
        """The first ``steps`` steps."""
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


@dataclass(frozen=True)
class Columns:
    """How a first layer reads each of the model's inputs x: as (x - center) / step, in its format.

    ``apart``: those that it reads in bfloat16 all the same, where its format is int8.
    """

    center: Array  # float32 [inputs], as is step
    step: Array
    apart: Array = field(default_factory=lambda: np.zeros(0, np.int64))


def wanted_by(plan: Plan) -> tuple[str, float]:
    """The format and the scale in which a plan reads."""
    return plan.wants, getattr(plan, "scale", 1.0)
