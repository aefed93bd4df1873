"""A model's architecture (tracekit.model.spec) as a torch module: what training trains, and what
runs on a GPU.  Names of parameters are those of the model folder's tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.backends.cudnn import rnn as cudnn_rnn
from torch.nn import functional

from tracekit.errors import UsageError
from tracekit.model.spec import Head, InputColumn, Layer, ModelSpec

__all__ = ["Network", "cycles_of", "two_way_parts"]

State = dict[str, Any]


class Network(nn.Module):
    """``forward(x, state)``: raw features [batch, time, columns] to the representation [batch,
    time, R] and the state behind the last row.

    ``state`` maps a layer's name to what it carries; None is the true start.  A bidirectional layer
    carries nothing: it sees the rows of one call.
    """

    def __init__(self, spec: ModelSpec, columns: Sequence[str]) -> None:
        super().__init__()
        self.spec = spec
        self.weights = nn.ParameterDict()
        for name, shape in spec.tensors().items():
            self.weights[_key(name)] = nn.Parameter(torch.empty(shape))
        index = {name: i for i, name in enumerate(columns)}
        plain = [e for e in spec.inputs if e.transform in ("value", "log1p")]
        self._plain_first = list(spec.inputs[: len(plain)]) == plain
        if not self._plain_first:
            raise UsageError("a network's values come before its embeddings and bits")
        self._odd = [(e, index[e.column]) for e in spec.inputs[len(plain) :]]
        # not buffers: they stay in float32 whatever the weights are in
        self._tables: dict[str, Tensor] = {}
        for name, values, kind in (
            ("at", [index[e.column] for e in plain], torch.long),
            ("logs", [e.transform == "log1p" for e in plain], torch.bool),
            ("mean", [e.mean for e in plain], torch.float32),
            ("inverse", [1.0 / e.std for e in plain], torch.float32),
            ("clip", [np.inf if e.clip is None else e.clip for e in plain], torch.float32),
        ):
            self._tables[name] = torch.tensor(values, dtype=kind)
        self.reset()

    def reset(self) -> None:
        """torch's own initial ranges."""
        with torch.no_grad():
            for entry in self.spec.inputs:
                for name in entry.tensors():
                    self.tensor(name).normal_(0, 0.3)
            for layer in [*self.spec.flat_layers(), *self._head_layers()]:
                fan = layer.width_in * layer.kernel
                if layer.type in ("lstm", "gru"):
                    fan = layer.hidden
                for name in layer.tensors():
                    if layer.type == "layernorm":
                        self.tensor(name).fill_(float(name.endswith("weight")))
                    else:
                        self.tensor(name).uniform_(-(fan**-0.5), fan**-0.5)
            for head in self.spec.heads:
                if head.type == "two_way":
                    for name in head.tensors():
                        hidden = name.startswith(f"{head.classifier[1]}.")
                        bound = (head.hidden if hidden else head.width_in) ** -0.5
                        self.tensor(name).uniform_(-bound, bound)

    def _head_layers(self) -> list[Layer]:
        return [layer for head in self.spec.heads for layer in head.layers]

    def tensor(self, name: str) -> Tensor:
        """A parameter by its name in the model folder."""
        out: Tensor = self.weights[_key(name)]
        return out

    def tensors(self) -> dict[str, npt.NDArray[np.float32]]:
        """Every parameter by its name in the model folder, in float32."""
        return {
            n: self.tensor(n).detach().float().cpu().numpy().copy() for n in self.spec.tensors()
        }

    def load(self, tensors: Mapping[str, npt.NDArray[Any]]) -> None:
        """Set every parameter."""
        with torch.no_grad():
            for name in self.spec.tensors():
                self.tensor(name).copy_(torch.from_numpy(np.ascontiguousarray(tensors[name])))

    def compact(self) -> None:
        """Each recurrent layer's weights side by side, as cuDNN wants them: else every call copies
        them.  To be called where the network has come to its device in its type."""
        cudnn: Any = torch.backends.cudnn
        rnn: Any = cudnn_rnn
        for layer in self.spec.flat_layers():
            if layer.type not in ("lstm", "gru"):
                continue
            weights = self._recurrent_weights(layer)
            if not (weights[0].is_cuda and cudnn.is_available() and cudnn.enabled):
                continue
            mode = rnn.get_cudnn_mode(layer.type.upper())
            with torch.no_grad(), torch.cuda.device(weights[0].device):
                torch._cudnn_rnn_flatten_weight(
                    *(weights, 4 if layer.bias else 2, layer.width_in, mode, layer.hidden),
                    *(0, layer.layers, True, layer.directions == 2),
                )

    def inputs(self, x: Tensor) -> Tensor:
        """spec.inputs of raw features."""
        t = self._tables = {k: v.to(x.device) for k, v in self._tables.items()}
        x = torch.nan_to_num(x, 0.0, 0.0, 0.0)
        v = x.index_select(-1, t["at"])
        v = torch.where(t["logs"], torch.log1p(v.clamp_min(0)), v)
        v = (v - t["mean"]) * t["inverse"]
        v = torch.minimum(torch.maximum(v, -t["clip"]), t["clip"])
        parts = [v.to(self._dtype())]
        for entry, at in self._odd:
            parts.append(self._odd_input(entry, x[..., at]))
        return torch.cat(parts, -1) if len(parts) > 1 else parts[0]

    def _dtype(self) -> torch.dtype:
        out: torch.dtype = next(iter(self.weights.values())).dtype
        return out

    def _odd_input(self, entry: InputColumn, x: Tensor) -> Tensor:
        if entry.transform == "bits":
            whole = x.floor().long()
            return torch.stack([(whole >> b & 1).to(self._dtype()) for b in range(entry.bits)], -1)
        if entry.edges:
            edges = torch.tensor(entry.edges, dtype=torch.float32, device=x.device)
            row = torch.bucketize(x.contiguous(), edges, right=True)
        else:
            row = x.floor().clamp(0, entry.size - 1).long()
        return functional.embedding(row, self.tensor(f"{entry.name}.weight"))

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Representations of the rows ``x``, and the state behind the last one."""
        after: State = {}
        v = self._stack(self.spec.layers, self.inputs(x), state or {}, after)
        return v, after

    def _stack(self, layers: Sequence[Layer], v: Tensor, state: State, after: State) -> Tensor:
        for layer in layers:
            v = self._layer(layer, v, state, after)
        return v

    def _layer(self, layer: Layer, v: Tensor, state: State, after: State) -> Tensor:
        n, kind = layer.name, layer.type
        if kind == "linear":
            return functional.linear(v, self.tensor(f"{n}.weight"), self._bias(layer))
        if kind == "residual":
            return v + self._stack(layer.inner, v, state, after)
        if kind == "concat":
            inner = self._stack(layer.inner, v, state, after)
            return torch.cat([v.to(inner.dtype), inner], -1)
        if kind == "layernorm":
            weight, bias = self.tensor(f"{n}.weight"), self.tensor(f"{n}.bias")
            return functional.layer_norm(v, v.shape[-1:], weight, bias, layer.eps)
        if kind == "conv1d":
            return self._conv(layer, v, state, after)
        if kind in ("lstm", "gru"):
            return self._recurrent(layer, v, state, after)
        if kind == "mingru":
            return self._mingru(layer, v, state, after)
        return _activation(kind, v)

    def _bias(self, layer: Layer) -> Tensor | None:
        return self.tensor(f"{layer.name}.bias") if layer.bias else None

    def _conv(self, layer: Layer, v: Tensor, state: State, after: State) -> Tensor:
        """As one product with the taps side by side: faster than conv1d on a CPU."""
        reach, time = (layer.kernel - 1) * layer.dilation, v.shape[1]
        before = state.get(layer.name)
        if before is None:
            before = v.new_zeros(v.shape[0], reach, v.shape[2])
        whole = torch.cat([before, v], 1)
        after[layer.name] = whole[:, whole.shape[1] - reach :]
        taps = [
            whole[:, k * layer.dilation : k * layer.dilation + time] for k in range(layer.kernel)
        ]
        weight = self.tensor(f"{layer.name}.weight").permute(0, 2, 1).flatten(1)
        return functional.linear(torch.cat(taps, -1), weight, self._bias(layer))

    def _recurrent(self, layer: Layer, v: Tensor, state: State, after: State) -> Tensor:
        lstm, both, batch = layer.type == "lstm", layer.directions == 2, v.shape[0]
        zero = v.new_zeros(layer.layers * layer.directions, batch, layer.hidden)
        before: Any = (zero, zero) if lstm else zero
        if not both:  # which has no state to carry on: what comes later counts, too
            before = state.get(layer.name, before)
        if v.shape[1] == 0:  # torch refuses it
            after[layer.name] = before
            return v.new_zeros(batch, 0, layer.width_out)
        weights = self._recurrent_weights(layer)
        # v, state, weights, bias, layers, dropout, training, bidirectional, batch first
        options = (layer.bias, layer.layers, 0.0, self.training, both, True)
        if lstm:
            v, h, c = torch._VF.lstm(v, before, weights, *options)
            after[layer.name] = (h, c)
        else:
            v, after[layer.name] = torch._VF.gru(v, before, weights, *options)
        return v

    def _recurrent_weights(self, layer: Layer) -> list[Tensor]:
        """In torch's own order: layer by layer, a direction behind the other."""
        return [
            self.tensor(f"{layer.name}.{part}_{suffix}")
            for suffix, _ in layer.parts()
            for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            if layer.bias or part.startswith("weight")
        ]

    def _mingru(self, layer: Layer, v: Tensor, state: State, after: State) -> Tensor:
        both = functional.linear(v, self.tensor(f"{layer.name}.weight"), self._bias(layer))
        z, c = torch.sigmoid(both[..., : layer.width_out]), both[..., layer.width_out :]
        h = state.get(layer.name, v.new_zeros(v.shape[0], layer.width_out))
        out = []
        for keep, new in zip((1 - z).unbind(1), (z * c).unbind(1), strict=True):
            h = keep * h + new
            out.append(h)
        after[layer.name] = h
        return torch.stack(out, 1)

    def raw(self, head: Head, r: Tensor) -> Tensor:
        """What a head's layers give for representations, before its readout."""
        if head.type == "two_way":
            return torch.cat(list(two_way_parts(self, head, r)), -1)
        return self._stack(head.layers, r, {}, {})

    def head(self, name: str | None, r: Tensor) -> Tensor:
        """A head's predictions for representations [..., R]: [..., outputs]."""
        head = self.spec.head(name)
        raw = self.raw(head, r)
        return raw if head.type == "stack" else cycles_of(head, raw.float())


