"""What was measured as the parameters of a real processor's machine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tracekit.hardware.machine import HardwareMachine
from tracekit.hardware.measure.forms import FormTimes
from tracekit.hardware.parameters import HARDWARE_PARAMETERS

__all__ = ["parameters_of", "schedulers_of"]

#: What waits in a scheduler, by the names of its first port.
_WAITING = (
    (r"alu|p0$|p0\*|s\d|s\*", "waiting_add"),
    (r"agu|p2|ld|l\*|l\d", "waiting_load"),
    (r"fp|v", "waiting_vector"),
    (r"b\*|b\d|br", "waiting_branch"),
)
#: Cycles of `branches.mispredictions`' kernel that are no penalty: its shift, and what lies between
#: the dispatch of what follows and its execution.
_LOOP = 3.5
#: What stands between the two misses besides the instructions that wait.
_BESIDES = 2


def parameters_of(found: Mapping[str, float], ns_per_cycle: float) -> dict[str, float]:
    """Parameters of a `HardwareMachine` from experiments' values; those that were not measured are
    missing."""
    out: dict[str, float] = {"clock_ghz": round(1 / ns_per_cycle, 3)}
    for name in (
        "l1d_kb",
        "l2_kb",
        "dtlb",
        "tlb_l2",
        "rob",
        "btb_l1",
        "return_stack",
        "op_cache_ops",
    ):
        _put(out, found, name, name)
    for name in ("int_registers", "vector_registers", "load_queue", "store_queue", "l3_kb"):
        _put(out, found, name, name)
    for name in ("load_latency", "l2_latency", "l3_latency", "tlb_l2_latency", "page_walk"):
        _put(out, found, name, name)
    _put(out, found, "btb_l2_penalty", "btb_l2_penalty")
    _put(out, found, "forward_latency", "forward_cycles")
    _put(out, found, "vector_forward_latency", "forward_vector_cycles")
    _put(out, found, "locked_latency", "locked_cycles")
    _put(out, found, "rep_bytes", "rep_bytes")
    _put(out, found, "rep_startup", "rep_startup")
    _put(out, found, "l2_bytes", "l2_read_bytes")
    _put(out, found, "l3_bytes", "l3_read_bytes")
    _put(out, found, "l1d_misses", "memory_misses")
    _put(out, found, "store_split", "store_line_cycles")
    _derived(out, found, ns_per_cycle)
    return {k: _fitting(k, v) for k, v in out.items()}


def _put(out: dict[str, float], found: Mapping[str, float], name: str, key: str) -> None:
    if key in found:
        out[name] = found[key]


def _derived(out: dict[str, float], found: Mapping[str, float], ns_per_cycle: float) -> None:
    def both(*keys: str) -> bool:
        return all(k in found for k in keys)

    if both("indexed_load_cycles", "load_latency"):
        out["indexed_latency"] = max(0.0, found["indexed_load_cycles"] - found["load_latency"])
    if both("forward_wider_cycles", "load_latency"):  # three cycles until the store is written
        out["forward_fail"] = max(0.0, found["forward_wider_cycles"] - found["load_latency"] - 3)
    if both("forward_renamed_cycles", "forward_cycles"):
        renamed = found["forward_renamed_cycles"] < 0.5 * found["forward_cycles"]
        out["memory_renaming"] = 2 if renamed else 0
    if both("load_chain_line_cycles", "load_latency"):
        out["line_split"] = max(0.0, found["load_chain_line_cycles"] - found["load_latency"])
    if both("load_chain_page_cycles", "load_latency"):
        out["page_split"] = max(0.0, found["load_chain_page_cycles"] - found["load_latency"])
    if both("alias_cycles", "load_latency"):
        out["alias_penalty"] = max(0.0, found["alias_cycles"] - found["load_latency"])
    if "taken_cycles" in found:
        out["taken_per_cycle"] = 1 / found["taken_cycles"]
    if "mispredict_cycles" in found:
        out["mispredict_penalty"] = found["mispredict_cycles"] - _LOOP
    if "memory_cycles" in found:
        out["memory_ns"] = found["memory_cycles"] * ns_per_cycle
    if "memory_read_bytes" in found:
        out["memory_gb_s"] = found["memory_read_bytes"] / ns_per_cycle
    if both("memory_read_bytes", "memory_cycles", "memory_misses"):
        ahead = found["memory_read_bytes"] * found["memory_cycles"] / 64
        out["l2_misses"] = max(ahead, found["memory_misses"])
    widths = [found[k] for k in ("nop_per_cycle", "mixed_per_cycle") if k in found]
    if widths:
        out["width"] = out["retire_width"] = round(max(widths))
    if "decode_per_cycle" in found:
        out["decode_width"] = round(found["decode_per_cycle"])
    if both("store_per_cycle"):
        out["store_commits"] = max(1, round(found["store_per_cycle"]))
    if found.get("l3_there") == 0:
        out["l3_kb"] = 0


def _fitting(name: str, value: float) -> float:
    """A parameter within its range; whole where it is whole, latencies to tenths."""
    (p,) = (p for p in HARDWARE_PARAMETERS if p.name == name)
    value = min(max(value, p.least), p.most)
    if p.type is int:
        return round(value)
    near = round(value)
    if name != "clock_ghz" and abs(value - near) <= 0.1:
        return float(near)
    return round(value, 3 if name == "clock_ghz" else 1)


def schedulers_of(base: HardwareMachine, found: Mapping[str, float]) -> list[dict[str, Any]]:
    """The schedulers of ``base`` with the entries that were measured."""
    out = []
    for s in base.schedulers:
        entries = s.entries
        for pattern, key in _WAITING:
            if re.match(pattern, s.ports[0]) and key in found:
                entries = round(found[key]) + _BESIDES * (key == "waiting_add")
                break
        out.append({"entries": entries, "ports": list(s.ports)})
    return out


def measured_forms(times: FormTimes) -> dict[str, dict[str, float]]:
    """Forms as a machine's file has them: what did not settle is left out."""
    return {
        form: {k: v for k, v in m.items() if v is not None} for form, m in times.to_dict().items()
    }
