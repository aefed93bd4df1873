"""What the file of a real processor may say: every number with its type, range, unit and meaning,
and the check that finds all that is wrong with a machine at once.

Ranges stand in csrc/hardware/machine_parameters.hpp.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from tracekit import _core

__all__ = ["HARDWARE_PARAMETERS", "HARDWARE_PREDICTORS", "HardwareParameter", "hardware_errors"]

#: Instruction sets, as a trace names them.
ISAS = ("x86", "arm")
#: Direction predictors by name: gem5's of csrc/sim/predictors.
HARDWARE_PREDICTORS: tuple[str, ...] = _core.PREDICTORS
_RANGE = {name: (least, most) for name, least, most in _core.HARDWARE_PARAMETERS}


@dataclass(frozen=True)
class HardwareParameter:
    """One number of a machine: ``type`` int or float, from ``least`` to ``most``; ``default`` is
    None where it must be given."""

    name: str
    type: type
    unit: str
    meaning: str
    least: float
    most: float
    default: int | float | None = None


def _number(
    name: str, kind: type, unit: str, meaning: str, default: float | None = None
) -> HardwareParameter:
    return HardwareParameter(name, kind, unit, meaning, *_RANGE[name], default)


HARDWARE_PARAMETERS: tuple[HardwareParameter, ...] = (
    _number("clock_ghz", float, "GHz", "clock under load"),
    _number("fetch_bytes", int, "bytes/cycle", "of machine code that the decoders get"),
    _number("decode_width", int, "instructions/cycle", "decoded"),
    _number(
        "op_cache_ops",
        int,
        "micro-ops",
        "that the cache of decoded instructions holds; 0: there is none",
    ),
    _number("op_cache_width", int, "micro-ops/cycle", "that it delivers"),
    _number("op_cache_entry", int, "micro-ops", "in an entry of that cache", 8),
    _number(
        "op_cache_more",
        float,
        "cycles",
        "lost where a line has more entries than it delivers a cycle; 0: entries are not modelled",
        0,
    ),
    _number(
        "op_cache_entry_cycles",
        float,
        "cycles",
        "of each entry, however few micro-ops it holds; 0: several come together",
        0,
    ),
    _number(
        "next_line_cycles",
        float,
        "cycles",
        "that the branch prediction takes to go on into the next block of 64 bytes",
        0.5,
    ),
    _number("op_queue", int, "micro-ops", "between the front end and allocation"),
    _number(
        "fetch_ahead", int, "blocks of 64 bytes", "that the branch prediction runs ahead of fetch"
    ),
    _number(
        "taken_per_cycle", float, "branches/cycle", "taken ones that the front end follows", 1.0
    ),
    _number(
        "microcode_stall", int, "cycles", "that the decoders lose to a microcoded instruction", 2
    ),
    _number(
        "mispredict_penalty",
        float,
        "cycles",
        "from a wrong branch's execution to the dispatch of what follows",
    ),
    _number(
        "decode_resteer", float, "cycles", "lost to a taken branch whose target only decoding tells"
    ),
    _number("btb_l1", int, "branches", "in the branch target buffer that costs nothing"),
    _number("btb_l2", int, "branches", "in the one behind it; 0: there is none", 0),
    _number("btb_l2_penalty", float, "cycles", "lost to a branch that the second one knows", 0),
    _number("return_stack", int, "entries", "return address stack"),
    _number("indirect_entries", int, "targets", "that the predictor of indirect branches holds"),
    _number(
        "indirect_history", int, "branches", "taken, of the longest path that it tells apart", 54
    ),
    _number(
        "indirect_penalty",
        float,
        "cycles",
        "lost to an indirect branch or a return that is predicted",
        0,
    ),
    _number(
        "indirect_cycles",
        float,
        "cycles",
        "that the prediction of an indirect branch takes which had several targets",
        0,
    ),
    _number("return_penalty", float, "cycles", "lost to a return that is predicted", 0),
    _number("width", int, "micro-ops/cycle", "allocated"),
    _number("retire_width", int, "micro-ops/cycle", "retired"),
    _number("rob", int, "micro-ops", "reorder buffer"),
    _number("load_queue", int, "loads", "in flight"),
    _number("store_queue", int, "stores", "from allocation until they are written"),
    _number("int_registers", int, "results", "of general registers in flight"),
    _number("vector_registers", int, "results", "of vector registers in flight"),
    _number(
        "wakeup_cycles",
        float,
        "cycles",
        "of its port that an operation loses which waits for one that waited for none",
        0,
    ),
    _number(
        "add_forward",
        float,
        "cycles",
        "less from a floating-point addition to another than to anything else",
        0,
    ),
    _number("store_commits", int, "stores/cycle", "written to lines that are being written", 1),
    _number("store_lines", int, "lines", "being written at a time", 1),
    _number("store_block", int, "bytes", "of a line, to which stores are written at a time", 64),
    _number(
        "load_latency", float, "cycles", "from a general register's address to the loaded value"
    ),
    _number("vector_load_latency", float, "cycles", "the same into a vector register"),
    _number("indexed_latency", float, "cycles", "more, where the address has an index", 0),
    _number("scaled_latency", float, "cycles", "more, where its index is multiplied", 0),
    _number("forward_latency", float, "cycles", "from a store to a load of the same bytes"),
    _number("vector_forward_latency", float, "cycles", "the same for vectors"),
    _number(
        "forward_fail",
        float,
        "cycles",
        "more than a load's latency after the store is written, where it cannot be forwarded",
    ),
    _number(
        "memory_renaming",
        int,
        "0 to 2",
        "a load takes the register of a store: 0 never, 1 relative to the stack, 2 to any base",
        0,
    ),
    _number("rename_stores", int, "stores", "of the last, whose registers loads take", 16),
    _number(
        "rename_loads",
        int,
        "loads",
        "besides, whose store is known by how many stores ago it was; 0: none",
        0,
    ),
    _number(
        "order_clear", float, "cycles", "lost when a load ran before an older store to its address"
    ),
    _number("line_split", float, "cycles", "more for a load across two lines", 1),
    _number("page_split", float, "cycles", "more for one across two pages"),
    _number(
        "store_split",
        float,
        "cycles",
        "that a store across two lines keeps the data cache's port",
        1,
    ),
    _number(
        "alias_penalty",
        float,
        "cycles",
        "more for a load that shares its address's low 12 bits with an older store in flight",
        0,
    ),
    _number("rep_bytes", float, "bytes/cycle", "that rep movs and rep stos move", 32),
    _number("rep_startup", float, "cycles", "that they take besides", 20),
    _number(
        "locked_latency",
        float,
        "cycles",
        "of a locked instruction, whose older stores are written",
        18,
    ),
    _number("l1i_kb", int, "kB", "instruction cache"),
    _number("l1i_ways", int, "ways", "of the instruction cache"),
    _number("l1d_kb", int, "kB", "data cache"),
    _number("l1d_ways", int, "ways", "of the data cache"),
    _number("l1d_misses", int, "lines", "that the data cache waits for at a time"),
    _number("l2_kb", int, "kB", "second cache"),
    _number("l2_ways", int, "ways", "of the second cache"),
    _number("l2_latency", float, "cycles", "of a load that hits it"),
    _number("l2_bytes", float, "bytes/cycle", "from it to the first caches"),
    _number("l2_misses", int, "lines", "that it waits for at a time"),
    _number("l3_kb", int, "kB", "third cache; 0: there is none"),
    _number("l3_ways", int, "ways", "of the third cache", 16),
    _number("l3_latency", float, "cycles", "of a load that hits it", 50),
    _number("l3_bytes", float, "bytes/cycle", "from it to the second one", 16),
    _number(
        "l3_victim", int, "0 or 1", "it takes what leaves the second cache, and nothing else", 0
    ),
    _number("memory_ns", float, "ns", "of a load from memory, TLB misses apart"),
    _number("memory_gb_s", float, "GB/s", "from memory to one core"),
    _number("itlb", int, "pages", "first TLB of instructions", 64),
    _number("dtlb", int, "pages", "first TLB of data"),
    _number("tlb_l2", int, "pages", "second TLB; 0: there is none"),
    _number("tlb_l2_latency", float, "cycles", "more for a page that the second TLB knows"),
    _number(
        "page_walk",
        float,
        "cycles",
        "more for one that no TLB knows; its entry is in the second cache",
    ),
    _number("page_walkers", int, "walks", "at a time", 1),
    _number("page_kb", int, "kB", "a page", 4),
    _number("l1_next_line", int, "lines", "that a miss of the data cache brings besides", 0),
    _number("l1_stream", int, "lines", "that streams of misses are ahead, in the data cache", 0),
    _number(
        "l1_stride", int, "accesses", "that an instruction's steps are ahead, in the data cache", 0
    ),
    _number(
        "l1_region",
        int,
        "0 or 1",
        "a region's first access brings the lines that were used of it last time",
        0,
    ),
    _number("l2_next_line", int, "lines", "that a miss of the second cache brings besides", 0),
    _number("l2_stream", int, "lines", "that streams of misses are ahead, in the second cache", 0),
    _number("prefetch_page_cross", int, "0 or 1", "prefetchers go on behind the end of a page", 0),
)
_BY_NAME = {p.name: p for p in HARDWARE_PARAMETERS}
#: What a file has beside the numbers.
_OTHERS = (
    *("kind", "name", "cpu", "isa", "table", "predictor", "schedulers", "measured"),
    *("calibration", "fitted", "checked", "sources", "notes"),
)
_REQUIRED = ("name", "isa", "table", "predictor", "schedulers")


def hardware_errors(machine: Mapping[str, Any]) -> list[str]:
    """All that is wrong with a machine's JSON object, a text each; none of a good one."""
    errors = []
    known = {*_BY_NAME, *_OTHERS}
    for key in machine:
        if key not in known:
            near = difflib.get_close_matches(str(key), sorted(known), 1)
            errors.append(
                f"{_short(key)[1:-1]} is no parameter{f'; did you mean {near[0]}?' if near else ''}"
            )
    if machine.get("kind", "hardware") != "hardware":
        errors.append(f'kind is {_short(machine["kind"])}; "hardware"')
    missing = [n for n in _REQUIRED if n not in machine]
    missing += [p.name for p in HARDWARE_PARAMETERS if p.default is None and p.name not in machine]
    if missing:
        errors.append(f"missing: {', '.join(missing)}")
    for key, value in machine.items():
        if key in _BY_NAME and (error := _number_error(_BY_NAME[key], value)):
            errors.append(error)
    more, each = (machine.get(f"op_cache_{k}", 0) for k in ("more", "entry_cycles"))
    if not errors and more and each:
        errors.append(
            "op_cache_more and op_cache_entry_cycles: what entries take is one or the other"
        )
    return errors + _text_errors(machine)