def two_way_parts(net: Network, head: Head, r: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The classifier's two logits, and the logarithms that the short and the long head give."""

    def linear(name: str, v: Tensor) -> Tensor:
        return functional.linear(v, net.tensor(f"{name}.weight"), net.tensor(f"{name}.bias"))

    first, second = head.classifier
    logits = linear(second, torch.relu(linear(first, r)))
    return logits, linear(head.short, r), linear(head.long, r)


def cycles_of(head: Head, raw: Tensor) -> Tensor:
    """Readout of a two_way or distribution head (docs/model-format.md) from ``Network.raw``."""
    if head.type == "two_way":
        long = raw[..., 1:2] > raw[..., :1]
        n = head.width_out
        chosen = torch.where(long, raw[..., 2 + n :], raw[..., 2 : 2 + n])
        return torch.expm1(chosen).clamp(0, head.cap)
    n, k = head.width_out, head.exact
    logits = raw[..., : n * (k + 1)].reshape(*raw.shape[:-1], n, k + 1)
    long = torch.expm1(raw[..., n * (k + 1) :]).clamp(k, head.cap)
    if head.readout == "mode":
        best = logits.argmax(-1)
    else:
        p = torch.softmax(logits, -1)
        if head.readout == "mean":
            values = torch.arange(k, device=raw.device, dtype=p.dtype)
            scale = torch.tensor(head.scale, device=raw.device, dtype=p.dtype)
            return p[..., :k] @ values + p[..., k] * long * scale
        best = (p.cumsum(-1) < 0.5).sum(-1)
    return torch.where(best >= k, long, best.to(long.dtype))


def _activation(kind: str, v: Tensor) -> Tensor:
    if kind in ("expm1", "exp"):
        return torch.expm1(v) if kind == "expm1" else torch.exp(v)
    out: Tensor = (
        getattr(functional, kind)(v) if kind in ("softplus", "silu") else getattr(torch, kind)(v)
    )
    return out


def _key(name: str) -> str:
    return name.replace(".", "/")  # torch's own separator
