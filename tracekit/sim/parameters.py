"""What a machine's JSON may say: every parameter with its type, range, unit, meaning and gem5's
name, and the check that finds all that is wrong with a machine at once.

Ranges of the numbers that a simulated core takes as they are stand in
csrc/sim/core_parameters.hpp.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

from tracekit import _core
from tracekit.sim import plugins
from tracekit.sim.memories import MEMORIES
from tracekit.sim.named_registers import too_few

__all__ = ["MACHINE_PARAMETERS", "Parameter", "machine_errors", "machine_notes", "value_error"]

#: Bytes of a cache line.
LINE = 64
#: Errors that one message shows.
_SHOWN = 60


@dataclass(frozen=True)
class Parameter:
    """One parameter of a machine.

    ``type``: int, float or str; numbers are from ``least`` to ``most``, strings one of ``choices``.
    ``default``: None where the parameter must be given, or follows from others as ``follows``
    says.  ``only``: the architecture whose machines need it, "" for all.  ``gem5``: the name in
    gem5's Python; * stands for several.
    """

    name: str
    type: type
    unit: str
    meaning: str
    gem5: str
    least: float = -math.inf
    most: float = math.inf
    choices: tuple[str, ...] = ()
    default: int | float | str | None = None
    only: str = ""
    follows: str = ""

    @property
    def required(self) -> bool:
        """Whether a machine of the architecture ``only`` has to have it."""
        return self.default is None and not self.follows

    @property
    def range(self) -> str:
        """``1 to 32``, or the names there are."""
        return (
            f"one of {', '.join(self.choices)}"
            if self.choices
            else f"from {self.least:g} to {self.most:g}"
        )


#: Predictors of csrc/sim/core_parameters.hpp by the names of gem5's classes
#: (src/cpu/pred/BranchPredictor.py) and short ones.
_PREDICTORS = {
    **dict.fromkeys(("Local", "LocalBP"), "local"),
    **dict.fromkeys(("Tournament", "TournamentBP"), "tournament"),
    **dict.fromkeys(("BiMode", "BiModeBP"), "bimode"),
    "TAGE": "tage",
    "LTAGE": "ltage",
    "TAGE_SC_L_8KB": "tage_sc_l_8kb",
    "TAGE_SC_L_64KB": "tage_sc_l_64kb",
    **dict.fromkeys(("MPP_8KB", "MultiperspectivePerceptron8KB"), "perceptron_8kb"),
    **dict.fromkeys(("MPP_64KB", "MultiperspectivePerceptron64KB"), "perceptron_64kb"),
    # Of TAGE, a loop predictor and a statistical corrector, too.
    **dict.fromkeys(("MPP_TAGE_8KB", "MultiperspectivePerceptronTAGE8KB"), "tage_sc_l_8kb"),
    **dict.fromkeys(("MPP_TAGE_64KB", "MultiperspectivePerceptronTAGE64KB"), "tage_sc_l_64kb"),
}
_PREFETCHERS = {
    "none": "none",
    "stride": "stride",
    "tagged": "tagged",
    "bop": "best_offset",
    "ampm": "access_map",
}
#: Their numbers in a core's row.
PREDICTORS = {name: _core.PREDICTORS.index(kind) for name, kind in _PREDICTORS.items()}
PREFETCHERS = {name: _core.PREFETCHERS.index(kind) for name, kind in _PREFETCHERS.items()}
REPLACEMENTS = {name: number for number, name in enumerate(_core.REPLACEMENTS)}
CPUS = ("o3", "minor")
#: What may be a plug-in (sim/plugins.py): its part, and the numbers of the built-in ones.
PLUGGABLE: dict[str, tuple[plugins.PluginKind, Mapping[str, int]]] = {
    "bp": ("predictor", PREDICTORS),
    "l1d_pf": ("prefetcher", PREFETCHERS),
    "l2_pf": ("prefetcher", PREFETCHERS),
    "l1d_replacement": ("replacement", REPLACEMENTS),
    "l2_replacement": ("replacement", REPLACEMENTS),
    "l3_replacement": ("replacement", REPLACEMENTS),
}

_RANGE = {name: (least, most) for name, least, most in _core.CORE_PARAMETERS}


def _number(
    name: str, unit: str, meaning: str, gem5: str, default: int | None = None, only: str = ""
) -> Parameter:
    least, most = _RANGE["phys_int" if name == "phys_float" else name]
    return Parameter(name, int, unit, meaning, gem5, least, most, default=default, only=only)


def _choice(
    name: str, choices: Iterable[str], meaning: str, gem5: str, default: str | None = None
) -> Parameter:
    return Parameter(name, str, "", meaning, gem5, choices=tuple(choices), default=default)


def _replacement(cache: str) -> Parameter:
    meaning, gem5 = "which line of a set goes", "replacement_policy"
    return _choice(f"{cache}_replacement", REPLACEMENTS, meaning, gem5, "lru")


def _following(name: str, unit: str, meaning: str, gem5: str, follows: str) -> Parameter:
    return replace(_number(name, unit, meaning, gem5), follows=follows)


def _ideal(name: str, meaning: str) -> Parameter:
    return Parameter(name, int, "0 or 1", meaning, "", 0, 1, default=0)


MACHINE_PARAMETERS: tuple[Parameter, ...] = (
    Parameter("name", str, "", "what results call it", "", default="machine"),
    _choice("cpu", CPUS, "out of order, or in order", "O3CPU, MinorCPU", "o3"),
    Parameter("clock_ghz", float, "GHz", "clock", "clk_domain.clock", 0.05, 20),
    _number("width", "rows/cycle", "fetched, decoded, renamed, dispatched, committed", "*Width"),
    _number("issue_width", "rows/cycle", "issued and written back", "issueWidth, wbWidth"),
    _number("rob", "entries", "reorder buffer", "numROBEntries"),
    _number("iq", "entries", "instruction queue", "numIQEntries"),
    _number("lq", "entries", "load queue", "LQEntries"),
    _number("sq", "entries", "store queue", "SQEntries"),
    _number("phys_int", "registers", "physical integer registers", "numPhysIntRegs"),
    _number(
        "phys_float",
        "registers",
        "physical floating-point registers, which hold X86's vectors",
        "numPhysFloatRegs",
        only="x86",
    ),
    _number("phys_vec", "registers", "physical vector registers", "numPhysVecRegs"),
    _number("fetch_buffer", "bytes", "block that one fetch reads", "fetchBufferSize"),
    _number("fetch_queue", "entries", "fetched and not yet decoded", "fetchQueueSize"),
    _number(
        "front_delay",
        "cycles",
        "from fetch to decode; in order, a branch's delay",
        "fetchToDecodeDelay; executeBranchDelay",
    ),
    _following(
        "decode_to_rename",
        "cycles",
        "from decode to rename",
        "decodeToRenameDelay",
        "front_delay, at most 2, on ARM; half of it elsewhere",
    ),
    _following(
        "rename_to_iew",
        "cycles",
        "from rename to dispatch",
        "renameToIEWDelay",
        "front_delay, at most 2, on ARM; 2 elsewhere",
    ),
    _number("issue_to_exec", "cycles", "from issue to execution", "issueToExecuteDelay"),
    _number("int_alu", "units", "integer units", "FUDesc.count of IntAlu"),
    _number("int_mul", "units", "multipliers and dividers", "FUDesc.count of IntMult"),
    _number("int_mul_lat", "cycles", "integer multiplication", "opLat of IntMult"),
    _number("int_div_lat", "cycles", "integer division", "opLat of IntDiv"),
    _number("fp", "units", "floating-point units", "FUDesc.count of FloatAdd"),
    _number("fp_add_lat", "cycles", "floating-point addition", "opLat of FloatAdd"),
    _number("fp_mul_lat", "cycles", "floating-point multiplication", "opLat of FloatMult"),
    _number("fp_div_lat", "cycles", "floating-point division", "opLat of FloatDiv"),
    _following(
        "fp_misc_lat",
        "cycles",
        "floating-point moves, signs and roundings",
        "opLat of FloatMisc",
        # Moves of ARM's machines show gem5's default (src/cpu/o3/FuncUnitConfig.py) on each.
        "3 on ARM, fp_add_lat elsewhere",
    ),
    _number("simd", "units", "vector units", "FUDesc.count of Simd*"),
    _number("load_ports", "units", "loads a cycle", "cacheLoadPorts"),
    _number("store_ports", "units", "stores a cycle", "cacheStorePorts"),
    _number("agu_lat", "cycles", "address of a load or store", "opLat of MemRead, MemWrite"),
    _choice("bp", PREDICTORS, "direction predictor", "branchPred"),
    _number("btb", "entries", "branch target buffer", "SimpleBTB.numEntries"),
    _number("ras", "entries", "return address stack", "ReturnAddrStack.numEntries", default=16),
    _number("l1i_kb", "kB", "instruction cache", "icache.size"),
    _number("l1i_assoc", "ways", "of the instruction cache", "icache.assoc"),
    _number("l1i_lat", "cycles", "of a hit", "icache.tag_latency, data_latency"),
    _number("l1d_kb", "kB", "data cache", "dcache.size"),
    _number("l1d_assoc", "ways", "of the data cache", "dcache.assoc"),
    _number("l1d_lat", "cycles", "of a hit", "dcache.tag_latency, data_latency"),
    _number("l1d_mshrs", "entries", "outstanding misses of the data cache", "dcache.mshrs"),
    _following(
        "l1d_targets",
        "accesses",
        "that one MSHR of the data cache takes",
        "dcache.tgts_per_mshr",
        # On ARM measurements show more than 8 and at most 16.
        "20 on X86, 16 elsewhere",
    ),
    _following(
        "l1d_response",
        "cycles",
        "that the data cache adds to a line that was not there",
        "dcache.response_latency",
        "half of l1d_lat on ARM, 1 elsewhere",
    ),
    _choice("l1d_pf", PREFETCHERS, "prefetcher of the data cache", "dcache.prefetcher"),
    _number("l2_kb", "kB", "second cache", "l2.size"),
    _number("l2_assoc", "ways", "of the second cache", "l2.assoc"),
    _number("l2_lat", "cycles", "of a hit", "l2.tag_latency, data_latency"),
    _number("l2_mshrs", "entries", "outstanding misses of the second cache", "l2.mshrs"),
    _following(
        "l2_response",
        "cycles",
        "that the second cache adds to a line that it passes on",
        "l2.response_latency",
        # On ARM streams of misses and first fetches show it, at L2 and L3 alike.
        "1 on X86, half of l2_lat elsewhere",
    ),
    _choice("l2_pf", PREFETCHERS, "prefetcher of the second cache", "l2.prefetcher"),
    _number("l3_kb", "kB", "third cache; 0: there is none", "l3.size"),
    _number("l3_assoc", "ways", "of the third cache", "l3.assoc"),
    _number("l3_lat", "cycles", "of a hit", "l3.tag_latency, data_latency"),
    _following(
        "l3_response",
        "cycles",
        "that the third cache adds to a line that it passes on",
        "l3.response_latency",
        "1 on X86, half of l3_lat elsewhere",
    ),
    _following(
        "taken_redirects",
        "0 or 1",
        "in order, a taken branch costs what a misprediction does, another nothing",
        "",
        "1 on X86, 0 elsewhere",
    ),
    _following(
        "tso",
        "0 or 1",
        "stores reach the cache one by one (total store order)",
        "needsTSO",
        "1 on X86, 0 elsewhere",
    ),
    _choice("mem", MEMORIES, "memory behind its controller", "MemCtrl.dram"),
    *(_replacement(cache) for cache in ("l1d", "l2", "l3")),
    _ideal("ideal_branches", "no branch is mispredicted"),
    _ideal("ideal_l1i", "every fetch hits the instruction cache"),
    _ideal("ideal_l1d", "every load and store hits the data cache"),
    _ideal("ideal_l2", "every miss of a first cache hits the second one"),
    _ideal("ideal_memory_latency", "memory and its controller answer at once, in their turn"),
    _ideal("ideal_memory_bandwidth", "the memory's bus is never taken, and nothing refreshes"),
    _ideal("ideal_memory_order", "no load runs before an older store to the same bytes"),
)

_BY_NAME = {p.name: p for p in MACHINE_PARAMETERS}
_CACHES = ("l1i", "l1d", "l2", "l3")


def suggestion(wrong: str, known: Iterable[str]) -> str:
    """(did you mean X?), where a known name is much like a wrong one; else nothing."""
    by_lower = {k.lower(): k for k in known if k != wrong}
    found = difflib.get_close_matches(wrong[:64].lower(), by_lower, 1)
    return f" (did you mean {by_lower[found[0]]}?)" if found else ""


def _shown(value: object) -> str:
    """A value in a message: short, whatever it is."""
    if isinstance(value, int) and abs(value) > 10**20:
        return f"a number of about {value.bit_length() * 0.30103:.0f} digits"
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:36]}…"


def part_number(name: str, value: str) -> int:
    """The number of a checked value of a parameter that may be a plug-in."""
    part, numbers = PLUGGABLE[name]
    found = plugins.number(part, value)
    return numbers[value] if found is None else found


def value_error(name: str, value: object) -> str | None:
    """What is wrong with one parameter's value; None where nothing is."""
    p = _BY_NAME.get(name)
    if p is None:
        return f"{_shown(name)} is no parameter{suggestion(name, _BY_NAME)}"
    if p.type is str:
        if not isinstance(value, str):
            return f"{name} is {_shown(value)}, no name"
        if not value.isprintable():
            return f"{name} is {_shown(value)}: characters that cannot be printed"
        if name in PLUGGABLE and value.startswith("plugin:"):
            part = PLUGGABLE[name][0]
            known = ", ".join(plugins.names(part)) or "none"
            if plugins.number(part, value) is None:
                return (
                    f"{name} is {_shown(value)}: no such {part} is loaded (there are: {known}); "
                    "TRACEKIT_PLUGINS names libraries"
                )
            return None
        if p.choices and value not in p.choices:
            return f"{name} is {_shown(value)}{suggestion(value, p.choices)}; {p.range}"
        return None
    if isinstance(value, bool) or not isinstance(value, Real):  # NumPy's, too
        return f"{name} is {_shown(value)}, not a number"
    number: Any = value
    if not p.least <= number <= p.most:
        return f"{name} is {_shown(value)}; {p.range}"
    if p.type is int and number != math.floor(number):
        return f"{name} is {_shown(value)}, no whole number"
    return None


