"""What the narrow formats need, calibrated on real rows and kept in the folder: int8 weights and
activations for LSTM layers, and corrections of biases for int8 and bfloat16 (correct.py).

Weights: symmetric, one scale for each output of each of the two matrices, which are summed apart
so that neither spoils the other's range; a layer fed by an LSTM has one scale for both.  Rounded
so that errors of a product cancel on the calibration rows (feedback.py), and several times over so
that they cancel along the steps (alternate.py).
Activations: h is in ±1 and needs no calibration; an input that comes from another kind of layer is
clipped where the mean squared error over the calibration rows is least; raw features have a step
and a center each (columns.py), unless totals of the calibration's programs then move further than
with raw features in bfloat16; they are in float32 where a linear layer that reads them is folded
into the LSTM.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import FormatError, UsageError
from tracekit.infer.alternate import SETS, round_in_turns, shuffled
from tracekit.infer.blocks import UNIT, Columns
from tracekit.infer.columns import choose_columns
from tracekit.infer.correct import corrections, lstm_moments
from tracekit.infer.engine import REPRESENTATION, Engine
from tracekit.infer.feedback import round_weights
from tracekit.infer.lstm import Quantised
from tracekit.infer.pack import quantize_rows
from tracekit.infer.plans import foldable
from tracekit.model import Card, load_card, load_tensors, save_card
from tracekit.model.card import load_file
from tracekit.model.spec import Layer, ModelSpec, reads_input

__all__ = [
    "CORRECTIONS",
    "INT8",
    "load_corrections",
    "load_quantised",
    "quantize",
    "quantize_tensors",
]

Array = NDArray[Any]
INT8, CORRECTIONS = "int8.safetensors", "corrections.safetensors"
MAX_ROWS = 1 << 18  # calibration rows that are looked at
LEAST_ROWS = 256
CLIPS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2)  # of the largest value
# Raw features in int8 may move the totals of programs by so much more than raw features in bfloat16
# do, or so far.
WORSE, HARMLESS = 1.5, 1e-3
PARTS = 16
LEAST_PROGRAMS = 4


def quantize(
    folder: str | Path, features: Array | Sequence[Array], raw: bool | None = None
) -> dict[str, Quantised]:
    """Quantise a model folder's LSTM layers and correct the biases of the narrow formats,
    calibrated on these raw rows; written into the folder.  A model without LSTM layers has no int8.

    ``features``: float32 [rows, columns], rows that the model is meant for (at least 256 of them),
    one array for each program: programs count alike, and what is kept must hold for one left out.
    Fewer than LEAST_PROGRAMS are cut into PARTS pieces instead.
    ``raw``: whether inputs that are raw features are quantised; the rows decide unless given.
    Raises FormatError, UsageError.
    """
    card = load_card(folder)
    tensors = load_tensors(folder, card)
    rows, edges = _programs([features] if isinstance(features, np.ndarray) else features)
    bf16, move = _corrections(card, tensors, {}, "bf16", rows, edges)
    found = {f"bf16.{k}": v for k, v in bf16.items()}
    moves = {"bf16": move}
    parts: dict[str, Quantised] = {}
    if any(True for _ in lstm_layers(card.spec)):
        parts, added, moves["int8"], about = _choose_inputs(card, tensors, rows, edges, raw)
        found |= {f"int8.{k}": v for k, v in added.items()}
        card.extra["int8"] = {"rows": len(rows), "clip": "least squared error", **about}
    kept = sorted({key.partition(".")[0] for key in found})
    card.extra["corrections"] = {"rows": len(rows), "kept": kept, "totals_move": moves}
    made: dict[str, Mapping[str, Any]] = {INT8: to_tensors(parts)} if parts else {}
    save_card(folder, card, {**made, CORRECTIONS: found})
    return parts


def _corrections(
    card: Card,
    tensors: Mapping[str, Array],
    parts: Mapping[str, Quantised],
    dtype: str,
    rows: Array,
    edges: Array,
) -> tuple[dict[str, Array], float]:
    def narrow(added: Mapping[str, Array]) -> Engine:
        return Engine(card, tensors, parts, {dtype: added}, dtype=dtype, threads=1)

    return corrections(Engine(card, tensors, dtype="f32", threads=1), narrow, rows, edges)


def _choose_inputs(
    card: Card, tensors: Mapping[str, Array], rows: Array, edges: Array, raw: bool | None
) -> tuple[dict[str, Quantised], dict[str, Array], float, dict[str, Any]]:
    """The quantised layers, their corrections, how far totals move, and what the card says about
    raw features: in int8 where that does no harm to the totals of programs."""
    cases = {}
    for case in (False, True) if raw is None else (raw,):
        parts = quantize_tensors(card, tensors, rows, case)
        if case and raw is None and not any(part.columns for part in parts.values()):
            continue
        cases[case] = parts, *_corrections(card, tensors, parts, "int8", rows, edges)
    moves = {case: move for case, (_, _, move) in cases.items()} if len(cases) == 2 else {}
    chosen = max(cases)
    if moves and moves[True] > max(WORSE * moves[False], HARMLESS):
        chosen = False
    parts, added, move = cases[chosen]
    columns = next((part.columns for part in parts.values() if part.columns), None)
    about: dict[str, Any] = {}
    if columns is not None or moves:
        about["inputs"] = "int8" if columns else "bf16"
    if columns is not None:
        about["inputs_in_bf16"] = [card.spec.inputs[j].column for j in columns.apart]
    if moves:
        about["totals_move"] = {"bf16": moves[False], "int8": moves[True]}
    return parts, added, move, about


def _programs(blocks: Sequence[Array]) -> tuple[Array, Array]:
    """The rows of all programs, as many of each as may be looked at, and the edges of what counts
    as one program."""
    parts = [block for block in blocks if len(block)]
    parts = [part[: MAX_ROWS // len(parts)] for part in parts]
    rows = np.ascontiguousarray(np.concatenate(parts) if parts else np.zeros((0, 0), np.float32))
    _check_rows(rows)
    if len(parts) < LEAST_PROGRAMS:
        return rows, np.linspace(0, len(rows), PARTS + 1).astype(np.int64)
    return rows, np.cumsum([0, *map(len, parts)])


def _check_rows(features: Array) -> None:
    if len(features) < LEAST_ROWS:
        raise UsageError(f"{len(features)} rows; at least {LEAST_ROWS} are needed to calibrate")


def quantize_tensors(
    card: Card,
    tensors: Mapping[str, Array],
    features: Array,
    raw: bool = False,
    lookahead: int | None = None,
) -> dict[str, Quantised]:
    """The quantised LSTM layers of a model, by name; raises UsageError where there are none.

    ``raw``: quantise the raw features too, where the first layer reads them as they are.
    ``lookahead``: as the engine's, of a bidirectional model whose card does not say it.
    """
    _check_rows(features)
    if not any(True for _ in lstm_layers(card.spec)):
        raise UsageError("the model has no LSTM layer", hint="int8 is for LSTM stacks")
    rows = np.ascontiguousarray(features[:MAX_ROWS])
    moments = lstm_moments(Engine(card, tensors, dtype="f32", threads=1, lookahead=lookahead), rows)
    out: dict[str, Quantised] = {}
    for layer, before in lstm_layers(card.spec):
        first = input_scale(card, tensors, features, layer, before)
        columns = _raw_columns(card, tensors, features, layer) if raw and before == () else None
        for part, _ in layer.parts():
            hh, ih = (tensors[f"{layer.name}.weight_{kind}_{part}"] for kind in ("hh", "ih"))
            own = moments[f"{layer.name}.bias_ih_{part}"]
            if columns is not None and reads_input(part):
                known = np.delete(np.arange(ih.shape[1]), columns.apart)
                steps = np.zeros(ih.shape[1])
                steps[known] = columns.step[known]
                states = own[: len(hh.T), : len(hh.T)]
                _, units = quantize_rows(ih * steps)
                turns = shuffled(round_in_turns(ih * steps / units[:, None], _nearest))
                out[f"{layer.name}.{part}"] = Quantised(
                    *_rounded(hh, states), turns, units, 1.0, columns
                )
                continue
            scale = first if reads_input(part) else UNIT
            out[f"{layer.name}.{part}"] = quantize_layer(hh, ih, scale, own)
    return out


def lstm_layers(spec: ModelSpec) -> Iterator[tuple[Layer, tuple[Layer, ...] | None]]:
    """LSTM layers with the layers before them; None inside residual blocks."""
    for i, layer in enumerate(spec.layers):
        if layer.type == "lstm":
            yield layer, spec.layers[:i]
        elif layer.inner:
            inner = replace(spec, layers=layer.inner, heads=())
            yield from ((found, None) for found, _ in lstm_layers(inner))


def input_scale(
    card: Card,
    tensors: Mapping[str, Array],
    features: Array,
    layer: Layer,
    before: tuple[Layer, ...] | None,
) -> float | None:
    """The scale of a first LSTM layer's input; None where it stays as it is."""
    if not before:
        return None
    if before and before[-1].type == "lstm":
        return UNIT
    if foldable((*before[-1:], layer)):
        return None
    spec = ModelSpec(card.spec.inputs, before, ())
    part = Card(card.name, spec, card.columns)
    rows = np.ascontiguousarray(features[:MAX_ROWS])
    values = np.abs(Engine(part, tensors, dtype="f32", threads=1).represent(rows))
    largest = float(values.max())
    if not 0 < largest < 1e30:
        raise UsageError("the calibration rows give an input that is 0 or not finite")
    errors = []
    for clip in CLIPS:
        scale = clip * largest / 127
        errors.append(
            float(np.square(values - scale * np.rint(values / scale).clip(0, 127)).mean())
        )
    return CLIPS[int(np.argmin(errors))] * largest / 127


