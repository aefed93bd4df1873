"""What an architecture may ask for: a card of some kilobytes must not take gigabytes to run."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

from tracekit.errors import FormatError

MAX_HELD: Final = 1 << 24
"""Numbers of earlier rows that all convolutions together keep."""
MAX_USED: Final = 1 << 26
"""Weights that the layers use, those that several layers share counted for each; more only where
the file has half as many."""


def check_sizes(layers: Iterable[Any], parameters: int) -> None:
    """Raises FormatError where an engine for ``layers`` (`tracekit.model.spec.Layer`) would be too
    large for a model of so many weights."""
    held = used = 0
    for layer in layers:
        if layer.type == "conv1d":
            held += (layer.kernel - 1) * layer.dilation * layer.width_in
        used += sum(math.prod(shape) for shape in layer.tensors().values())
    if held > MAX_HELD:
        raise FormatError(f"spec.layers: convolutions keep {held} numbers; at most {MAX_HELD}")
    if used > max(MAX_USED, 2 * parameters):
        raise FormatError(f"spec.layers: layers that share weights use {used} of them")
