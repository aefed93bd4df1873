"""The architectures that ``tracekit train neuroscalar`` knows, as model specs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit import features
from tracekit.model import ModelSpec
from tracekit.neuroscalar import history, instructions
from tracekit.schema import OP_CLASSES

__all__ = ["CAP", "EXACT", "THRESHOLD", "default_spec", "paper_spec", "start_at_cores"]

#: Cycles above which nothing is told apart (the trained values are below), and from which on the
#: paper's classifier calls an instruction long.
CAP, THRESHOLD = 4096.0, 10.0
#: Numbers of cycles that the preset ``default`` has a class of its own for: 0 to EXACT - 1.
EXACT = 16
Entry = dict[str, Any]


def paper_spec(
    mean: npt.NDArray[np.float64] | None = None,
    std: npt.NDArray[np.float64] | None = None,
    hidden: int = 256,
    layers: int = 2,
    bidirectional: bool = False,
) -> ModelSpec:
    """NeuroScalar's model (section 3, table 1): 1,073,348 parameters with its sizes, in one
    direction as that number is; ``bidirectional`` as the text has it.

    ``mean`` and ``std`` of the 13 numbers standardise them: the paper does not say how its own are
    scaled.
    """
    names = features.get("neuroscalar").columns
    middle = np.zeros(len(names)) if mean is None else mean
    spread = np.ones(len(names)) if std is None else std
    inputs = [
        {"column": n, "transform": "value", "mean": float(m), "std": float(s)}
        for n, m, s in zip(names, middle, spread, strict=True)
    ]
    return ModelSpec.parse(
        {
            "inputs": inputs,
            "layers": [
                {"type": "linear", "name": "input_proj", "out": hidden},
                {
                    "type": "lstm",
                    "name": "rnn",
                    "hidden": hidden,
                    "layers": layers,
                    "bidirectional": bidirectional,
                },
            ],
            "heads": [
                {
                    "name": "cycles",
                    "type": "two_way",
                    "targets": True,
                    "hidden": 64,
                    "threshold": THRESHOLD,
                    "cap": CAP,
                    "classifier": ["cls_fc1", "cls_fc2"],
                    "short": "output_layer_short",
                    "long": "output_layer_long",
                }
            ],
        }
    )


def _log(column: str) -> Entry:
    return {"column": column, "transform": "log1p", "mean": 0.0, "std": 1.0}


def _steps(column: str, *at: int) -> list[Entry]:
    """For each number: -0.5 below it and 0.5 from it on, for whole numbers."""
    return [
        {"column": column, "transform": "value", "mean": k - 0.5, "std": 1.0, "clip": 0.5}
        for k in at
    ]


def _value(column: str, mean: float, std: float, clip: float = 4.0) -> Entry:
    return {"column": column, "transform": "value", "mean": mean, "std": std, "clip": clip}


def _default_inputs(machines: Sequence[str], with_history: bool) -> list[Entry]:
    inputs: list[Entry] = []
    for m in machines:
        inputs += [_log(f"{m}.cycles"), *_steps(f"{m}.cycles", 1, 2, 3, 4, 5, 6, 8, 10, 16)]
        inputs += [_value(f"{m}.commit_slack", 0, 4), _value(f"{m}.commit_slack", 0, 32)]
        inputs += _steps(f"{m}.commit_slack", -2, 0, 1)
        inputs += [_log(f"{m}.dispatch_gap"), *_steps(f"{m}.dispatch_gap", 1, 2)]
        inputs += [_log(f"{m}.issue_delay"), _log(f"{m}.latency")]
    inputs += _steps("micro_ops", 2, 3)
    flags = instructions.SHARED[2:11]
    inputs += [{"column": c, "transform": "value", "mean": 0.0, "std": 1.0} for c in flags]
    inputs += [_value("mispredicting", 0, 2), *_steps("mispredicting", 1)]
    inputs += [
        {"column": c, "transform": "log1p", "mean": 3.0, "std": 4.0}
        for c in ("fetch_distance", "data_distance")
    ]
    inputs += [_value("p_global", 0.5, 0.5)]
    if with_history:
        for c in history.columns(machines):
            std = 4.0 if c.endswith(".rows") else 1.0
            inputs.append({"column": c, "transform": "value", "mean": 0.0, "std": std})
    inputs.append(
        {"column": "op", "transform": "embedding", "size": len(OP_CLASSES), "dim": 8, "name": "op"}
    )
    return inputs


def default_spec(
    machines: Sequence[str],
    width: int = 64,
    *,
    with_history: bool = True,
    readout: str = "median",
    scale: Sequence[float] | None = None,
) -> ModelSpec:
    """One trunk of causal convolutions over what the machines' simulated cores do, and for each
    machine a distribution over numbers of cycles.  The readout sees the inputs, too: what its core
    says of a machine is where its distribution starts (``start_at_cores``)."""
    inputs = _default_inputs(machines, with_history)

    def block(name: str, dilation: int) -> Entry:
        return {
            "type": "residual",
            "layers": [
                {"type": "layernorm", "name": f"{name}.norm"},
                {
                    "type": "conv1d",
                    "name": f"{name}.conv",
                    "out": width,
                    "kernel": 4,
                    "dilation": dilation,
                },
                {"type": "silu"},
                {"type": "linear", "name": f"{name}.out", "out": width},
            ],
        }

    count = len(machines)

    def head(name: str, how: str) -> Entry:
        return {
            "name": name,
            "type": "distribution",
            "targets": True,
            "exact": EXACT,
            "readout": how,
            "cap": CAP,
            "scale": list(scale or [1.0] * count),
            "layers": [{"type": "linear", "name": "readout", "out": count * (EXACT + 2)}],
        }

    return ModelSpec.parse(
        {
            "inputs": inputs,
            "layers": [
                {
                    "type": "concat",
                    "layers": [
                        {"type": "linear", "name": "first", "out": width},
                        block("near", 1),
                        block("far", 4),
                    ],
                }
            ],
            "heads": [head("cycles", readout), head("mean", "mean")],
        }
    )


def start_at_cores(
    spec: ModelSpec, machines: Sequence[str], weights: dict[str, npt.NDArray[np.float32]]
) -> None:
    """Set the readout of a ``default_spec`` to what the cores say: the logit of k cycles is high
    where the core has k, and what is long is as long as it says.  What the trunk adds is small at
    first."""
    columns = [(e.column, e.transform, e.mean) for e in spec.inputs]
    out = weights["readout.weight"]
    out *= 0.1
    bias, k = weights["readout.bias"], EXACT + 1
    bias[:] = 0
    for j, m in enumerate(machines):
        steps = {
            round(mean + 0.5): i
            for i, (c, kind, mean) in enumerate(columns)
            if c == f"{m}.cycles" and kind == "value"
        }
        edges = sorted(steps)
        for cycles in range(k):
            # a step's input is -1/2 below its edge and 1/2 from there on
            for edge in edges:
                sign = 1.0 if cycles >= edge else -1.0
                near = edge in (max((e for e in edges if e <= cycles), default=0), cycles + 1)
                out[j * k + cycles, steps[edge]] += 2.0 * sign if near else 0.5 * sign
        log = columns.index((f"{m}.cycles", "log1p", 0.0))
        out[len(machines) * k + j] = 0
        out[len(machines) * k + j, log] = 1
