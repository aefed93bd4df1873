"""LLVM's scheduling models as ports: which unit of a model is which port of the processor.

A model's units for memory are left out (`LlvmModel.memory_units`): what a load or store occupies
follows from its size and from `MEMORY`, since the models disagree on how they count it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["MODELS", "LlvmModel", "Memory"]


@dataclass(frozen=True)
class Memory:
    """Ports of loads and stores, by name.

    ``load_bytes`` and ``store_bytes``: what one access moves at most; wider ones take a port
    twice.  ``load_vector``: ports whose loads reach vector registers.
    """

    load: tuple[str, ...]
    store_address: tuple[str, ...]
    store_data: tuple[str, ...]
    load_vector: tuple[str, ...]
    store_data_vector: tuple[str, ...]
    load_bytes: int
    store_bytes: int


@dataclass(frozen=True)
class LlvmModel:
    """A table to be made: its name, LLVM's name of the CPU, the instruction set, the family (which
    rules of idioms and fusion it has; `tracekit.hardware.idioms`), ports and memory.

    ``units``: LLVM's unit -> port.  ``memory_units``: those that only memory accesses use.
    ``extra``: ports that LLVM's model has not.  ``transfer_units``: units that also move data
    between clusters; in a load or store they are memory's.
    """

    name: str
    cpu: str
    isa: str
    family: str
    units: Mapping[str, str]
    memory_units: tuple[str, ...]
    memory: Memory
    extra: tuple[str, ...] = ()
    transfer_units: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        """Instructions or µops that renaming takes a cycle, as published."""
        return _WIDTHS[self.name]

    @property
    def ports(self) -> tuple[str, ...]:
        """All ports; bit i of a set of ports is the i-th."""
        named = [*self.units.values(), *self.extra]
        m = self.memory
        for group in (m.load, m.load_vector, m.store_address, m.store_data, m.store_data_vector):
            named += group
        return tuple(dict.fromkeys(named))


_WIDTHS: Final = {
    **dict.fromkeys(("znver1", "znver2", "znver3", "znver4", "alderlake", "sapphirerapids"), 6),
    **dict.fromkeys(("haswell", "skylake-avx512", "neoverse-n1"), 4),
    **dict.fromkeys(("cortex-a53", "cortex-a55"), 2),
    **dict.fromkeys(("neoverse-v1", "neoverse-v2"), 8),
    "icelake-server": 5,
    "neoverse-n2": 5,
    "cortex-a57": 3,
}


def _names(kind: str, *numbers: int) -> tuple[str, ...]:
    return tuple(f"{kind}{i}" for i in numbers)


def _zen(family: str, cpu: str, prefix: str, store_bytes: int) -> LlvmModel:
    fp = "FP" if prefix in ("Zn3", "Zn4") else "FPU"
    late = prefix in ("Zn3", "Zn4")
    units = {f"{prefix}ALU{i}": f"alu{i}" for i in range(4)}
    units |= {f"{prefix}{fp}{i}": f"fp{i}" for i in range(4)}
    memory_units = [f"{prefix}AGU{i}" for i in range(3)]
    if late:
        units[f"{prefix}BRU1"] = "br1"
        units |= {f"{prefix}FP45.{i}": f"fst{i}" for i in range(2)}
        memory_units += [f"{prefix}{k}.{i}" for k in ("LSU", "Load") for i in range(3)]
        memory_units += [f"{prefix}Store.0", f"{prefix}Store.1", f"{prefix}FPSt"]
    else:
        units |= {f"{prefix}Divider": "div", f"{prefix}Multiplier": "mul"}
    agus = 2 if prefix == "Zn" else 3
    loads = _names("agu", *range(agus))
    width = 16 if prefix == "Zn" else 32
    memory = Memory(
        load=loads,
        store_address=loads[-2:],
        store_data=_names("st", 0, 1) if late else _names("st", 0),
        load_vector=loads[:2],
        store_data_vector=_names("fst", 1) if late else _names("st", 0),
        load_bytes=width,
        store_bytes=store_bytes,
    )
    extra = ("div", "fpdiv") if late else ("fpdiv",)
    transfer = tuple(f"{prefix}FP45.{i}" for i in range(2)) if late else ()
    return LlvmModel(cpu, cpu, "x86", family, units, tuple(memory_units), memory, extra, transfer)


def _old_intel(name: str, cpu: str, prefix: str, width: int) -> LlvmModel:
    """Ports 2 and 3 load, 4 takes stores' data, 7 the addresses of simple ones."""
    units = {f"{prefix}Port{i}": f"p{i}" for i in (0, 1, 5, 6)}
    units |= {f"{prefix}Divider": "div", f"{prefix}FPDivider": "fpdiv"}
    memory = Memory(
        load=_names("p", 2, 3),
        store_address=_names("p", 2, 3, 7),
        store_data=("p4",),
        load_vector=_names("p", 2, 3),
        store_data_vector=("p4",),
        load_bytes=width,
        store_bytes=width,
    )
    hidden = tuple(f"{prefix}Port{i}" for i in (2, 3, 4, 7))
    return LlvmModel(name, cpu, "x86", "intel", units, hidden, memory)


