"""Which instruction set and threads the engine uses: what the CPU has, or what was asked for."""

from __future__ import annotations

import os

import llvmlite.binding as llvm

from tracekit.cpus import available_cores
from tracekit.errors import UsageError

__all__ = ["DTYPES", "ISAS", "active_isa", "has", "thread_count"]

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


def thread_count(threads: int | None) -> int:
    """The number asked for, or the CPUs that this process may run on."""
    if threads is None:
        return available_cores()
    if not 1 <= threads <= 1024:
        raise UsageError(f"threads is {threads}; from 1 to 1024")
    return threads
