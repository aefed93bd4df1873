"""From raw features to the first layer's input: spec.inputs as tables for the gathering loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.infer import loops
from tracekit.infer.blocks import Block, Columns, Convert
from tracekit.infer.kernels import TARGETS, gather_kernel
from tracekit.infer.pack import aligned
from tracekit.model.spec import InputColumn

__all__ = ["InputPlan", "InputRunner"]

Array = NDArray[Any]
NO_CLIP = np.float32(np.inf)


class InputPlan:
    """The transforms of all columns, the standardised ones together."""

    def __init__(
        self,
        entries: Sequence[InputColumn],
        columns: Sequence[str],
        tensors: Mapping[str, Array],
        isa: str,
    ) -> None:
        self.target = TARGETS[isa]
        place = np.cumsum([0, *(entry.width for entry in entries)])
        self.width = int(place[-1])
        index = {name: i for i, name in enumerate(columns)}
        plain = [(e, p) for e, p in zip(entries, place, strict=False) if e.width and not _odd(e)]
        self.columns = np.array([index[e.column] for e, _ in plain], np.int64)
        self.places = np.array([p for _, p in plain], np.int64)
        self.logs = np.array([e.transform == "log1p" for e, _ in plain], np.bool_)
        self.mean = np.array([e.mean for e, _ in plain], np.float32)
        self.inverse = np.array([1.0 / e.std for e, _ in plain], np.float32)
        self.clip = np.array([NO_CLIP if e.clip is None else e.clip for e, _ in plain], np.float32)
        self.odd = [
            (e, int(p), index[e.column], tensors.get(f"{e.name}.weight"))
            for e, p in zip(entries, place, strict=False)
            if _odd(e)
        ]
        # all columns as they come: no indices needed
        order = np.arange(len(columns))
        self.plain = (
            len(columns) > 0
            and len(plain) == len(entries) == len(columns)
            and bool((self.columns == order).all())
            and not self.logs.any()
        )

    def raw(self) -> Columns | None:
        """The columns as they are in the file, where their standardisation can be left to the
        first layer's weights: bfloat16 holds flags, small numbers and zeros exactly."""
        if not self.plain or np.isfinite(self.clip).any():
            return None
        return Columns(-self.mean * self.inverse, self.inverse)

    def runner(self, steps: int, rows: int) -> InputRunner:
        """An output block for one thread."""
        return InputRunner(self, steps, rows)


def _odd(entry: InputColumn) -> bool:
    return entry.transform in ("embedding", "bits")


class InputRunner:
    """Gathers the input of the rows for some steps."""

    def __init__(self, plan: InputPlan, steps: int, rows: int) -> None:
        self.plan, self.size = plan, (steps, rows)
        self.wide: Convert | None = None
        self._read_as("f32", plan.mean, plan.inverse, plan.clip)

    def emit(self, format: str, columns: Columns | None, rounded: str) -> Block:
        """Give them in the format that the first layer reads, so that nothing has to be converted:
        of a plain plan, and of ``columns`` x as (x - center) / step; those apart as ``rounded``."""
        p = self.plan
        center, step = (0.0, 1.0) if columns is None else (columns.center, columns.step)
        clip = p.clip / step
        if format in ("u8", "i16", "f32int8"):
            clip = np.minimum(clip, 127.0)
        mean = p.mean.astype(np.float64) + center / p.inverse.astype(np.float64)
        self._read_as(format, mean, p.inverse / step, clip)
        if columns is not None and len(columns.apart):
            at = columns.apart
            values = np.asarray(mean)[at], (p.inverse / step)[at], (p.clip / step)[at]
            self.apart = at, [v.astype(np.float32) for v in values]
            self.wide = Convert(Block.make(*self.size, len(at)), rounded, 1.0)
            self.output.apart = self.wide.output
        return self.output

    def _read_as(self, format: str, mean: Array, inverse: Array, clip: Array) -> Block:
        self.output = Block.make(*self.size, self.plan.width, format)
        self.parameters = aligned((3, len(mean)), np.float32)
        self.parameters[...] = mean, inverse, clip
        if self.plan.plain:
            target = self.plan.target
            lanes = min(target.lanes, 1 << (len(mean).bit_length() - 1))
            self.kernel = gather_kernel(replace(target, lanes=lanes), format)
        return self.output

    def run(self, features: Array, first: Array, steps: int) -> None:
        """output[t, r] from features[first[r] + t]; rows before or after the trace give zeros."""
        p, out = self.plan, self.output.array
        if p.plain:
            ld, st = self.output.strides
            self.kernel(
                features.ctypes.data, *features.shape, first, steps,
                *(v.ctypes.data for v in self.parameters), out.ctypes.data, ld, st, out,
            )  # fmt: skip
            if self.wide is not None:
                at, (mean, inverse, clip) = self.apart
                none, places = np.zeros(len(at), np.bool_), np.arange(len(at))
                block = self.wide.source.array
                loops.gather_values(
                    features, first, steps, at, none, mean, inverse, clip, places, block
                )
                self.wide.run(steps)
        elif len(p.columns):
            loops.gather_values(
                features, first, steps, p.columns, p.logs, p.mean, p.inverse, p.clip, p.places, out
            )
        for entry, place, column, table in p.odd:
            if table is None:
                loops.gather_bits(features, first, steps, column, entry.bits, place, out)
            else:
                edges = np.array(entry.edges, np.float32)
                loops.gather_embedding(features, first, steps, column, edges, table, place, out)