def _raw_columns(
    card: Card, tensors: Mapping[str, Array], features: Array, layer: Layer
) -> Columns | None:
    """How a first LSTM layer reads raw features in int8; None where it reads something else."""
    part = Card(card.name, ModelSpec(card.spec.inputs, (), ()), card.columns)
    engine = Engine(part, tensors, dtype="f32", threads=1)
    raw = engine.raw_columns
    if raw is None:
        return None
    values = engine.represent(np.ascontiguousarray(features[:MAX_ROWS]))
    names = [f"{layer.name}.weight_ih_{p}" for p, _ in layer.parts() if reads_input(p)]
    return choose_columns(values, np.concatenate([tensors[name] for name in names]), raw)


def quantize_layer(hh: Array, ih: Array, scale: float | None, moments: Array) -> Quantised:
    """One layer; ``scale`` is that of its input, None where the input stays in bfloat16;
    ``moments`` those of h and of the input side by side (``correct.lstm_moments``)."""
    split = hh.shape[1]
    if scale is None:
        return Quantised(*_rounded(hh, moments[:split, :split]))
    if scale != UNIT:
        first = _rounded(hh, moments[:split, :split])
        return Quantised(*first, *_rounded(ih, moments[split:, split:]), input_scale=scale)
    # both inputs are an LSTM's h: one scale for a row of both matrices lets them be summed as one
    both, common = _rounded(np.concatenate([hh, ih], axis=1), moments)
    one, two = (np.ascontiguousarray(m) for m in (both[..., :split], both[..., split:]))
    return Quantised(one, common, two, common)


