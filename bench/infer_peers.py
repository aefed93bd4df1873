"""The peers of bench_infer.py: the same weights in torch and in onnxruntime, on one thread.

Each gives ``run()`` over a batch of sequences of STEPS rows.  None warms up or cuts a trace.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.model import ModelSpec

Array = NDArray[Any]
Run = Callable[[], Array]
STEPS = 32


def torch_model(spec: ModelSpec, tensors: Mapping[str, Array], dtype: str, batch: int) -> Run:
    """The spec as torch modules; linear, lstm and relu layers, stack and two-way heads."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    kind = {"f32": torch.float32, "bf16": torch.bfloat16}[dtype]

    def linear(name: str) -> nn.Linear:
        weight = tensors[f"{name}.weight"]
        out = nn.Linear(weight.shape[1], weight.shape[0], bias=f"{name}.bias" in tensors)
        load(out, name)
        return out

    def load(module: nn.Module, name: str) -> None:
        state = {k: torch.from_numpy(tensors[f"{name}.{k}"]) for k in module.state_dict()}
        module.load_state_dict(state)

    body: list[nn.Module] = []
    for layer in spec.layers:
        if layer.type == "lstm":
            module = nn.LSTM(layer.width_in, layer.width_out, layer.layers)
            load(module, layer.name)
            body.append(module)
        else:
            body.append(linear(layer.name) if layer.type == "linear" else nn.ReLU())
    (head,) = spec.heads or (None,)
    names = (
        [] if head is None
        else [head.layers[0].name] if head.layers
        else [*head.classifier, head.short, head.long]
    )  # fmt: skip
    heads = [linear(name).to(kind) for name in names]
    body = [module.to(kind) for module in body]
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(STEPS, batch, len(spec.inputs), generator=generator).to(kind)

    def run() -> Array:
        with torch.inference_mode():
            y = x
            for module in body:
                y = module(y)
                y = y[0] if isinstance(y, tuple) else y
            if len(heads) == 1:
                y = heads[0](y)
            elif heads:
                logits = heads[1](torch.relu(heads[0](y)))
                y = torch.where(logits[..., 1:] > logits[..., :1], heads[3](y), heads[2](y))
                y = torch.expm1(y)
            out: Array = y.float().numpy()
            return out

    return run


def onnx_model(spec: ModelSpec, tensors: Mapping[str, Array], dtype: str, batch: int) -> Run:
    """The spec as an ONNX graph; int8 is onnxruntime's dynamic quantisation."""
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    nodes, weights = [], []

    def constant(name: str, value: Array) -> str:
        weights.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(kind: str, inputs: list[str], **attributes: Any) -> str:
        name = f"t{len(nodes)}"
        nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def linear(name: str, x: str) -> str:
        y = node("MatMul", [x, constant(f"{name}.w", tensors[f"{name}.weight"].T)])
        if f"{name}.bias" in tensors:
            y = node("Add", [y, constant(f"{name}.b", tensors[f"{name}.bias"])])
        return y

    axis = constant("axis", np.array([1], np.int64))
    y = "x"
    for layer in spec.layers:
        if layer.type == "lstm":
            for k in range(layer.layers):
                parts = [tensors[f"{layer.name}.{p}_l{k}"] for p in
                         ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]  # fmt: skip
                order = [np.concatenate([np.split(p, 4)[g] for g in (0, 3, 1, 2)]) for p in parts]
                names = [
                    constant(f"{layer.name}{k}w", order[0][None]),
                    constant(f"{layer.name}{k}u", order[1][None]),
                    constant(f"{layer.name}{k}b", np.concatenate(order[2:])[None]),
                ]
                y = node("LSTM", [y, *names], hidden_size=layer.width_out)
                y = node("Squeeze", [y, axis])
        else:
            y = linear(layer.name, y) if layer.type == "linear" else node("Relu", [y])
    (head,) = spec.heads or (None,)
    if head is not None and head.layers:
        y = linear(head.layers[0].name, y)
    elif head is not None:
        logits = linear(head.classifier[1], node("Relu", [linear(head.classifier[0], y)]))
        two = node("Split", [logits], axis=2, num_outputs=2)
        nodes[-1].output.append("second")
        long = node("Greater", ["second", two])
        y = node("Exp", [node("Where", [long, linear(head.long, y), linear(head.short, y)])])
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [STEPS, batch, len(spec.inputs)])],
        [helper.make_tensor_value_info(y, TensorProto.FLOAT, None)],
        weights,
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    made.ir_version = 10
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.onnx"
        onnx.save(made, path)
        if dtype == "int8":
            from onnxruntime.quantization import QuantType, quantize_dynamic

            small = Path(folder) / "q.onnx"
            quantize_dynamic(path, small, weight_type=QuantType.QInt8)
            path = small
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    x = np.random.default_rng(0).standard_normal((STEPS, batch, len(spec.inputs)))
    x = x.astype(np.float32)

    def run() -> Array:
        out: Array = session.run(None, {"x": x})[0]
        return out

    return run
