"""A recorded program's time on real processors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.hardware import HardwareMachine, hardware_machines
from tracekit.hardware.simulation import simulate_hardware
from tracekit.store.reader import TraceFile

__all__ = ["real_machines_of", "real_times"]


def real_machines_of(trace: TraceFile, here: HardwareMachine | None) -> list[HardwareMachine]:
    """This computer's machine, where one is given, and all other real processors of the trace's
    instruction set; none for rows without machine code."""
    if not trace.statics.bytes or not all(trace.statics.bytes):
        return []
    known = [m for m in hardware_machines().values() if m.isa == trace.arch]
    return known if here is None else [here, *(m for m in known if m != here)]


def real_times(
    trace: TraceFile,
    machines: Sequence[HardwareMachine],
    ranges: Sequence[tuple[int, int]],
    weights: npt.NDArray[np.float64],
    *,
    sampled: bool,
    user: float | None,
    here: HardwareMachine | None,
    threads: int | None = None,
    quiet: bool = True,
) -> list[dict[str, Any]]:
    """Of each machine name, CPI, nanoseconds an instruction and seconds of the whole run, which are
    known where this computer's machine ``here`` and the run's ``user`` seconds are.

    ``ranges``: the epochs' rows, ``weights`` [epochs] of an instruction of each.  Of sampled epochs
    the first half warms caches and predictors.
    """
    if not machines:
        return []
    spans = [((a + b) // 2 if sampled else a, b) for a, b in ranges]
    inner = {x for span in spans for x in span if x < len(trace)}
    breaks = sorted({0, *inner})
    found = simulate_hardware(trace, machines, ranges=breaks, threads=threads, quiet=quiet)
    sums = np.vstack([np.zeros(len(machines)), np.cumsum(found.cycles_by_range, axis=0)])
    place = {int(row): k for k, row in enumerate([*breaks, len(trace)])}
    cycles, rows = np.zeros(len(machines)), 0.0
    for (a, b), weight in zip(spans, weights.tolist(), strict=True):
        cycles += weight * (sums[place[b]] - sums[place[a]])
        rows += weight * (b - a)
    cpi = cycles / max(rows, 1.0)
    ns = cpi / np.array([m.clock_ghz for m in machines])
    own = ns[machines.index(here)] if here is not None else 0.0
    return [
        {
            "name": m.name,
            "here": m is here,
            "cpi": float(cpi[k]),
            "ns_per_instruction": float(ns[k]),
            "seconds": float(user * ns[k] / own) if user and own > 0 else None,
            "checked_on_hardware": m.checked_on_hardware,
        }
        for k, m in enumerate(machines)
    ]
