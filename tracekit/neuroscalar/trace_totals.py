"""Expected cycles of traces, added up in pieces of rows: the sums are the same to the last bit,
whoever does the pieces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from tracekit.neuroscalar.model import MEAN, CycleModel
from tracekit.store.reader import TraceFile

__all__ = ["PIECE_ROWS", "piece_sums", "row_pieces", "sums_by_piece"]

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
Range = tuple[int, int]

#: Rows of a piece, a multiple of the engine's grid.
PIECE_ROWS = 1 << 17


def row_pieces(rows: int, *, cut: bool) -> list[Range]:
    """Ranges of a trace's rows that are done apart; all of them unless the model's can be cut
    (`CycleModel.cut`)."""
    if not cut or rows <= PIECE_ROWS:
        return [(0, rows)]
    return [(a, min(a + PIECE_ROWS, rows)) for a in range(0, rows, PIECE_ROWS)]


def sums_by_piece(parts: Iterable[F32]) -> F64:
    """Sums of rows that come in parts of any size: float64 [pieces, machines]."""
    return np.array([p.sum(axis=0, dtype=np.float64) for p in _pieces(parts)])


def _pieces(parts: Iterable[F32]) -> Iterator[F32]:
    kept: list[F32] = []
    for part in parts:
        kept.append(part)
        if sum(map(len, kept)) < PIECE_ROWS:
            continue
        whole = np.concatenate(kept)
        end = len(whole) // PIECE_ROWS * PIECE_ROWS
        yield from np.split(whole[:end], range(PIECE_ROWS, end, PIECE_ROWS))
        kept = [whole[end:]]
    if (whole := np.concatenate(kept)).size:
        yield whole


def piece_sums(model: CycleModel, trace: TraceFile, piece: Range) -> tuple[F64, int]:
    """Expected cycles of a range of rows by piece, float64 [pieces, machines], and of how many
    instructions."""
    if piece != (0, len(trace)):
        found = model.predict_range(trace, piece, MEAN)
        return sums_by_piece([found]), len(found)
    count = 0

    def counted() -> Iterator[F32]:
        nonlocal count
        for part in model.feed(model.rows(trace), [MEAN]):
            count += len(part[MEAN])
            yield part[MEAN]

    return sums_by_piece(counted()), count
