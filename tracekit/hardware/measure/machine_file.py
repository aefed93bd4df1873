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
#: Entries of csrc/hardware/indirect_predictor.hpp for each jump of an order that the processor
#: knows half of (`branches.indirect`): with so many the core knows half of it, too, and of orders
#: of other lengths what a Zen 4 knows (bench/hardware/structures.py).
_ENTRIES = 3
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
    _put(out, found, "indirect_history", "indirect_history")
    _put(out, found, "forward_latency", "forward_cycles")
    _put(out, found, "vector_forward_latency", "forward_vector_cycles")
    _put(out, found, "locked_latency", "locked_cycles")
    _put(out, found, "rep_bytes", "rep_bytes")
    _put(out, found, "rep_startup", "rep_startup")
    _put(out, found, "l2_bytes", "l2_read_bytes")
    _put(out, found, "l3_bytes", "l3_read_bytes")
    _put(out, found, "l1d_misses", "memory_misses")
    _put(out, found, "store_split", "store_line_cycles")
    _put(out, found, "mispredict_penalty", "mispredict_cycles")
    _derived(out, found, ns_per_cycle)
    return {k: _fitting(k, v) for k, v in out.items()}


def _put(out: dict[str, float], found: Mapping[str, float], name: str, key: str) -> None:
    if key in found:
        out[name] = found[key]


# `alias_cycles` is no parameter: Zen 5 loses them in dense chains of aliases alone.
# Streams of vectors 4 kB apart run at full speed, and one alias in forty cycles costs two.
def _derived(out: dict[str, float], found: Mapping[str, float], ns_per_cycle: float) -> None:
    def both(*keys: str) -> bool:
        return all(k in found for k in keys)

    if both("indexed_load_cycles", "load_latency"):
        out["indexed_latency"] = max(0.0, found["indexed_load_cycles"] - found["load_latency"])
    if both("scaled_load_cycles", "indexed_load_cycles"):
        more = found["scaled_load_cycles"] - found["indexed_load_cycles"]
        out["scaled_latency"] = max(0.0, round(more, 1))
    if both("call_return_cycles", "taken_cycles"):
        out["return_penalty"] = max(0.0, found["call_return_cycles"] - 2 * found["taken_cycles"])
    if both("indirect_cycles", "taken_cycles"):  # beside a jump and the loop's own branch
        out["indirect_cycles"] = max(0.0, found["indirect_cycles"] - 2 * found["taken_cycles"])
        # what was never forgotten needs all that there may be
        out["indirect_entries"] = _ENTRIES * found.get("indirect_period", float("inf"))
    if both("pair_cycles", "result_per_cycle"):  # of the ports that independent ones take
        lost = found["pair_cycles"] * found["result_per_cycle"] - 2
        out["wakeup_cycles"] = lost if lost > 0.2 else 0.0
    if both("float_add_cycles", "float_multiply_cycles", "float_both_cycles"):
        apart = found["float_add_cycles"] + found["float_multiply_cycles"]
        out["add_forward"] = max(0.0, float(round(found["float_both_cycles"] - apart)))
    if both("forward_wider_cycles", "load_latency"):  # three cycles until the store is written
        out["forward_fail"] = max(0.0, found["forward_wider_cycles"] - found["load_latency"] - 3)
    if both("forward_renamed_cycles", "forward_cycles"):
        fast = 0.5 * found["forward_cycles"]
        stack = found.get("forward_stack_cycles", fast) < fast
        out["memory_renaming"] = 2 if found["forward_renamed_cycles"] < fast else int(stack)
        if out["memory_renaming"] < 2:  # else every load of these is renamed by its address
            _put(out, found, "rename_loads", "renamed_loads")
    if both("load_chain_line_cycles", "load_latency"):
        out["line_split"] = max(0.0, found["load_chain_line_cycles"] - found["load_latency"])
    if both("load_chain_page_cycles", "load_latency"):
        out["page_split"] = max(0.0, found["load_chain_page_cycles"] - found["load_latency"])
    if "taken_cycles" in found:
        out["taken_per_cycle"] = 1 / found["taken_cycles"]
    if "memory_cycles" in found:
        out["memory_ns"] = found["memory_cycles"] * ns_per_cycle
    if "memory_read_bytes" in found:
        out["memory_gb_s"] = found["memory_read_bytes"] / ns_per_cycle
    if both("memory_read_bytes", "memory_cycles", "memory_misses"):
        ahead = found["memory_read_bytes"] * found["memory_cycles"] / 64
        out["l2_misses"] = max(ahead, found["memory_misses"])
    if both("nop_per_cycle", "mixed_per_cycle"):
        nops, mixed = found["nop_per_cycle"], found["mixed_per_cycle"]
        # where twice as many instructions that do nothing are allocated, two of them are one slot
        out["width"] = round(max(mixed, nops / 2 if nops > 1.8 * mixed else nops))
    if found.get("line_step_cycles") == 0:
        out["op_cache_more"] = 0.0
    elif both("line_together", "line_more_cycles"):  # two entries a cycle, and the further ones
        out["op_cache_width"] = found["line_together"]
        out["op_cache_entry"] = found["line_together"] // 2
        out["op_cache_more"] = max(0.1, found["line_more_cycles"] - 2)
    if both("entered_cycles", "entered_two_cycles"):
        more = found["entered_two_cycles"] - found["entered_cycles"]
        out["next_line_cycles"] = max(0.0, more)
    if out.get("op_cache_more"):
        out["op_cache_entry_cycles"] = 0.0
    elif both("entry_together", "entry_more_cycles"):  # two entries, one behind the other
        out["op_cache_entry"] = found["entry_together"]
        out["op_cache_entry_cycles"] = found["entry_more_cycles"] / 2
    if "decode_per_cycle" in found:
        out["decode_width"] = round(found["decode_per_cycle"])
    if both("store_per_cycle", "store_near_per_cycle", "store_half_per_cycle"):
        near, half = found["store_near_per_cycle"], found["store_half_per_cycle"]
        out["store_commits"] = max(1, round(max(found["store_per_cycle"], near)))
        out["store_block"] = 32 if half < 0.75 * near else 64
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
    """The schedulers of ``base`` with the entries that were measured, which several of one kind
    share."""
    keys = [_waiting(s.ports[0]) for s in base.schedulers]
    out = []
    for s, key in zip(base.schedulers, keys, strict=True):
        entries = s.entries
        if key in found:
            entries = round((found[key] + _BESIDES * (key == "waiting_add")) / keys.count(key))
        out.append({"entries": max(1, entries), "ports": list(s.ports)})
    return out


def _waiting(port: str) -> str:
    """The experiment that tells how many micro-ops wait for it, or nothing."""
    return next((key for pattern, key in _WAITING if re.match(pattern, port)), "")


def measured_forms(times: FormTimes) -> dict[str, dict[str, float]]:
    """Forms as a machine's file has them: what did not settle is left out."""
    return {
        form: {k: v for k, v in m.items() if v is not None} for form, m in times.to_dict().items()
    }