def _rounded(weight: Array, moments: Array) -> tuple[Array, Array]:
    """int8 [SETS, rows, in] and float32 scale [rows]: the largest of a row is 127 steps."""
    _, scale = quantize_rows(weight)
    return round_in_turns(weight / scale[:, None], lambda w: round_weights(w, moments)), scale


def _nearest(steps: Array) -> Array:
    return np.rint(steps).clip(-127, 127).astype(np.int8)


def to_tensors(parts: Mapping[str, Quantised]) -> dict[str, Array]:
    """As they stand in int8.safetensors."""
    out: dict[str, Array] = {}
    for name, part in parts.items():
        out[f"{name}.weight_hh"], out[f"{name}.scale_hh"] = part.weight_hh, part.scale_hh
        if part.weight_ih is not None and part.scale_ih is not None:
            out[f"{name}.weight_ih"], out[f"{name}.scale_ih"] = part.weight_ih, part.scale_ih
            out[f"{name}.input_scale"] = np.array([part.input_scale], np.float32)
        if part.columns is not None:
            flags = np.zeros(len(part.columns.step), np.int8)
            flags[part.columns.apart] = 1
            out[f"{name}.input_step"] = part.columns.step
            out[f"{name}.input_center"] = part.columns.center
            out[f"{name}.input_apart"] = flags
    return out