def _number_error(p: HardwareParameter, value: object) -> str:
    kind = "a whole number" if p.type is int else "a number"
    whole = isinstance(value, Integral) or (isinstance(value, float) and value.is_integer())
    if not _is_number(value, p.least, p.most) or (p.type is int and not whole):
        return f"{p.name} is {_short(value)}; {kind} from {p.least:g} to {p.most:g}"
    return ""


def _is_number(value: Any, least: float, most: float) -> bool:
    """Also of whole numbers that no float holds, and of no number at all."""
    number = isinstance(value, Real) and not isinstance(value, bool)  # NumPy's, too
    return number and bool(least <= value <= most)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _text_errors(machine: Mapping[str, Any]) -> list[str]:
    errors = [
        f"{key} is {_short(machine[key])}; a text that can be printed"
        for key in ("name", "cpu", "table", "sources")
        if key in machine and not (isinstance(machine[key], str) and machine[key].isprintable())
    ]
    for key, choices in (("isa", ISAS), ("predictor", HARDWARE_PREDICTORS)):
        if key in machine and machine[key] not in choices:
            errors.append(f"{key} is {_short(machine[key])}; one of {', '.join(choices)}")
    notes = machine.get("notes", ())
    if isinstance(notes, str) or not _all(notes, str):
        errors.append("notes: a list of texts")
    if "schedulers" in machine:
        errors += _scheduler_errors(machine["schedulers"])
    measured = machine.get("measured", {})
    if not isinstance(measured, Mapping):
        errors.append("measured: an object of forms")
    else:
        errors += [e for form, m in measured.items() if (e := _measured_error(str(form), m))]
    for key in ("calibration", "checked"):
        if machine.get(key) is not None and not isinstance(machine[key], Mapping):
            errors.append(f"{key}: an object, or null")
    checked = machine.get("checked")
    mean = checked.get("mean", 0.0) if isinstance(checked, Mapping) else 0.0
    if not _is_number(mean, 0.0, math.inf):
        errors.append(f"checked.mean is {_short(mean)}; a share")
    if machine.get("fitted") is not None and not _is_fit(machine["fitted"]):
        errors.append("fitted: an object with a factor from 0.5 to 2, or null")
    return errors


