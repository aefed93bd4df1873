"""Loads that meet stores, lines' and pages' ends, locks and copies."""

from __future__ import annotations

from tracekit.hardware.measure.bench import Bench, Experiment
from tracekit.hardware.measure.kernels import kernel
from tracekit.hardware.measure.library import isa, snippets
from tracekit.hardware.measure.timing import Run

__all__ = ["EXPERIMENTS"]

#: Pairs of a store and a load in one loop; `memory_renaming` is measured by 48 of them.
_PAIRS = (4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64)

#: Value -> the snippet that is a step of it.
_STEPS = {
    "indexed_load_cycles": "load_chain",
    "scaled_load_cycles": "load_chain_scaled",
    "vector_load_cycles": "vector_load_chain",
    "forward_renamed_cycles": "forward64",
    "forward_stack_cycles": "forward_stack",
    "forward_cycles": "forward_register",
    "forward_low_cycles": "forward_low",
    "forward_high_cycles": "forward_high",
    "forward_wider_cycles": "forward_wider",
    "forward_partly_cycles": "forward_partly",
    "forward_line_cycles": "forward_split",
    "forward_page_cycles": "forward_page",
    "forward_vector_cycles": "forward_vector",
    "load_chain_line_cycles": "load_chain_line",
    "load_chain_page_cycles": "load_chain_page",
    "load_line_cycles": "load_line",
    "load_page_cycles": "load_page",
    "store_line_cycles": "store_line",
    "store_page_cycles": "store_page",
    "locked_cycles": "locked",
}


def steps(bench: Bench) -> dict[str, float]:
    """Cycles of each."""
    known = snippets()
    found = {k: bench.cycles([s] * 48, 48) for k, s in _STEPS.items() if s in known}
    if isa() == "arm":  # an addition makes the address
        for name in ("load_chain_line_cycles", "load_chain_page_cycles"):
            found[name] -= 1.0
    return found | _renamed_loads(bench, 0.5 * found["forward_cycles"])


def _renamed_loads(bench: Bench, fast: float) -> dict[str, float]:
    """How many loads, each behind a store of its own to the same place, take less than ``fast``
    cycles: those whose stores the processor remembers."""
    renamed = 0
    for pairs in _PAIRS:
        if bench.cycles(["forward64"] * pairs, pairs) >= fast:
            break
        renamed = pairs
    return {"renamed_loads": float(renamed)}


def aliases(bench: Bench) -> dict[str, float]:
    """What a load pays for an older store 4 kB from it, beside one that is elsewhere."""
    both = [bench.cycles([s] * 48, 48) for s in ("alias_4k", "alias_none")]
    return {"alias_cycles": both[0] - both[1]}


def copies(bench: Bench) -> dict[str, float]:
    """x86's rep movs: its start, and bytes a cycle."""
    if "rep_movs" not in snippets():
        return {}
    k = kernel(["rep_movs"], 1, ["rep_setup"])
    times = {}
    for size in (64, 1024, 4096, 16384):
        found = bench.timer.cycles(Run(k, bench.scratch, size))
        if found is None:
            return {}
        times[size] = found
    rate = (16384 - 4096) / (times[16384] - times[4096])
    return {
        "rep_bytes": rate,
        "rep_startup": max(times[1024] - 1024 / rate, 0.0),
        "rep_64_cycles": times[64],
    }


EXPERIMENTS = (
    Experiment("forwarding", "loads that meet stores", steps, 0.05, 0.5),
    Experiment("aliases", "addresses alike", aliases, 0.1, 1.0),
    Experiment("copies", "copies of strings", copies, 0.1, 2.0),
)