def load_quantised(folder: str | Path, card: Card) -> dict[str, Quantised]:
    """The folder's quantised layers, empty where it has none; raises FormatError."""
    if INT8 not in card.files:
        return {}
    tensors = load_file(folder, card, INT8)
    path = str(Path(folder) / INT8)
    out = {}
    for layer, _ in lstm_layers(card.spec):
        for suffix, width in layer.parts():
            name, rows = f"{layer.name}.{suffix}", 4 * layer.hidden

            def get(part: str, shape: tuple[int, ...], dtype: Any, name: str = name) -> Array:
                array = tensors.get(f"{name}.{part}")
                if array is None or array.shape != shape or array.dtype != dtype:
                    raise FormatError(
                        f"{name}.{part} is not {np.dtype(dtype)} {shape}",
                        path=path,
                        hint="quantize the model again",
                    )
                positive = array > 0 if part != "input_center" else True
                if dtype == np.float32 and not (np.isfinite(array) & positive).all():
                    raise FormatError(f"{name}.{part} has a scale that is not positive", path=path)
                return array

            def weights(part: str, shape: tuple[int, int], name: str = name) -> Array:
                array = tensors.get(f"{name}.{part}")
                one = array is not None and array.ndim == 2  # a single set for all steps
                found = get(part, shape if one else (SETS, *shape), np.int8)
                return found[None] if one else found

            hh = weights("weight_hh", (rows, layer.hidden)), get("scale_hh", (rows,), np.float32)
            if f"{name}.weight_ih" in tensors:
                ih = weights("weight_ih", (rows, width)), get("scale_ih", (rows,), np.float32)
                scale = float(get("input_scale", (1,), np.float32)[0])
                # stored as float32: the recurrent scale is meant exactly
                scale = UNIT if np.float32(UNIT) == np.float32(scale) else scale
                columns = None
                if f"{name}.input_step" in tensors:
                    step = get("input_step", (width,), np.float32)
                    center = get("input_center", (width,), np.float32)
                    columns = Columns(
                        center, step, np.flatnonzero(get("input_apart", (width,), np.int8))
                    )
                out[name] = Quantised(*hh, *ih, input_scale=scale, columns=columns)
            else:
                out[name] = Quantised(*hh)
    return out


def load_corrections(folder: str | Path, card: Card) -> dict[str, dict[str, Array]]:
    """What the folder's calibration adds to biases and to the representation, by format and tensor;
    raises FormatError."""
    if CORRECTIONS not in card.files:
        return {}
    path, shapes = str(Path(folder) / CORRECTIONS), card.spec.tensors()
    out: dict[str, dict[str, Array]] = {}
    for key, value in load_file(folder, card, CORRECTIONS).items():
        dtype, _, name = key.partition(".")
        known = dtype in ("bf16", "int8") and "bias" in name.split(".")[-1]
        shape = shapes.get(name)
        if dtype in ("bf16", "int8") and name == REPRESENTATION:
            known, shape = True, (card.spec.width,)
        if not known or shape != value.shape or value.dtype != np.float32:
            raise FormatError(
                f"{key} is no correction of a bias of this model",
                path=path,
                hint="quantize the model again",
            )
        if not np.isfinite(value).all():
            raise FormatError(f"{key} is not finite", path=path)
        out.setdefault(dtype, {})[name] = value
    return out
