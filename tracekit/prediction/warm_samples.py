"""Samples of a whole run under QEMU that tell which lines of memory were used before each
(--every with --touched, docs/qemu.md): cores begin them with warm caches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tracekit.cpus import thread_count
from tracekit.mixture.model import Mixture, check_trace
from tracekit.progress import Progress
from tracekit.record.qemu.traits import TOUCHED_PCS
from tracekit.sim import plugins
from tracekit.sim.samples import APPROACH, WARM
from tracekit.sim.trace_walk import RowSource
from tracekit.store.reader import TraceFile

__all__ = ["of_program", "sample_sums_of", "tells_touched"]

F64 = npt.NDArray[np.float64]
Range = tuple[int, int]
#: The most of a sample that only warms: a third through caches and predictors, a tenth walked.
_APPROACH, _WARM = 1 / 3, 1 / 10


def tells_touched(trace: TraceFile) -> bool:
    """Whether the rows before a sample stand for lines that were used before it."""
    return bool(np.isin(trace.statics.pc, np.asarray(TOUCHED_PCS, np.uint64)).any())


def of_program(trace: TraceFile, ranges: Sequence[Range]) -> list[Range]:
    """The ranges of rows that the program ran; those without a gap between them are one."""
    if not tells_touched(trace):
        return list(ranges)
    touched = np.isin(trace.statics.pc, np.asarray(TOUCHED_PCS, np.uint64))
    out: list[Range] = []
    for begin, end in ranges:
        if touched[int(trace.column("static_id", (begin, begin + 1))[0])]:
            continue
        if out and out[-1][1] == begin:
            out[-1] = (out[-1][0], end)
        else:
            out.append((begin, end))
    return out


def sample_sums_of(
    model: Mixture,
    trace: TraceFile,
    samples: Sequence[Range],
    threads: int | None = None,
    *,
    quiet: bool = True,
) -> tuple[F64, F64]:
    """Of each sample the rows that count, float64 [samples], and their cycles on the model's cores,
    float64 [samples, cores].  The rows between samples stand for lines that were used."""
    check_trace(model, trace)
    source = RowSource(trace)
    cores = source.cores(model.cores)
    threads = thread_count(threads)
    rows = np.zeros(len(samples))
    out = np.zeros((len(samples), len(model.cores)))
    done = 0
    with Progress("simulate", len(trace), quiet=quiet) as progress:
        for k, (begin, end) in enumerate(samples):
            for b in source.blocks(done, begin):
                cores.observe_lines(b.ids, b.addr, b.bits, b.following, threads)
            length = end - begin
            walked = begin + min(APPROACH, int(_APPROACH * length))
            counted = walked + max(1, min(WARM, int(_WARM * length)))
            b = source.block(begin, walked)
            cores.begin_behind(b.ids, b.addr, b.bits, b.following, threads)
            for b in source.blocks(walked, end):
                warm = min(max(counted - b.begin, 0), len(b.ids))
                edges = np.array([0, warm, len(b.ids)], np.uint32)
                out[k] += cores.sums(b.ids, b.addr, b.bits, b.following, edges, threads)[1]
                cores.observe(b.ids, b.addr, b.bits, b.following, threads)
            plugins.check()
            rows[k] = max(0, end - counted)
            done = end
            progress.update(done)
    return rows, out