def _is_fit(value: object) -> bool:
    factor = value.get("factor") if isinstance(value, Mapping) else None
    return not isinstance(factor, bool) and isinstance(factor, int | float) and 0.5 <= factor <= 2


def _all(values: object, kind: type) -> bool:
    return isinstance(values, Sequence) and all(isinstance(v, kind) for v in values)


def _scheduler_errors(schedulers: object) -> list[str]:
    if not isinstance(schedulers, Sequence) or isinstance(schedulers, str) or not schedulers:
        return ["schedulers: a list of at least one"]
    if len(schedulers) > _core.MOST_SCHEDULERS:
        return [f"schedulers: {len(schedulers)} of them; at most {_core.MOST_SCHEDULERS}"]
    errors = []
    for k, s in enumerate(schedulers):
        if not isinstance(s, Mapping) or set(s) != {"entries", "ports"}:
            errors.append(f'schedulers[{k}]: an object of "entries" and "ports"')
            continue
        entries = s["entries"]
        if isinstance(entries, bool) or not isinstance(entries, int) or not 1 <= entries <= 4096:
            errors.append(f"schedulers[{k}].entries is {_short(entries)}; from 1 to 4096")
        if isinstance(s["ports"], str) or not _all(s["ports"], str) or not s["ports"]:
            errors.append(f"schedulers[{k}].ports: a list of names")
    return errors


def _measured_error(form: str, m: object) -> str:
    """Of one form's latency and reciprocal throughput, cycles; null where one did not settle."""
    if not isinstance(m, Mapping) or not set(m) <= {"latency", "throughput"}:
        return f'measured[{_short(form)}]: an object of "latency" and "throughput"'
    for key, value in m.items():
        if value is None:
            continue
        if not _is_number(value, 0.0, 100_000.0):
            return f"measured[{_short(form)}].{key} is {_short(value)}; cycles from 0 to 100000"
    return ""
