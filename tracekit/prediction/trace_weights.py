"""The time of a program that a few traces stand for, each for its share of the instructions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tracekit.errors import UsageError
from tracekit.prediction.intervals import added_intervals
from tracekit.prediction.trace_times import PredictionResult, total
from tracekit.store.reader import TraceFile
from tracekit.text import counted

__all__ = ["check_one_program", "weighted"]

F64 = npt.NDArray[np.float64]


def check_one_program(paths: Sequence[str]) -> None:
    """Raises `UsageError` where a trace is of another program than the first: where at least half
    of the places that both ran have another instruction."""
    known: dict[tuple[int, int], str] = {}
    for path in paths:
        with TraceFile(path) as trace:
            s = trace.statics
            places = zip(s.pc.tolist(), s.upc.tolist(), strict=True)
            own = dict(zip(places, s.disassembly, strict=True))
        if not known:
            known = own
            continue
        both = known.keys() & own.keys()
        other = sum(known[place] != own[place] for place in both)
        if both and 2 * other >= len(both):
            raise UsageError(
                f"{other:,} of the {len(both):,} places that {paths[0]} ran, too, have another "
                "instruction: a trace of another program",
                path=path,
            )


def weighted(
    results: Sequence[PredictionResult], weights: Sequence[float], instructions: int | None = None
) -> PredictionResult:
    """The time of a program of which each trace stands for a share of the instructions.

    ``weights``: of the traces, which add up to 1.  ``instructions``: of the whole program; those of
    the traces together unless given.  Rows are scaled, too, and rounded.

    Raises `UsageError` where the traces are of different machines, a weight is missing, or the
    weights do not add up.
    """
    whole = total(results)
    if len(weights) != len(results):
        raise UsageError(f"{counted(len(weights), 'weight')} for {counted(len(results), 'trace')}")
    if min(weights) < 0 or abs(sum(weights) - 1) > 0.01:
        raise UsageError(f"the weights add up to {sum(weights):.4g}, not to 1")
    for r in results:
        if not r.instructions:
            raise UsageError("the trace has no whole instruction", path=r.path)
    n = whole.instructions if instructions is None else instructions
    scale = [n * w / sum(weights) / r.instructions for w, r in zip(weights, results, strict=True)]

    def added(values: Sequence[F64]) -> F64:
        out: F64 = np.sum([k * v for k, v in zip(scale, values, strict=True)], axis=0)
        return out

    return PredictionResult(
        f"{len(results)} weighted files",
        round(sum(k * r.rows for k, r in zip(scale, results, strict=True))),
        n,
        whole.machines,
        whole.summaries,
        added([r.cycles for r in results]),
        added([r.seconds for r in results]),
        added([r.representation for r in results]),
        whole.columns,
        intervals=added_intervals([r.intervals for r in results], scale),
    )
