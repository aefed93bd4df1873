"""What PerfVec's network is: 51 columns, standardised; an LSTM of two layers and ReLU, whose output
is an instruction's representation; and a table without bias, a row a machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit import features
from tracekit.model import Card, ModelSpec

__all__ = ["FEATURES", "LAYERS", "UNIT", "card", "columns", "model_spec"]

#: The feature set.
FEATURES = "perfvec"
LAYERS = 2
#: What its outputs count in.
UNIT = "0.1ns"
F32 = npt.NDArray[np.float32]


def columns() -> tuple[str, ...]:
    """The names of the 51 columns."""
    return tuple(f.name for f in features.get(FEATURES).features)


def model_spec(mean: F32, std: F32, hidden: int, machines: int) -> ModelSpec:
    """The architecture for so many machines; ``mean`` and ``std`` of the columns standardise
    them."""
    inputs = [
        {"column": c, "transform": "value", "mean": float(m), "std": float(s)}
        for c, m, s in zip(columns(), mean, std, strict=True)
    ]
    table = {"type": "linear", "name": "table", "out": machines, "bias": False}
    return ModelSpec.parse(
        {
            "inputs": inputs,
            "layers": [
                {"type": "lstm", "name": "rnn", "hidden": hidden, "layers": LAYERS},
                {"type": "relu"},
            ],
            "heads": [{"name": "time", "targets": True, "layers": [table]}],
        }
    )


def card(
    name: str, spec: ModelSpec, machines: Sequence[Mapping[str, Any]], training: dict[str, Any]
) -> Card:
    """The card of a trained network; ``machines`` have ``name`` and ``parameters``."""
    return Card(
        name=name,
        spec=spec,
        columns=columns(),
        feature_set=FEATURES,
        level="micro",
        preset="paper",
        unit=UNIT,
        microarchitectures=[dict(m) for m in machines],
        training=training,
    )
