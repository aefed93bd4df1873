"""The plans of a model's layers and heads, from its card and tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tracekit.errors import UsageError
from tracekit.infer.blocks import Array, Columns, Formats, Plan, Tensors
from tracekit.infer.chain import ActivationPlan, ConcatPlan, NormPlan, ResidualPlan
from tracekit.infer.heads import DistributionPlan, TwoWayPlan
from tracekit.infer.linear import LinearPlan
from tracekit.infer.lstm import BiLstmPlan, LstmPlan, Quantised
from tracekit.infer.recurrences import ConvPlan, GruPlan, MinGruPlan
from tracekit.model.spec import Head, Layer, reads_input

__all__ = ["HeadPlan", "foldable", "plan_head", "plan_layers"]

HeadPlan = Sequence[Plan]


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
