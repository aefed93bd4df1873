"""Changes of a machine: ``rob=512``, ``l2_kb*2``, ``l1d_lat-1``, ``bp=perfect``; and one step of
each parameter up and down."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tracekit.causes.names import in_order
from tracekit.errors import UsageError
from tracekit.sim import MACHINE_PARAMETERS, machine_errors
from tracekit.sim.memories import MEMORIES
from tracekit.sim.parameters import PREDICTORS, joined, suggestion

__all__ = ["HINT", "Change", "idealizations", "parse_change", "steps"]

HINT: Final = "like rob=512, l2_kb*2, l1d_lat-1, bp=perfect"
#: Most that a machine may have (csrc/sim/core_parameters.hpp).
_MOST = {p.name: p.most for p in MACHINE_PARAMETERS if p.type is int}
_CHOICES = {p.name: p.choices for p in MACHINE_PARAMETERS if p.choices}
_NAMES = tuple(p.name for p in MACHINE_PARAMETERS)
_CHANGE = re.compile(r"\s*([A-Za-z_]\w*)\s*([=*/+-])\s*(\S+)\s*")
#: Other words for a parameter's ideal value.
_PERFECT = frozenset({"perfect", "ideal", "max", "unlimited"})

#: What gem5's Minor CPU does not ask for (csrc/sim/in_order_core.cpp).
_OUT_OF_ORDER_ONLY = frozenset(
    {
        *("issue_width", "rob", "iq", "lq", "sq", "phys_int", "phys_float", "phys_vec"),
        *("fetch_buffer", "fetch_queue", "issue_to_exec", "int_alu", "int_mul", "int_mul_lat"),
        *("int_div_lat", "fp", "fp_add_lat", "fp_mul_lat", "fp_div_lat", "simd", "load_ports"),
        *("store_ports", "agu_lat", "ideal_memory_order"),
    }
)


@dataclass(frozen=True)
class Change:
    """``text`` as written; ``set``: parameter -> new value, of the machine that it was made for."""

    text: str
    set: Mapping[str, Any] = field(hash=False)
    title: str = ""

    def apply(self, machine: Mapping[str, Any]) -> dict[str, Any]:
        """The machine with the change."""
        return {**machine, **self.set}


def _most(*names: str) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    return lambda m: {n: int(_MOST[n]) for n in names if n in m}


def _one(name: str) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    return lambda _: {name: 1}


_LATENCIES = (
    *("issue_to_exec", "int_mul_lat", "int_div_lat", "fp_add_lat", "fp_mul_lat", "fp_div_lat"),
    *("agu_lat", "l1d_lat", "l1i_lat"),
)
#: name -> (meaning, what it sets, out-of-order cores only)
_IDEAL: Final[dict[str, tuple[str, Callable[[Mapping[str, Any]], dict[str, Any]], bool]]] = {
    "bp": ("no mispredicted branch", _one("ideal_branches"), False),
    "l1i": ("every fetch hits the L1I", _one("ideal_l1i"), False),
    "l1d": ("every load and store hits the L1D", _one("ideal_l1d"), False),
    "l2": ("every miss of an L1 hits the L2", _one("ideal_l2"), False),
    "memory_latency": ("memory without latency", _one("ideal_memory_latency"), False),
    "bandwidth": ("memory of unlimited bandwidth", _one("ideal_memory_bandwidth"), False),
    "memory_order": ("no memory-order squash", _one("ideal_memory_order"), True),
    "latency": (
        "units, L1I and L1D that answer in a cycle",
        lambda m: {n: 1 for n in _LATENCIES if n in m},
        True,
    ),
    "width": ("widest pipeline", _most("width", "issue_width"), False),
    "window": (
        "largest window and queues",
        _most("rob", "iq", "lq", "sq", "phys_int", "phys_float", "phys_vec"),
        True,
    ),
    "units": (
        "most units and ports",
        _most("int_alu", "int_mul", "fp", "simd", "load_ports", "store_ports"),
        True,
    ),
    "mshrs": ("most outstanding misses", _most("l1d_mshrs", "l2_mshrs"), False),
}


def idealizations(machine: Mapping[str, Any]) -> list[Change]:
    """Every idealisation that means something for the machine."""
    return [
        Change(f"{name}=perfect", make(machine), title)
        for name, (title, make, only) in _IDEAL.items()
        if not (only and in_order(machine))
    ]


def parse_change(text: str, machine: Mapping[str, Any]) -> Change:
    """``NAME=VALUE``, ``NAME*N``, ``NAME/N``, ``NAME+N``, ``NAME-N`` or ``NAME=perfect``, of one
    machine.  UsageError says what is wrong, and what to do."""
    found = _CHANGE.fullmatch(text)
    if found is None:
        raise UsageError(
            f"{text!r} is no change of a machine",
            hint="like rob=512, l2_kb*2, l1d_lat-1, bp=perfect",
        )
    name, sign, value = found.groups()
    perfect = value.lower() in _PERFECT or (name, value) == ("memory_latency", "0")
    if sign == "=" and name in _IDEAL and perfect:
        change = next((c for c in idealizations(machine) if c.text == f"{name}=perfect"), None)
        if change is None:
            raise UsageError(f"{text}: an in-order machine has none")
        return Change(text, change.set, change.title)
    if name in _IDEAL and name not in _NAMES:
        raise UsageError(f"{text}: {name} takes {name}=perfect alone")
    if name not in _NAMES or name == "name":
        known = (*_NAMES, *_IDEAL)
        raise UsageError(
            f"{text}: {name} is no parameter of a machine{suggestion(name, known)}",
            hint=f"{HINT}; perfect ones: {', '.join(_IDEAL)}",
        )
    if in_order(machine) and name in _OUT_OF_ORDER_ONLY:
        raise UsageError(f"{text}: {name} means nothing on an in-order machine; leave it out")
    return _checked(Change(text, {name: _value(text, name, sign, value, machine)}), machine)


def _value(text: str, name: str, sign: str, value: str, machine: Mapping[str, Any]) -> Any:
    if name in _CHOICES:
        if sign != "=":
            raise UsageError(f"{text}: {name} is a name; one of {', '.join(_CHOICES[name])}")
        return value
    try:
        number = float(value)
    except ValueError:
        if sign == "=" and value == "max" and name in _MOST:
            return int(_MOST[name])
        raise UsageError(f"{text}: {value!r} is no number") from None
    if sign == "=":
        return _whole(number)
    old = machine.get(name, next(p.default for p in MACHINE_PARAMETERS if p.name == name))
    if not isinstance(old, int | float):
        raise UsageError(f"{text}: the machine has no {name}; give it a value with =")
    if sign in "*/" and not 0 < number < 1e9:
        raise UsageError(f"{text}: a number above 0")
    new = {"*": old * number, "/": old / (number or 1), "+": old + number, "-": old - number}[sign]
    return _whole(new)


def _whole(number: float) -> int | float:
    return int(number) if abs(number) < 2**53 and number == int(number) else number


def _checked(change: Change, machine: Mapping[str, Any]) -> Change:
    if errors := machine_errors(change.apply(machine)):
        raise UsageError(f"{change.text} makes no machine: {joined(errors)}")
    return change


#: Counts go up and down these.
_COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
_BY_COUNT = (
    "width",
    "issue_width",
    "int_alu",
    "int_mul",
    "fp",
    "simd",
    "load_ports",
    "store_ports",
)
_BY_TWO = (
    *("rob", "iq", "lq", "sq", "phys_int", "phys_float", "phys_vec", "fetch_buffer", "fetch_queue"),
    *("btb", "ras", "l1i_kb", "l1d_kb", "l1d_mshrs", "l2_kb", "l2_mshrs", "l3_kb"),
    *("l1i_assoc", "l1d_assoc", "l2_assoc", "l3_assoc"),
)
_BY_QUARTER = (
    *("front_delay", "issue_to_exec", "int_mul_lat", "int_div_lat", "fp_add_lat", "fp_mul_lat"),
    *("fp_div_lat", "agu_lat", "l1i_lat", "l1d_lat", "l2_lat", "l3_lat"),
)
#: Names in the order of what they are good for.
_LADDERS: dict[str, tuple[str, ...]] = {
    "bp": ("LocalBP", "BiModeBP", "TournamentBP", "LTAGE", "TAGE_SC_L_8KB", "TAGE_SC_L_64KB"),
    "l1d_pf": ("none", "stride", "tagged", "bop", "ampm"),
    "l2_pf": ("none", "stride", "tagged", "bop", "ampm"),
    "mem": tuple(sorted(MEMORIES, key=lambda n: -MEMORIES[n].burst)),
}
_SAME = {
    "Local": "LocalBP",
    "BiMode": "BiModeBP",
    "Tournament": "TournamentBP",
    "TAGE": "LTAGE",
    **{n: "TAGE_SC_L_8KB" for n in PREDICTORS if n.startswith("M") and n.endswith("8KB")},
    **{n: "TAGE_SC_L_64KB" for n in PREDICTORS if n.startswith("M") and n.endswith("64KB")},
}


def _around(name: str, old: Any) -> Iterator[Any]:
    """One step down and one up."""
    if name in _BY_COUNT:
        lower = [c for c in _COUNTS if c < old]
        yield from ([lower[-1]] if lower else [])
        yield next((c for c in _COUNTS if c > old), old * 2)
    elif name in _BY_TWO:
        yield from (old // 2, old * 2)
    elif name in _BY_QUARTER:
        step = max(1, round(old / 4))
        yield from (old - step, old + step)
    elif name == "clock_ghz":
        yield from (round(old / 1.1, 4), round(old * 1.1, 4))
    elif name in _LADDERS:
        ladder = _LADDERS[name]
        at = ladder.index(_SAME.get(old, old))
        yield from ([ladder[at - 1]] if at else [])
        yield from ([ladder[at + 1]] if at + 1 < len(ladder) else [])


def steps(machine: Mapping[str, Any], arch: str = "") -> list[Change]:
    """Every parameter one step down and one up, where that makes a machine.

    Counts of units and widths go to the next of 1, 2, 3, 4, 6, 8, 12, …; sizes to half and twice;
    latencies by a quarter (at least 1); the clock by 10 %; predictors, prefetchers and memories to
    their neighbours.  ``arch``: of the trace; X86's vectors are in phys_float, others' in
    phys_vec.
    """
    unused = {"x86": {"phys_vec"}, "": set[str]()}.get(arch, {"phys_float"})
    out = []
    for p in MACHINE_PARAMETERS:
        name = p.name
        old = machine.get(name, p.default)
        if old is None or name in unused or (in_order(machine) and name in _OUT_OF_ORDER_ONLY):
            continue
        if name.startswith("l3_") and not machine.get("l3_kb"):
            continue
        for new in _around(name, old):
            change = Change(f"{name}={new}", {name: new})
            if new != old and not machine_errors(change.apply(machine)):
                out.append(change)
    return out
