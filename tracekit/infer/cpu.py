"""Which instruction set and threads the engine uses: what the CPU has, or what was asked for."""

from __future__ import annotations

import os

import llvmlite.binding as llvm

from tracekit.errors import UsageError

__all__ = ["DTYPES", "ISAS", "active_isa", "has"]

ISAS = ("portable", "avx2", "avx512")  # in order of width, as in csrc/core/cpu.hpp
DTYPES = ("f32", "bf16", "int8")
NEEDS = {
    "portable": (),
    "avx2": ("avx2", "bmi2", "fma"),
    "avx512": ("avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512cd"),
}


def has(feature: str) -> bool:
    """Whether this CPU has the feature, by LLVM's name for it."""
    return bool(llvm.get_host_cpu_features().get(feature, False))


def active_isa() -> str:
    """The widest set that the CPU has, or the one that TRACEKIT_ISA names; raises UsageError."""
    best = 0
    while best + 1 < len(ISAS) and all(map(has, NEEDS[ISAS[best + 1]])):
        best += 1
    forced = os.environ.get("TRACEKIT_ISA")
    if not forced:
        return ISAS[best]
    if forced not in ISAS:
        raise UsageError(f"TRACEKIT_ISA={forced}: not one of {', '.join(ISAS)}")
    if ISAS.index(forced) > best:
        raise UsageError(f"TRACEKIT_ISA={forced}: this CPU has no {forced}")
    return forced