def _new_intel(name: str, cpu: str, prefix: str, third_load: bool) -> LlvmModel:
    """Ports 2 and 3 (and 11) load, 4 and 9 take stores' data, 7 and 8 their addresses."""
    pad = "0" if third_load else ""
    units = {f"{prefix}Port{pad}{i}": f"p{i}" for i in (0, 1, 5, 6)}
    hidden = [f"{prefix}Port{pad}{i}" for i in (2, 3, 4, 7, 8, 9)]
    extra: tuple[str, ...] = ()
    loads = _names("p", 2, 3)
    if third_load:
        units[f"{prefix}Port10"] = "p10"
        hidden += [f"{prefix}Port11", f"{prefix}PortInvalid"]
        loads = _names("p", 2, 3, 11)
        extra = ("div", "fpdiv")
    else:
        units |= {f"{prefix}Divider": "div", f"{prefix}FPDivider": "fpdiv"}
    memory = Memory(
        load=loads,
        store_address=_names("p", 7, 8),
        store_data=_names("p", 4, 9),
        load_vector=loads,
        store_data_vector=_names("p", 4, 9),
        load_bytes=64,
        store_bytes=32,
    )
    family = "intel-alderlake" if third_load else "intel-icelake"
    return LlvmModel(name, cpu, "x86", family, units, tuple(hidden), memory, extra)


def _neoverse(name: str, cpu: str, prefix: str, units: dict[str, str], three: bool) -> LlvmModel:
    """The data of stores goes through the units S or D of a Neoverse, which no load uses."""
    hidden: tuple[str, ...]
    if three:
        hidden = (f"{prefix}UnitL2", f"{prefix}UnitL01.0", f"{prefix}UnitL01.1")
        memory = Memory(
            load=_names("l", 0, 1, 2),
            store_address=_names("l", 0, 1),
            store_data=_names("d", 0, 1),
            load_vector=_names("l", 0, 1, 2),
            store_data_vector=_names("v", 0, 1),
            load_bytes=16,
            store_bytes=16,
        )
    else:
        hidden = (f"{prefix}UnitL.0", f"{prefix}UnitL.1")
        memory = Memory(
            load=_names("l", 0, 1),
            store_address=_names("l", 0, 1),
            store_data=_names("d", 0),
            load_vector=_names("l", 0, 1),
            store_data_vector=_names("d", 0),
            load_bytes=16,
            store_bytes=16,
        )
    units = {f"{prefix}Unit{k}": v for k, v in units.items()}
    return LlvmModel(name, cpu, "arm", name, units, hidden, memory, ("div", "fpdiv"))


def _cortex(
    name: str, cpu: str, units: dict[str, str], hidden: tuple[str, ...], two: bool
) -> LlvmModel:
    loads = ("l0",)
    stores = ("s0",) if two else ("l0",)
    memory = Memory(loads, stores, ("std0",), loads, ("std0",), 8 if not two else 16, 16)
    return LlvmModel(name, cpu, "arm", "cortex", units, hidden, memory, ("div", "fpdiv"))


_N1: Final = {
    "B": "b0",
    "D.0": "sd0",
    "D.1": "sd1",
    "M": "m0",
    "S.0": "s0",
    "S.1": "s1",
    "V0": "v0",
    "V1": "v1",
}
_N2: Final = {
    "B.0": "b0",
    "B.1": "b1",
    "D.0": "d0",
    "D.1": "d1",
    "M0": "m0",
    "M1": "m1",
    "S.0": "s0",
    "S.1": "s1",
    "V0": "v0",
    "V1": "v1",
}
_V1: Final = {**_N2, "V2": "v2", "V3": "v3"}
_V2: Final = {
    **{k: v for k, v in _V1.items() if not k.startswith("S.")},
    **{f"S{i}": f"s{i}" for i in range(4)},
}
_A53: Final = {
    "A53UnitALU.0": "alu0",
    "A53UnitALU.1": "alu1",
    "A53UnitB": "b0",
    "A53UnitDiv": "div",
    "A53UnitFPALU": "fp0",
    "A53UnitFPMDS": "fp1",
    "A53UnitMAC": "mac0",
}
_A55: Final = {
    **{f"CortexA55UnitALU.{i}": f"alu{i}" for i in range(2)},
    **{f"CortexA55UnitFPALU.{i}": f"fp{i}" for i in range(2)},
    **{f"CortexA55UnitFPMAC.{i}": f"fmac{i}" for i in range(2)},
    "CortexA55UnitB": "b0",
    "CortexA55UnitDiv": "div",
    "CortexA55UnitFPDIV": "fpdiv",
    "CortexA55UnitMAC": "mac0",
}
_A57: Final = {
    "A57UnitB": "b0",
    "A57UnitI.0": "i0",
    "A57UnitI.1": "i1",
    "A57UnitM": "m0",
    "A57UnitW": "w0",
    "A57UnitX": "x0",
}

MODELS: Final = (
    _zen("zen1", "znver1", "Zn", 16),
    _zen("zen2", "znver2", "Zn2", 32),
    _zen("zen3", "znver3", "Zn3", 32),
    _zen("zen4", "znver4", "Zn4", 32),
    _old_intel("haswell", "haswell", "HW", 32),
    _old_intel("skylake-avx512", "skylake-avx512", "SKX", 64),
    _new_intel("icelake-server", "icelake-server", "ICX", third_load=False),
    _new_intel("alderlake", "alderlake", "ADLP", third_load=True),
    _new_intel("sapphirerapids", "sapphirerapids", "SPR", third_load=True),
    _neoverse("neoverse-n1", "neoverse-n1", "N1", _N1, three=False),
    _neoverse("neoverse-n2", "neoverse-n2", "N2", _N2, three=True),
    _neoverse("neoverse-v1", "neoverse-v1", "V1", _V1, three=True),
    _neoverse("neoverse-v2", "neoverse-v2", "V2", _V2, three=True),
    _cortex("cortex-a53", "cortex-a53", _A53, ("A53UnitLdSt",), two=False),
    _cortex("cortex-a55", "cortex-a55", _A55, ("CortexA55UnitLd", "CortexA55UnitSt"), two=True),
    _cortex("cortex-a57", "cortex-a57", _A57, ("A57UnitL", "A57UnitS"), two=True),
)
