"""From raw features to the first layer's input: spec.inputs as tables for the gathering loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.infer import loops
from tracekit.infer.stages import Block
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
    ) -> None:
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
            len(plain) == len(entries) == len(columns)
            and bool((self.columns == order).all())
            and not self.logs.any()
        )

    def runner(self, steps: int, rows: int) -> InputRunner:
        """An output block for one thread."""
        return InputRunner(self, steps, rows)


def _odd(entry: InputColumn) -> bool:
    return entry.transform in ("embedding", "bits")


class InputRunner:
    """Gathers the input of the rows for some steps."""

    def __init__(self, plan: InputPlan, steps: int, rows: int) -> None:
        self.plan = plan
        self.output = Block.make(steps, rows, plan.width)

    def run(self, features: Array, first: Array, steps: int) -> None:
        """output[t, r] from features[first[r] + t]; rows before or after the trace give zeros."""
        p, out = self.plan, self.output.array
        if p.plain:
            loops.gather_plain(features, first, steps, p.mean, p.inverse, p.clip, out)
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
