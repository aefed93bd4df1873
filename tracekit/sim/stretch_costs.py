"""What stretches of a trace should cost, as its features say, before any core has walked them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from tracekit.cpus import thread_count
from tracekit.schema import OP_CLASSES
from tracekit.sim.trace_walk import BLOCK, RowSource

__all__ = ["stretch_costs"]

F64 = npt.NDArray[np.float64]

# Cycles on a machine of no extremes.  What counts is which stretches cost more than others: a
# sample's own cycles come from cores.
ROW = 0.5
#: Lines of a cache of 32 kB, of 512 kB and of 8 MB, and what an access takes longer that finds its
#: line behind it, overlapped in part.
DATA = ((512, 5.0), (8_192, 12.0), (131_072, 40.0))
#: The same of a line of code.
FETCH = ((512, 10.0), (8_192, 20.0), (131_072, 60.0))
MISPREDICTION = 15.0
#: A part that divides or takes a root.  X86's integer divisions are loops of many.
DIVISION = 20.0
_DIVISIONS = [k for k, name in enumerate(OP_CLASSES) if name.endswith(("Div", "Sqrt"))]


def stretch_costs(
    source: RowSource, begins: npt.NDArray[np.int64], length: int, threads: int | None = None
) -> F64:
    """Cycles of ``length`` rows from each of ``begins`` on: float64 [stretches].

    ``begins``: increasing, so far apart that no stretches overlap.  From stack distances as misses
    of caches with the least recently used lines, from how often each branch was taken after such a
    history (`p_global`), and from divisions.
    """
    blocks = range(0, len(source), BLOCK)
    divisions = DIVISION * source.executed_parts(_DIVISIONS)
    edges = np.unique(np.concatenate([begins, begins + length, [0, len(source)]]))

    def sums(first: int) -> tuple[npt.NDArray[np.intp], F64]:
        """The parts between edges that a block's rows are of, and the costs of these rows."""
        last = min(first + BLOCK, len(source))
        costs = _row_costs(source, (first, last), divisions)
        inside = edges[np.searchsorted(edges, first, "right") : np.searchsorted(edges, last)]
        starts = np.concatenate([[0], inside - first])
        parts = np.searchsorted(edges, first + starts, "right") - 1
        return parts, np.add.reduceat(costs, starts)

    out = np.zeros(len(edges) - 1)
    with ThreadPoolExecutor(thread_count(threads)) as pool:
        for parts, found in pool.map(sums, blocks):
            out[parts] += found
    stretches: F64 = out[np.searchsorted(edges, begins)]
    return stretches


def _row_costs(source: RowSource, rows: tuple[int, int], of_static: F64) -> F64:
    cost: F64 = ROW + of_static[source.column("static_id", rows)]
    for name, levels in (("data_distance", DATA), ("fetch_distance", FETCH)):
        distance = source.column(name, rows)
        for lines, cycles in levels:
            cost += cycles * (distance > lines)
    taken = source.column("p_global", rows)
    cost += MISPREDICTION * np.minimum(taken, 1 - taken)
    return cost