def _sets(machine: Mapping[str, Any]) -> Iterable[tuple[str, int, int, int]]:
    """Of each cache with a valid size and ways: its name, kB, ways, lines."""
    for cache in _CACHES:
        kb, ways = machine.get(f"{cache}_kb"), machine.get(f"{cache}_assoc")
        if all(value_error(f"{cache}_{k}", v) is None for k, v in (("kb", kb), ("assoc", ways))):
            yield cache, int(kb or 0), int(ways or 0), int(kb or 0) * 1024 // LINE


def machine_errors(machine: Mapping[str, Any], arch: str = "") -> list[str]:
    """Everything that is wrong with a machine's parameters, for a trace of ``arch``."""
    out = [e for k, v in machine.items() if (e := value_error(k, v)) is not None]
    missing = [
        p.name
        for p in MACHINE_PARAMETERS
        if p.required and p.name not in machine and p.only in ("", arch)
    ]
    if missing:
        out.append(f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing")
    for cache, kb, ways, lines in _sets(machine):
        if lines % ways:
            out.append(
                f"{cache}_kb is {kb} with {ways} ways: no multiple of {LINE} bytes x {ways} ways"
            )
    return out


def machine_notes(machine: Mapping[str, Any], arch: str = "") -> list[str]:
    """What a valid machine has that gem5 does not; ``arch``: for programs of this instruction set
    alone."""
    out = [
        f"{cache}: {lines // ways} sets are no power of two: gem5 cannot run this"
        for cache, _, ways, lines in _sets(machine)
        if lines and (sets := lines // ways) & (sets - 1)
    ]
    btb = machine.get("btb")
    if isinstance(btb, int) and btb & (btb - 1):
        out.append(f"btb: {btb} entries are no power of two: gem5 cannot run this")
    return [*out, *too_few(machine, arch)]


def joined(errors: Iterable[str]) -> str:
    """Errors as one line; each once, and not more of them than one can read."""
    some = list(dict.fromkeys(errors))
    more = f"; and {len(some) - _SHOWN} more" if len(some) > _SHOWN else ""
    return "; ".join(some[:_SHOWN]) + more
