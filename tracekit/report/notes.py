"""What bounds a report's figures: intervals of what was sampled, and what the simulated cores were
never compared with gem5 on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.errors import TracekitError
from tracekit.estimation.student import student
from tracekit.mixture.model import check_trace, load_model
from tracekit.prediction.program import unlike_training
from tracekit.prediction.sampling import interleaved_threads, ranges_of
from tracekit.sim import KeptRows, totals
from tracekit.store.debug_flags import without_debug_flags
from tracekit.store.reader import TraceFile

__all__ = ["intervals", "notes"]


def is_sampled(trace: TraceFile) -> bool:
    """Whether the rows are epochs of a program that went on between them."""
    source = trace.index.get("source", {})
    return bool(source.get("format") == "tks" and not source.get("contiguous"))


def intervals(
    trace: TraceFile,
    kept: KeptRows,
    machines: Sequence[Mapping[str, Any]],
    threads: int | None = None,
) -> npt.NDArray[np.float64] | None:
    """Half of the 95 % interval of each machine's cycles a row, as a share of it: by how much the
    epochs of a sampled program differ.  None where all of a program was recorded, NaN where one
    epoch is all there is."""
    ranges = ranges_of(trace)
    if not is_sampled(trace):
        return None
    if len(ranges) < 2:
        return np.full(len(machines), np.nan)
    edges = sorted({0, len(trace), *(e for r in ranges for e in r)})
    sums = totals(kept, machines, edges, threads)
    at = {e: k for k, e in enumerate(edges)}
    cycles = np.array([sums[at[a] : at[b]].sum(0) for a, b in ranges])
    rows = np.array([b - a for a, b in ranges], np.float64)[:, None]
    cpi = cycles.sum(0) / rows.sum()
    # A ratio of sums (Cochran, Sampling Techniques, 6.4): epochs may differ in length.
    n = len(ranges)
    variance = ((cycles - cpi * rows) ** 2).sum(0) / (n - 1) / n / rows.mean() ** 2
    half: npt.NDArray[np.float64] = student(n - 1) * np.sqrt(variance) / cpi
    return half


def notes(trace: TraceFile) -> list[str]:
    """Plain sentences: what may not be concluded."""
    out = without_debug_flags(trace)
    ranges = ranges_of(trace)
    arch = trace.arch
    try:
        model = load_model(None, arch, trace.level)
        check_trace(model, trace)
    except TracekitError:
        level = trace.level
        out.append(
            f"the simulated cores were not compared with gem5 on {level} rows of {arch or 'this'}"
            " programs: their times are not validated"
        )
    else:
        out += unlike_training(model, trace, ranges, np.ones(len(ranges)))[1]
    if is_sampled(trace):
        were = "were" if len(ranges) > 1 else "was"
        out.append(
            f"{len(ranges)} epoch{'s' * (len(ranges) > 1)} of the program {were} recorded,"
            " standing for all of it; caches and predictors are left to the next epoch as they are"
        )
    if trace.index.get("source", {}).get("format") == "tks":
        out.append("a recording does not hold system time: what the kernel did is not in it")
    if (many := interleaved_threads(trace)) > 1:
        how = "one epoch after another" if is_sampled(trace) else "as they took turns,"
        out.append(f"{many} threads are walked as one, {how} on one core")
    return [note[:1].upper() + note[1:] for note in out]
