"""Fetch, decoding and allocation: how many instructions a cycle, from where."""

from __future__ import annotations

import numpy as np

from tracekit.hardware.measure.bench import Bench, Experiment, family, first_above
from tracekit.hardware.measure.kernels import kernel
from tracekit.hardware.measure.library import snippets
from tracekit.hardware.measure.timing import Run

__all__ = ["EXPERIMENTS"]


def width(bench: Bench) -> dict[str, float]:
    """Instructions a cycle, of several kinds and of mixtures."""
    found = {}
    for name in ("int", "result", "compare", "move", "multiply", "vector", "load", "vector_load"):
        found[f"{name}_per_cycle"] = 1 / bench.cycles(family(name, 240), 240)
    found["store_per_cycle"] = 1 / bench.cycles(family("store", 240), 240)
    found["nop_per_cycle"] = 1 / bench.cycles(["nop"] * 240, 240)
    mixed = [
        n
        for k in range(30)
        for n in (
            *(f"result{2 * k % 8}", f"vector{2 * k % 8}", f"result{(2 * k + 1) % 8}"),
            *(f"vector_load{k % 4}", f"result{(2 * k + 4) % 8}", f"vector{(2 * k + 1) % 8}"),
            *(f"result{(2 * k + 5) % 8}", f"store{k % 4}"),
        )
    ]
    found["mixed_per_cycle"] = 1 / bench.cycles(mixed, len(mixed))
    found["move_chain_cycles"] = bench.cycles(["chain_move"] * 120, 240)
    return found


def code_size(bench: Bench) -> dict[str, float]:
    """Where instructions of four bytes come from: a cache of decoded ones, decoders, caches."""
    length = len(snippets()["wide_nop"])

    def time(count: int) -> float:
        k = kernel(["wide_nop"] * count, count)
        return bench.timer.cycles(Run(k), 5, 60_000.0) or np.nan

    fast = time(1024)
    found = {"wide_nop_per_cycle": 1 / fast}
    l1i = time(28 * 1024 // length)
    l2 = time(6 * (int(bench.found["l1d_kb"]) << 10) // length)
    if l1i > 1.15 * fast:
        held = first_above(time, [2**k for k in range(7, 14)], (fast + l1i) / 2, step=64)
        if held is not None:
            found["op_cache_ops"] = held
        found["decode_per_cycle"] = 1 / l1i
    found["l2_code_per_cycle"] = 1 / l2
    return found


EXPERIMENTS = (
    Experiment("width", "width", width, 0.04, 0.1),
    Experiment("code size", "cache of decoded instructions", code_size, 0.12, 0.2),
)
