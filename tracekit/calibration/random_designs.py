"""Simulated cores with parameters at random, where a machine's own are not known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tracekit.errors import UsageError
from tracekit.sim import core_row

__all__ = ["GRID", "RANDOM_DESIGNS", "possible", "random_designs"]

#: Cores that are drawn where a machine's parameters are not known.
RANDOM_DESIGNS = 128
#: What is drawn, from which values; ``_SIZES`` are large together.
GRID: dict[str, tuple[Any, ...]] = {
    "width": (1, 2, 3, 4, 5, 6, 8),
    "rob": (16, 32, 64, 96, 128, 192, 256, 384, 512),
    "iq": (8, 16, 32, 48, 64, 96, 160),
    "lq": (8, 16, 24, 32, 48, 72, 128),
    "sq": (8, 12, 16, 24, 32, 48, 64, 128),
    "fetch_buffer": (16, 32, 64),
    "fetch_queue": (8, 16, 32, 48),
    "front_delay": (1, 2, 3, 4, 5),
    "issue_to_exec": (1, 2),
    "int_alu": (1, 2, 3, 4, 6, 8),
    "int_mul": (1, 2),
    "int_mul_lat": (2, 3, 4),
    "int_div_lat": (8, 12, 20, 30),
    "fp": (1, 2, 3, 4, 5),
    "fp_add_lat": (2, 3, 4, 5),
    "fp_mul_lat": (3, 4, 5),
    "fp_div_lat": (9, 12, 20),
    "simd": (1, 2, 3, 4, 5),
    "load_ports": (1, 2, 3),
    "store_ports": (1, 2),
    "bp": (
        "Local",
        "Tournament",
        "BiMode",
        "TAGE",
        "LTAGE",
        "TAGE_SC_L_8KB",
        "TAGE_SC_L_64KB",
        "MPP_8KB",
    ),
    "btb": (512, 1024, 4096, 8192),
    "l1i_kb": (8, 16, 32, 64),
    "l1i_lat": (1, 2, 3),
    "l1d_kb": (4, 8, 16, 32, 64, 128),
    "l1d_lat": (1, 2, 3, 4, 5),
    "l1d_mshrs": (4, 8, 16, 24),
    "l1d_pf": ("none", "stride", "tagged"),
    "l2_kb": (128, 256, 512, 1024, 2048, 4096),
    "l2_lat": (8, 12, 16, 20),
    "l2_pf": ("none", "stride", "ampm"),
    "l3_kb": (0, 4096, 16384),
    "l3_lat": (25, 35, 45),
    "clock_ghz": (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0),
    "mem": (
        "DDR3_1600_8x8",
        "DDR4_2400_8x8",
        "DDR5_6400_4x8",
        "LPDDR3_1600_1x32",
        "HBM_2000_4H_1x64",
    ),
    "l1i_assoc": (2, 4, 8),
    "l1d_assoc": (2, 4, 8),
    "l2_assoc": (4, 8, 16),
    "l2_mshrs": (12, 20, 32),
}

_SIZES = frozenset(
    [
        "width",
        "rob",
        "iq",
        "lq",
        "sq",
        "int_alu",
        "fp",
        "simd",
        "load_ports",
        "store_ports",
        "fetch_queue",
    ]
)


def random_designs(
    base: Sequence[Mapping[str, Any]], count: int = RANDOM_DESIGNS, seed: int = 0
) -> list[dict[str, Any]]:
    """Cores with parameters at random: what makes a machine wide or narrow goes together, the rest
    is independent; what is not drawn is one of ``base``'s."""
    random = np.random.default_rng(seed)
    out: list[dict[str, Any]] = []
    for _ in range(100 * count):
        core = dict(base[int(random.integers(len(base)))])
        scale = random.uniform()
        for key, values in GRID.items():
            at = random.uniform()
            if key in _SIZES:
                at = min(max(scale + random.normal(0, 0.18), 0.0), 0.999)
            core[key] = values[int(at * len(values))]
        core["issue_width"] = core["width"]
        core |= dict.fromkeys(("phys_int", "phys_float", "phys_vec"), 64 + core["rob"])
        core["name"] = f"random{len(out)}"
        if possible(core):
            out.append(core)
        if len(out) == count:
            break
    return out


def possible(machine: Mapping[str, Any]) -> bool:
    """Whether there is a simulated core with these parameters."""
    try:
        core_row(machine)
    except UsageError:
        return False
    return True
