"""The causes of cycles by name, and which of them a machine can have.

The list itself, in the order that breaks ties, is TRACEKIT_CAUSES of csrc/sim/cause.hpp.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tracekit import _core

__all__ = ["CAUSES", "GROUPS", "GROUP_TITLES", "TITLES", "in_order", "modelled"]

CAUSES: Final = tuple(name for name, _ in _core.CAUSES)
"""Every cause, ``base`` first; the last axis of all stacks."""
GROUPS: Final = dict(_core.CAUSES)
"""Cause -> its top-down group."""

GROUP_TITLES: Final = {
    "retiring": "retiring",
    "bad_speculation": "bad speculation",
    "front_end": "front end",
    "back_end_core": "back end: core",
    "back_end_memory": "back end: memory",
}
#: What people read; written so that "N % of the time went to …" is a sentence.
TITLES: Final = {
    "base": "width alone (base)",
    "front_end_width": "fetch and decode width",
    "icache_l1": "instruction cache hits",
    "icache_l2": "instruction fetches from the L2",
    "icache_l3": "instruction fetches from the L3",
    "icache_memory": "instruction fetches from memory",
    "resteer_decode": "branches found at decode (BTB misses)",
    "mispredict_direction": "mispredicted branch directions",
    "mispredict_target": "mispredicted jump targets",
    "mispredict_return": "mispredicted returns",
    "rob_full": "a full reorder buffer",
    "scheduler_full": "a full scheduler",
    "load_queue_full": "a full load queue",
    "store_queue_full": "a full store queue",
    "registers_full": "physical registers that ran out",
    "unit_busy": "busy ports and units",
    "integer": "chains of integer operations",
    "multiply": "integer multiplications",
    "divide": "integer divisions",
    "floating_point": "floating-point and vector operations",
    "load_l1": "loads that hit the L1D",
    "load_forward": "loads that wait for older stores' data",
    "load_l2": "loads from the L2",
    "load_l3": "loads from the L3",
    "load_memory_latency": "loads from memory: latency",
    "load_memory_queue": "loads from memory: bandwidth and queues",
    "mshr_full": "misses beyond the MSHRs",
    "store_drain": "stores on their way to the cache",
    "store_miss": "stores that miss the L1D",
    "memory_dependence": "loads held behind predicted stores",
    "memory_order_squash": "memory-order squashes",
    "serialization": "serializing instructions",
    "barrier": "memory barriers",
    "fault": "faults",
}

#: What Minor's pipeline does not have (csrc/sim/in_order_core.cpp).
_OUT_OF_ORDER_ONLY = frozenset(
    {
        *(
            "rob_full",
            "scheduler_full",
            "load_queue_full",
            "registers_full",
            "store_drain",
            "store_miss",
        ),
        *("memory_dependence", "memory_order_squash", "fault"),
    }
)
_L3 = frozenset({"icache_l3", "load_l3"})
_BRANCHES = frozenset({n for n in CAUSES if n.startswith("mispredict_")} | {"resteer_decode"})
_BELOW_L1I = frozenset({"icache_l2", "icache_l3", "icache_memory"})
_BELOW_L1D = frozenset(
    {"load_l2", "load_l3", "load_memory_latency", "load_memory_queue", "mshr_full", "store_miss"}
)
_BELOW_L2 = frozenset({*_L3, "icache_memory", "load_memory_latency", "load_memory_queue"})


def in_order(machine: Mapping[str, Any]) -> bool:
    """Whether it is of gem5's Minor kind."""
    return machine.get("cpu") == "minor"


def modelled(machine: Mapping[str, Any]) -> npt.NDArray[np.bool_]:
    """Whether the machine can have each of `CAUSES`: bool[len(CAUSES)].  Other rows of a stack are
    left out, and always 0."""
    missing: set[str] = set()
    if in_order(machine):
        missing |= _OUT_OF_ORDER_ONLY
    if not machine.get("l3_kb"):
        missing |= _L3
    for parameter, causes in (
        ("ideal_branches", _BRANCHES),
        ("ideal_l1i", _BELOW_L1I),
        ("ideal_l1d", _BELOW_L1D),
        ("ideal_l2", _BELOW_L2),
        ("ideal_memory_order", frozenset({"memory_order_squash"})),
    ):
        if machine.get(parameter):
            missing |= causes
    return np.array([c not in missing for c in CAUSES])
