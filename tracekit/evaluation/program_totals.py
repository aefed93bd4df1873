"""A model's totals of a program: of all of it, or of pieces that several workers do apart; the sums
are the same to the last bit.

A network starts anew on a fixed grid of rows, each time warmed up on the rows before: its pieces
are ranges of rows.  The simulated cores of a mixture carry their state from the first row to the
last and know nothing of each other: its pieces are cores.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.dataset import Dataset
from tracekit.errors import UsageError
from tracekit.extras import install_command
from tracekit.mixture.model import FEATURE_SET, Mixture, check_trace, load_model
from tracekit.model import Card, load_card
from tracekit.sim.spread import pieces
from tracekit.store.reader import TraceFile

__all__ = ["PIECE_ROWS", "MixtureTotals", "NetworkTotals", "totals_of"]

F64 = npt.NDArray[np.float64]
Range = tuple[int, int]

#: Rows of a network's piece: one to two seconds of a thread for PerfVec's largest.
PIECE_ROWS = 1 << 17


class NetworkTotals:
    """Of a network of instructions (train perfvec --preset paper)."""

    def __init__(self, folder: str | Path, card: Card, threads: int | None) -> None:
        try:
            from tracekit import infer
        except ModuleNotFoundError:
            raise UsageError(
                "a network needs numba to be run", hint=install_command("infer")
            ) from None
        if card.unit not in ("cycles", "0.1ns"):
            raise UsageError(f"the model counts in {card.unit!r}", path=str(folder))
        self.card = card
        self._engine = infer.load(folder, dtype="f32", threads=threads)

    def pieces(self, rows: int) -> list[Range]:
        """Ranges of rows that are done apart."""
        chunk = self._engine.grid(rows)
        size = chunk * max(1, PIECE_ROWS // chunk)
        return [(a, min(a + size, rows)) for a in range(0, rows, size)]

    def sums(self, data: Dataset, piece: Range, rows: int) -> F64:
        """What the rows of a piece of a program add to its total, in parts."""
        low, high = piece
        first = max(0, low - self._engine.warmup)
        end = min(rows, high + self._engine.lookahead)
        x = data.features(self.card.feature_set, (first, end))
        return np.asarray(self._engine.range_sums(x, first, piece, rows), np.float64)

    def total(self, sums: list[F64]) -> F64:
        """The total of a program from the sums of all of its pieces, in their order."""
        return np.asarray(self._engine.totals_of(np.concatenate(sums)), np.float64)

    def of(self, data: Dataset, rows: int) -> F64:
        """The total of a program's first rows, in the model's unit: float64 [machines]."""
        return self.total([self.sums(data, piece, rows) for piece in self.pieces(rows)])


class MixtureTotals:
    """Of a mixture over simulated cores."""

    def __init__(self, model: Mixture, card: Card, threads: int | None) -> None:
        self.model, self.card, self._threads = model, card, threads

    def pieces(self, rows: int) -> list[Range]:
        """Cores that are walked apart."""
        return pieces(rows, len(self.model.cores))

    def check(self, trace: TraceFile) -> None:
        """An error where the model is not of such a trace."""
        check_trace(self.model, trace)

    def total(self, cores: F64) -> F64:
        """The total of a program from what its rows take on each core, float64 [1, cores]."""
        found: F64 = self.model.cycles(cores)[0]
        return found

    def of(self, data: Dataset, rows: int) -> F64:
        """The total of a program's first rows: float64 [machines]."""
        edges = np.array([0, rows])
        return self.total(self.model.represent(data.trace, edges, self._threads))


def totals_of(folder: str | Path, threads: int | None) -> NetworkTotals | MixtureTotals:
    """What gives the totals of a model folder, of whichever preset."""
    card: Any = load_card(folder)
    if card.feature_set == FEATURE_SET:
        return MixtureTotals(load_model(folder), card, threads)
    return NetworkTotals(folder, card, threads)
