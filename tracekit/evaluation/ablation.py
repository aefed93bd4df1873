"""What each part of the recipe is worth: the same folds without it.

A part of the cores is taken away by giving all of them the same parameters there; a part of the fit
by leaving it out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.evaluation.unseen_families import unseen_error
from tracekit.mixture import fit
from tracekit.mixture.fit import Sums

__all__ = ["CORES", "ablate"]

F64 = npt.NDArray[np.float64]

#: Parts of the cores, and what every core gets instead of its machine's own parameters.
CORES: dict[str, dict[str, Any]] = {
    "all of the cores": {},
    "one branch predictor for all": {"bp": "Tournament", "btb": 4096},
    "no prefetchers": {"l1d_pf": "none", "l2_pf": "none"},
    "one window for all (ROB, queues, registers)": {
        "rob": 192,
        "iq": 64,
        "lq": 48,
        "sq": 48,
        "phys_int": 256,
        "phys_float": 256,
        "phys_vec": 256,
    },
    "one width and one set of units for all": {
        **dict.fromkeys(("width", "issue_width", "int_alu"), 4),
        **dict.fromkeys(("fp", "simd", "load_ports"), 2),
        **dict.fromkeys(("int_mul", "store_ports"), 1),
        "fetch_buffer": 32,
        "fetch_queue": 32,
        "front_delay": 3,
    },
    "one set of latencies for all": {
        "int_mul_lat": 3,
        "int_div_lat": 12,
        "fp_add_lat": 3,
        "fp_mul_lat": 4,
        "fp_div_lat": 12,
        "issue_to_exec": 1,
        "agu_lat": 1,
    },
    "one set of caches for all": {
        "l1i_kb": 32,
        "l1i_assoc": 4,
        "l1i_lat": 1,
        "l1d_kb": 32,
        "l1d_assoc": 4,
        "l1d_lat": 2,
        "l1d_mshrs": 8,
        "l2_kb": 512,
        "l2_assoc": 8,
        "l2_lat": 12,
        "l2_mshrs": 24,
        "l3_kb": 0,
    },
    "one memory and clock for all": {"mem": "DDR4_2400_8x8", "clock_ghz": 2.0},
}

Collect = Callable[[Sequence[Mapping[str, Any]]], list[Sums]]


def ablate(
    cores: Sequence[Mapping[str, Any]], priors: F64, collect: Collect, seed: int = 0
) -> dict[str, float]:
    """Mean error on unseen families, five folds, by what was taken away.

    ``collect`` walks the programs with the cores that it is given.
    """
    out: dict[str, float] = {}
    whole: list[Sums] = []
    for name, same in CORES.items():
        sums = collect([{**c, **{k: v for k, v in same.items() if k in c}} for c in cores])
        whole = whole or sums
        out[name] = unseen_error(sums, priors, seed)
    even = np.full(priors.shape, 1 / priors.shape[1])
    out["nothing fitted: a machine is its own core"] = float(
        np.mean([np.abs(p.x.sum(axis=0) @ priors.T / p.y.sum(axis=0) - 1) for p in whole])
    )
    out["held towards all cores alike"] = unseen_error(whole, even, seed)
    out["hardly held (strength 0.001)"] = unseen_error(whole, priors, seed, strength=0.001)
    out["totals only, no segments"] = unseen_error([fit.merged(p) for p in whole], priors, seed)
    out["entries of any sign"] = unseen_error(whole, priors, seed, solve=least_squares)
    return out


def least_squares(a: F64, b: F64) -> F64:
    """The x that makes |a x - b| least."""
    return np.asarray(np.linalg.lstsq(a, b, rcond=None)[0], np.float64)
