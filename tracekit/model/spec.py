"""The architecture as data: input columns, a stack of causal layers, named heads.

docs/model-format.md says what each entry computes.  This module checks entries and knows widths and
tensor shapes; it computes nothing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tracekit.errors import FormatError, UsageError
from tracekit.model.fields import (
    MAX_ENTRIES,
    MAX_WIDTH,
    a_list,
    an_object,
    fields_of,
    finite_of,
    merged,
    size_of,
    text_of,
)
from tracekit.model.limits import check_sizes

__all__ = ["ACTIVATIONS", "READOUTS", "Head", "InputColumn", "Layer", "ModelSpec", "reads_input"]

ACTIVATIONS = ("relu", "softplus", "sigmoid", "tanh", "silu", "expm1", "exp")
READOUTS = ("median", "mode", "mean")  # of a distribution
STATEFUL = ("lstm", "gru", "mingru", "conv1d")
MAX_DEPTH = 8
MAX_TAPS = 1024
MAX_REACH = 1 << 14  # rows that a convolution looks back: the engine keeps them
# For each kind: the fields it must have, then those it may have.
FIELDS: dict[str, tuple[set[str], set[str]]] = {
    "linear": ({"name", "out"}, {"bias"}),
    "lstm": ({"name", "hidden"}, {"layers", "bias", "bidirectional"}),
    "gru": ({"name", "hidden"}, {"layers", "bias"}),
    "mingru": ({"name", "hidden"}, {"bias"}),
    "conv1d": ({"name", "out", "kernel"}, {"dilation", "bias"}),
    "layernorm": ({"name"}, {"eps"}),
    "residual": ({"layers"}, set()),
    "concat": ({"layers"}, set()),
    **{name: (set(), set()) for name in ACTIVATIONS},
}
TRANSFORMS: dict[str, tuple[set[str], set[str]]] = {
    "value": (set(), {"mean", "std", "clip"}),
    "log1p": (set(), {"mean", "std", "clip"}),
    "embedding": ({"name", "dim"}, {"size", "edges"}),
    "bits": ({"bits"}, set()),
}


@dataclass(frozen=True)
class InputColumn:
    """One entry of ``spec.inputs``: a transform of one feature column."""

    column: str
    transform: str = "value"
    mean: float = 0.0
    std: float = 1.0
    clip: float | None = None
    name: str = ""
    size: int = 0
    dim: int = 0
    edges: tuple[float, ...] = ()
    bits: int = 0

    @property
    def width(self) -> int:
        """How many numbers it gives."""
        return {"embedding": self.dim, "bits": self.bits}.get(self.transform, 1)

    @classmethod
    def parse(cls, entry: Any, where: str) -> InputColumn:
        """One entry of ``spec.inputs``; FormatError names ``where``."""
        entry = an_object(entry, where)
        transform = entry.get("transform", "value")
        if not isinstance(transform, str) or transform not in TRANSFORMS:
            raise FormatError(f"{where}: transform {transform!r}: one of {', '.join(TRANSFORMS)}")
        fields_of(entry, TRANSFORMS[transform], {"column", "transform"}, where)
        column = text_of(entry, "column", where)
        if transform == "bits":
            return cls(column, transform, bits=size_of(entry, "bits", where, 24))
        if transform == "embedding":
            edges = entry.get("edges", [])
            if not isinstance(edges, list) or len(edges) > MAX_ENTRIES:
                raise FormatError(f"{where}: edges is not a list of at most {MAX_ENTRIES} numbers")
            values = tuple(finite_of(e, f"{where}.edges") for e in edges)
            if any(a >= b for a, b in itertools.pairwise(values)):
                raise FormatError(f"{where}: edges do not increase")
            if bool(values) == ("size" in entry):
                raise FormatError(f"{where}: an embedding has either size or edges")
            size = len(values) + 1 if values else size_of(entry, "size", where, 1 << 20)
            name, dim = text_of(entry, "name", where), size_of(entry, "dim", where)
            return cls(column, transform, name=name, size=size, dim=dim, edges=values)
        mean = finite_of(entry.get("mean", 0.0), f"{where}.mean")
        std = finite_of(entry.get("std", 1.0), f"{where}.std")
        clip = entry.get("clip")
        if std <= 0:
            raise FormatError(f"{where}: std is {std}, not positive")
        if clip is not None and (clip := finite_of(clip, f"{where}.clip")) <= 0:
            raise FormatError(f"{where}: clip is {clip}, not positive")
        return cls(column, transform, mean, std, clip)

    def to_dict(self) -> dict[str, Any]:
        """The JSON entry that parses to this."""
        out: dict[str, Any] = {"column": self.column, "transform": self.transform}
        if self.transform == "bits":
            return {**out, "bits": self.bits}
        if self.transform == "embedding":
            index = {"edges": list(self.edges)} if self.edges else {"size": self.size}
            return {**out, "name": self.name, "dim": self.dim, **index}
        clip = {} if self.clip is None else {"clip": self.clip}
        return {**out, "mean": self.mean, "std": self.std, **clip}

    def tensors(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of what it needs."""
        return {f"{self.name}.weight": (self.size, self.dim)} if self.dim else {}


