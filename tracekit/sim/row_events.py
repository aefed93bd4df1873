"""What each row met on a simulated core: who had its data, and what became of its prediction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit import _core
from tracekit.sim.trace_walk import RowSource, source_of
from tracekit.store.reader import TraceFile

__all__ = ["FETCH_SHIFT", "LEVELS", "LEVEL_MASK", "MISPREDICTED", "RESTEERED", "event_walk"]

#: Bits of what a row met (row_event, csrc/sim/cause_ledger.hpp): 0 or 1 + a number of
#: `LEVELS` for its data, the same for its fetch, and its branch's prediction.
LEVEL_MASK: int = _core.EVENT_LEVEL_MASK
FETCH_SHIFT: int = _core.EVENT_FETCH_SHIFT
MISPREDICTED: int = _core.EVENT_MISPREDICTED
RESTEERED: int = _core.EVENT_RESTEERED
#: Who had the data (CacheLevel, csrc/sim/cache.hpp).
LEVELS = ("L1", "L2", "L3", "memory", "memory, in turn", "below L1, after a miss register")


def event_walk(
    trace: TraceFile | RowSource,
    machine: Mapping[str, Any],
    *,
    rows: int | None = None,
) -> npt.NDArray[np.uint8]:
    """What each of the first ``rows`` rows (all unless given) met on a core with the parameters of
    ``machine``, from cold: uint8 [rows], bits as above.  A store's level is the one that it is
    written to once it has retired."""
    source = source_of(trace)
    cores = source.cores([machine], causes=True)
    found = [
        cores.events(b.ids, b.addr, b.bits, b.following)[:, 0]
        for b in source.blocks(0, len(source) if rows is None else min(rows, len(source)))
    ]
    return np.concatenate(found) if found else np.zeros(0, np.uint8)
