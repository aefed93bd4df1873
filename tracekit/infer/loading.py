"""A model folder as an engine for the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import FormatError
from tracekit.infer.engine import REPRESENTATION, WARMUP, Engine
from tracekit.infer.quantization import load_corrections, load_quantised
from tracekit.model import load_card, load_tensors
from tracekit.model.card import GOLDEN, load_file

__all__ = ["load"]

Array = NDArray[Any]


def load(
    folder: str | Path,
    dtype: str = "auto",
    threads: int | None = None,
    *,
    chunk: int | None = None,
    warmup: int = WARMUP,
    verify: bool = False,
    corrected: bool = True,
) -> Engine:
    """Load a model folder (docs/model-format.md) for the CPU.

    ``dtype`` is f32, bf16, int8 or auto; ``threads`` the CPUs that the process may use unless told;
    ``chunk`` rows of the trace are run from a state that ``warmup`` earlier rows built up.
    ``verify`` runs the folder's golden rows first and refuses a model that gives other numbers.
    ``corrected=False`` leaves alone what ``tracekit quantize`` found for the narrow formats.
    Raises FormatError for a bad folder, UsageError for a bad argument.
    """
    card = load_card(folder)
    tensors = load_tensors(folder, card)
    quantised = load_quantised(folder, card)
    corrections = load_corrections(folder, card) if corrected else {}
    if verify:
        exact = Engine(card, tensors, dtype="f32", threads=1, chunk=1 << 30)
        check_golden(exact, load_file(folder, card, GOLDEN), str(Path(folder) / GOLDEN))
    return Engine(
        card,
        tensors,
        quantised,
        corrections,
        dtype=dtype,
        threads=threads,
        chunk=chunk,
        warmup=warmup,
    )


def check_golden(engine: Engine, golden: Mapping[str, Array], path: str) -> None:
    """Raise FormatError where the engine's numbers are not those that training wrote down."""
    if "input" not in golden:
        raise FormatError("no tensor 'input'", path=path)
    rows = golden["input"].astype(np.float32)
    engine.check(rows)
    names = [REPRESENTATION, *(head.name for head in engine.spec.heads)]
    found = engine.run(rows, names)
    for name in names:
        key = name if name == REPRESENTATION else f"head.{name}"
        if key not in golden:
            continue
        want = golden[key]
        if want.shape != found[name].shape:
            raise FormatError(f"{key} is {want.shape}, not {found[name].shape}", path=path)
        near = np.isclose(found[name], want, rtol=1e-3, atol=1e-4 * max(1.0, np.abs(want).max()))
        # the choice of a two-way head may tip where both logits are equal to within rounding
        if (~near.all(axis=1)).mean() > 1e-3:
            worst = float(np.abs(found[name] - want).max())
            raise FormatError(f"{key} differs by up to {worst:.3g} from the golden rows", path=path)
