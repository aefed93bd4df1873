"""How NeuroScalar's presets are trained."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tracekit.errors import UsageError

__all__ = ["Options"]


@dataclass(frozen=True)
class Options:
    """``window``: rows of a chunk (the paper's L); ``target``: its last rows, where the loss is
    (T), or, ``bidirectional`` (preset paper), those in its middle; ``width``: of the layers (64,
    and the paper's 256); ``steps`` batches of ``batch`` chunks, with a validation after every
    ``check``; training stops after ``patience`` validations without a better MAE.  ``drop``: share
    of the chunks without history; ``sums``: weight of the chunks' sums in the loss."""

    preset: str = "default"
    machines: tuple[str, ...] = ()
    steps: int = 1200
    batch: int = 32
    window: int = 288
    target: int = 256
    rate: float = 2e-3
    width: int | None = None
    bidirectional: bool = False
    history: bool = True
    drop: float = 0.2
    sums: float = 0.3
    check: int = 150
    patience: int = 6
    seed: int = 0
    threads: int | None = None
    device: str = "cpu"
    half: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.target <= self.window:
            raise UsageError(f"target {self.target} is not from 1 to the window, {self.window}")
        if min(self.steps, self.batch, self.check, self.patience, self.layer_width) < 1:
            raise UsageError("steps, batch, check, patience and width are at least 1")
        if not 0 < self.rate < math.inf:
            raise UsageError(f"rate is {self.rate}; a number above 0")
        if self.bidirectional and (self.preset != "paper" or self.window - self.target < 2):
            raise UsageError("bidirectional: preset paper, and a window of at least 2 more rows")

    @property
    def layer_width(self) -> int:
        """``width``, or the preset's own."""
        return (256 if self.preset == "paper" else 64) if self.width is None else self.width

    @property
    def ahead(self) -> int:
        """Rows of a window behind those where the loss is."""
        return (self.window - self.target) // 2 if self.bidirectional else 0

    @property
    def judged(self) -> slice:
        """The rows of a window where the loss is."""
        end = self.window - self.ahead
        return slice(end - self.target, end)