def reads_input(part: str) -> bool:
    """Whether a part of `Layer.parts` is of the first layer, which reads what stands before the
    stack."""
    return part.split("_")[0] == "l0"


@dataclass(frozen=True)
class Layer:
    """One entry of a stack; ``width_in`` and ``width_out`` are derived from its place."""

    type: str
    width_in: int
    width_out: int
    name: str = ""
    layers: int = 1
    kernel: int = 1
    dilation: int = 1
    bias: bool = True
    eps: float = 1e-5
    inner: tuple[Layer, ...] = ()
    directions: int = 1  # 2: an LSTM that reads the rows in both orders, the results side by side

    @classmethod
    def parse(cls, entry: Any, width: int, where: str, depth: int = 0) -> Layer:
        """One entry of ``spec.layers``, which reads ``width`` values; FormatError names
        ``where``."""
        entry = an_object(entry, where)
        kind = entry.get("type")
        if not isinstance(kind, str) or kind not in FIELDS:
            raise FormatError(f"{where}: type {kind!r}: one of {', '.join(FIELDS)}")
        fields_of(entry, FIELDS[kind], {"type"}, where)
        name = text_of(entry, "name", where) if "name" in FIELDS[kind][0] else ""
        bias = entry.get("bias", True)
        if not isinstance(bias, bool):
            raise FormatError(f"{where}: bias is not true or false")
        if kind in ACTIVATIONS:
            return cls(kind, width, width)
        if kind in ("residual", "concat"):
            inner = parse_stack(entry["layers"], width, f"{where}.layers", depth + 1)
            own = inner[-1].width_out if inner else width
            if kind == "concat":
                if not inner or width + own > MAX_WIDTH:
                    raise FormatError(f"{where}: no layers, or wider than {MAX_WIDTH}")
                return cls(kind, width, width + own, inner=inner)
            if own != width:
                raise FormatError(f"{where}: width {own} cannot be added to {width}")
            return cls(kind, width, width, inner=inner)
        if kind == "layernorm":
            eps = finite_of(entry.get("eps", 1e-5), f"{where}.eps")
            if eps <= 0:
                raise FormatError(f"{where}: eps is {eps}, not positive")
            return cls(kind, width, width, name, eps=eps)
        out = size_of(entry, "hidden" if "hidden" in entry else "out", where)
        layers = size_of(entry, "layers", where, 64) if "layers" in entry else 1
        kernel = size_of(entry, "kernel", where, MAX_TAPS) if "kernel" in entry else 1
        dilation = size_of(entry, "dilation", where, MAX_TAPS) if "dilation" in entry else 1
        if (kernel - 1) * dilation > MAX_REACH:
            raise FormatError(f"{where}: reaches back over more than {MAX_REACH} rows")
        both = entry.get("bidirectional", False)
        if not isinstance(both, bool):
            raise FormatError(f"{where}: bidirectional is not true or false")
        directions = 2 if both else 1
        if out * directions > MAX_WIDTH:
            raise FormatError(f"{where}: wider than {MAX_WIDTH}")
        return cls(
            kind,
            width,
            out * directions,
            name,
            layers,
            kernel,
            dilation,
            bias,
            directions=directions,
        )

    def to_dict(self) -> dict[str, Any]:
        """The JSON entry that parses to this."""
        out: dict[str, Any] = {"type": self.type}
        if self.type in ACTIVATIONS:
            return out
        if self.type in ("residual", "concat"):
            return {**out, "layers": [layer.to_dict() for layer in self.inner]}
        out["name"] = self.name
        if self.type == "layernorm":
            return {**out, "eps": self.eps}
        recurrent = self.type in ("lstm", "gru", "mingru")
        out["hidden" if recurrent else "out"] = self.hidden
        if self.type in ("lstm", "gru"):
            out["layers"] = self.layers
        if self.directions == 2:
            out["bidirectional"] = True
        if self.type == "conv1d":
            out.update(kernel=self.kernel, dilation=self.dilation)
        return {**out, "bias": self.bias}

    @property
    def hidden(self) -> int:
        """Width of one direction's state."""
        return self.width_out // self.directions

    def parts(self) -> Iterator[tuple[str, int]]:
        """Of an LSTM or GRU: torch's suffix of each part's tensors, and the width of its input."""
        for k in range(self.layers):
            for direction in range(self.directions):
                width = self.width_in if k == 0 else self.width_out
                yield f"l{k}" + "_reverse" * direction, width

    @property
    def stateful(self) -> bool:
        """Whether a row's result depends on earlier rows."""
        return self.type in STATEFUL or any(layer.stateful for layer in self.inner)

    def tensors(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of what it needs, in torch's layout."""
        n, i, o = self.name, self.width_in, self.width_out
        if self.type in ("lstm", "gru"):
            rows = (4 if self.type == "lstm" else 3) * self.hidden
            out: dict[str, tuple[int, ...]] = {}
            for part, width in self.parts():
                out[f"{n}.weight_ih_{part}"] = (rows, width)
                out[f"{n}.weight_hh_{part}"] = (rows, self.hidden)
                if self.bias:
                    out[f"{n}.bias_ih_{part}"] = out[f"{n}.bias_hh_{part}"] = (rows,)
            return out
        if self.type == "layernorm":
            return {f"{n}.weight": (i,), f"{n}.bias": (i,)}
        if self.type in ("residual", "concat"):
            return merged([layer.tensors() for layer in self.inner])
        if self.type in ACTIVATIONS:
            return {}
        rows = 2 * o if self.type == "mingru" else o
        shape = (rows, i, self.kernel) if self.type == "conv1d" else (rows, i)
        return {f"{n}.weight": shape, **({f"{n}.bias": (rows,)} if self.bias else {})}


@dataclass(frozen=True)
class Head:
    """A readout of the representation: a stateless stack, NeuroScalar's two-way head, or one of a
    distribution of cycles."""

    name: str
    width_in: int
    width_out: int
    type: str = "stack"
    targets: bool = False
    layers: tuple[Layer, ...] = ()
    hidden: int = 0
    threshold: float = 0.0
    cap: float = math.inf
    classifier: tuple[str, str] = ("", "")
    short: str = ""
    long: str = ""
    exact: int = 0
    readout: str = ""
    scale: tuple[float, ...] = ()

    @classmethod
    def parse(cls, entry: Any, width: int, where: str) -> Head:
        """One entry of ``spec.heads``, which reads ``width`` values; FormatError names
        ``where``."""
        entry = an_object(entry, where)
        name = text_of(entry, "name", where)
        targets = entry.get("targets", False)
        if not isinstance(targets, bool):
            raise FormatError(f"{where}: targets is not true or false")
        kind = entry.get("type", "stack")
        common = {"name", "type", "targets"}
        if kind in ("stack", "distribution"):
            more = {"exact", "readout", "scale", "cap"} if kind == "distribution" else set()
            fields_of(entry, ({"layers", *more}, set()), common, where)
            layers = parse_stack(entry["layers"], width, f"{where}.layers")
            if any(layer.stateful for layer in layers):
                raise FormatError(f"{where}: a head has no layers with state")
            out = layers[-1].width_out if layers else width
            head = cls(name, width, out, kind, targets, layers)
            return _distribution(head, entry, where) if more else head
        if kind != "two_way":
            raise FormatError(f"{where}: type {kind!r}: stack, two_way or distribution")
        needed = {"hidden", "threshold", "cap", "classifier", "short", "long"}
        fields_of(entry, (needed, {"out"}), common, where)
        names = entry["classifier"]
        if not isinstance(names, list) or [type(n) for n in names] != [str, str]:
            raise FormatError(f"{where}: classifier is not two tensor prefixes")
        cap = finite_of(entry["cap"], f"{where}.cap")
        if cap <= 0:
            raise FormatError(f"{where}: cap is {cap}, not positive")
        return cls(
            name,
            width,
            size_of(entry, "out", where) if "out" in entry else 1,
            kind,
            targets,
            hidden=size_of(entry, "hidden", where),
            threshold=finite_of(entry["threshold"], f"{where}.threshold"),
            cap=cap,
            classifier=(names[0], names[1]),
            short=text_of(entry, "short", where),
            long=text_of(entry, "long", where),
        )

    def to_dict(self) -> dict[str, Any]:
        """The JSON entry that parses to this."""
        out: dict[str, Any] = {"name": self.name, "type": self.type, "targets": self.targets}
        if self.type != "two_way":
            out["layers"] = [layer.to_dict() for layer in self.layers]
            if self.type == "distribution":
                out |= {"exact": self.exact, "readout": self.readout, "cap": self.cap}
                out["scale"] = list(self.scale)
            return out
        return {
            **out,
            "out": self.width_out,
            "hidden": self.hidden,
            "threshold": self.threshold,
            "cap": self.cap,
            "classifier": list(self.classifier),
            "short": self.short,
            "long": self.long,
        }

    @property
    def compositional(self) -> bool:
        """Whether a total is one product with the sum of representations."""
        return (
            self.type == "stack"
            and len(self.layers) == 1
            and self.layers[0].type == "linear"
            and not self.layers[0].bias
        )

    def tensors(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of what it needs."""
        if self.type != "two_way":
            return merged([layer.tensors() for layer in self.layers])
        fc1, fc2 = self.classifier
        shapes = [(fc1, self.hidden, self.width_in), (fc2, 2, self.hidden)]
        shapes += [(n, self.width_out, self.width_in) for n in (self.short, self.long)]
        return merged([{f"{n}.weight": (o, i), f"{n}.bias": (o,)} for n, o, i in shapes])


def _distribution(head: Head, entry: Mapping[str, Any], where: str) -> Head:
    exact = size_of(entry, "exact", where, 256)
    scale = [finite_of(v, f"{where}.scale") for v in a_list(entry["scale"], f"{where}.scale")]
    if not scale or len(scale) * (exact + 2) != head.width_out or min(scale) <= 0:
        raise FormatError(
            f"{where}: {head.width_out} outputs of its layers are not {exact} + 2 for each of "
            f"{len(scale)} positive scales"
        )
    cap = finite_of(entry["cap"], f"{where}.cap")
    if cap <= 0:
        raise FormatError(f"{where}: cap is {cap}, not positive")
    readout = entry["readout"]
    if not isinstance(readout, str) or readout not in READOUTS:
        raise FormatError(f"{where}: readout {readout!r}: one of {', '.join(READOUTS)}")
    return replace(
        head, width_out=len(scale), exact=exact, readout=readout, scale=tuple(scale), cap=cap
    )


@dataclass(frozen=True)
class ModelSpec:
    """Inputs, layers and heads; ``parse`` checks, ``to_dict`` gives the JSON back."""

    inputs: tuple[InputColumn, ...]
    layers: tuple[Layer, ...]
    heads: tuple[Head, ...] = field(default=())

    @classmethod
    def parse(cls, spec: Any) -> ModelSpec:
        """From the card's ``spec``; raises FormatError naming the entry that is wrong."""
        spec = an_object(spec, "spec")
        fields_of(spec, ({"inputs", "layers", "heads"}, set()), set(), "spec")
        inputs = tuple(
            InputColumn.parse(e, f"spec.inputs[{i}]")
            for i, e in enumerate(a_list(spec["inputs"], "spec.inputs"))
        )
        if not inputs:
            raise FormatError("spec.inputs is empty")
        width = sum(entry.width for entry in inputs)
        if width > MAX_WIDTH:
            raise FormatError(f"spec.inputs: width {width}; at most {MAX_WIDTH}")
        layers = parse_stack(spec["layers"], width, "spec.layers")
        width = layers[-1].width_out if layers else width
        heads = tuple(
            Head.parse(e, width, f"spec.heads[{i}]")
            for i, e in enumerate(a_list(spec["heads"], "spec.heads"))
        )
        if len({head.name for head in heads}) != len(heads):
            raise FormatError("spec.heads: two heads of one name")
        out = cls(inputs, layers, heads)
        # A tensor claimed with two shapes is an error, too.
        check_sizes(out.flat_layers(), out.parameters())
        return out

    def to_dict(self) -> dict[str, Any]:
        """The card's ``spec``."""
        return {
            "inputs": [entry.to_dict() for entry in self.inputs],
            "layers": [layer.to_dict() for layer in self.layers],
            "heads": [head.to_dict() for head in self.heads],
        }

    @property
    def width_in(self) -> int:
        """Width of the first layer's input."""
        return sum(entry.width for entry in self.inputs)

    @property
    def width(self) -> int:
        """Width of the representation."""
        return self.layers[-1].width_out if self.layers else self.width_in

    def head(self, name: str | None = None) -> Head:
        """The head of that name, or the first; raises UsageError."""
        for head in self.heads:
            if name is None or head.name == name:
                return head
        if not self.heads:
            raise UsageError("the model has no head", hint="its representation is its only output")
        have = ", ".join(head.name for head in self.heads)
        raise UsageError(f"no head {name!r}; the model has: {have}")

    @property
    def bidirectional(self) -> bool:
        """Whether a row's result depends on later rows, too."""
        return any(layer.directions == 2 for layer in self.flat_layers())

    def tensors(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every tensor of the model."""
        entries: Sequence[InputColumn | Layer | Head] = (*self.inputs, *self.layers, *self.heads)
        return merged([entry.tensors() for entry in entries])

    def parameters(self) -> int:
        """Number of weights, biases included."""
        return sum(math.prod(shape) for shape in self.tensors().values())

    def flat_layers(self) -> Iterator[Layer]:
        """The layers, those of residual blocks in their place."""

        def walk(layers: tuple[Layer, ...]) -> Iterator[Layer]:
            for layer in layers:
                yield from walk(layer.inner) if layer.inner else (layer,)

        return walk(self.layers)


def parse_stack(entries: Any, width: int, where: str, depth: int = 0) -> tuple[Layer, ...]:
    """A list of layers, each of which gets the width of the one before."""
    if depth > MAX_DEPTH:
        raise FormatError(f"{where}: nested deeper than {MAX_DEPTH}")
    out: list[Layer] = []
    for i, entry in enumerate(a_list(entries, where)):
        out.append(Layer.parse(entry, width, f"{where}[{i}]", depth))
        width = out[-1].width_out
    return tuple(out)
