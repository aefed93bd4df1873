"""Samples of a long trace through simulated cores that begin warm: as if all rows before had been
walked.

One functional pass over the trace keeps when each line was last used and written, and runs every
kind of branch predictor and each machine's prefetchers (csrc/warm, csrc/sim/functional_pass.hpp).
Before a sample each machine's caches are rebuilt from that, `APPROACH` rows go through its caches
and prefetchers without being timed, and `WARM` rows are walked that do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit import _core
from tracekit.cpus import thread_count
from tracekit.errors import UsageError
from tracekit.sim import plugins
from tracekit.sim.trace_walk import Block, RowSource, source_of
from tracekit.store.reader import TraceFile

__all__ = ["APPROACH", "WARM", "check_warm_start", "counted", "sample_sums"]

F64 = npt.NDArray[np.float64]
#: Rows before a sample that go through a core in outline, and that are walked and do not count;
#: bench/warm_starts.py measures what they leave.
APPROACH, WARM = 40_000, 8_000


def sample_sums(
    trace: TraceFile | RowSource,
    machines: Sequence[Mapping[str, Any]],
    samples: Sequence[tuple[int, int]],
    *,
    approach: int = APPROACH,
    warm: int = WARM,
    threads: int | None = None,
    report: Callable[[int], None] = lambda _: None,
) -> F64:
    """Cycles of the rows [first, end) of each sample on each machine: float64 [samples, machines].

    ``samples``: increasing, apart.  ``approach`` and ``warm``: rows before each, as above, at least
    one of ``warm``.  Where no more than both lie before a sample, from the trace's first row or the
    end of the sample before on, the walk goes through them instead.  ``report`` is told how many
    rows of the trace are done.
    """
    check_warm_start(machines, approach, warm)
    source = source_of(trace)
    cores = source.cores(machines)
    threads = thread_count(threads)
    out = np.zeros((len(samples), len(machines)))
    done = 0  # rows that were observed
    for k, (first, end) in enumerate(samples):
        if not done <= first < end <= len(source):
            raise UsageError(f"samples: increasing ranges of the trace's {len(source):,} rows")
        walked = done
        if first - done > approach + warm:
            walked = first - warm
            seen = walked - approach
            with source.ahead(done, seen, threads) as blocks:
                for b in blocks:
                    cores.observe(b.ids, b.addr, b.bits, b.following, threads)
                    report(b.begin + len(b.ids))
            b = source.block(seen, walked)
            cores.begin_behind(b.ids, b.addr, b.bits, b.following, threads)
        for b in source.blocks(walked, end):
            out[k] += counted(cores, b, first, threads)
            cores.observe(b.ids, b.addr, b.bits, b.following, threads)
        plugins.check()
        done = end
        report(done)
    return out


def check_warm_start(machines: Sequence[Mapping[str, Any]], approach: int, warm: int) -> None:
    """Raises `UsageError` where no core, or no row before a sample, would be walked."""
    if not machines:
        raise UsageError("no simulated cores")
    if approach < 0 or warm < 1:
        raise UsageError("approach: at least 0 rows; warm: at least 1")


def counted(cores: _core.SimulatedCores, block: Block, first: int, threads: int) -> F64:
    """Walks a block; the cycles of its rows from row ``first`` of the trace on: float64 [cores]."""
    n = len(block.ids)
    edges = np.array([0, min(max(first - block.begin, 0), n), n], np.uint32)
    sums = cores.sums(block.ids, block.addr, block.bits, block.following, edges, threads)
    behind: F64 = sums[1]
    return behind
