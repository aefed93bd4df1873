"""Registers that gem5's rename maps hold, and that are never free."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

__all__ = ["LEAST_FREE", "NAMED_REGISTERS", "files", "too_few"]

#: (integer, vector) ones of each instruction set (src/arch/*/regs; X86 has its temporaries, ARM its
#: banked registers), and the parameter of the file that has the vectors.
NAMED_REGISTERS: Final = {
    "arm": (42, 44, "phys_vec"),
    "x86": (38, 48, "phys_float"),
    "riscv": (33, 32, "phys_float"),
}
#: So many are free at least, whatever a machine's file says: an instruction may write as many.
LEAST_FREE: Final = 8
_WRITTEN: Final = {"arm": "ARM", "x86": "X86", "riscv": "RISC-V"}


def files(arch: str) -> dict[str, int]:
    """Parameter of a file of physical registers -> how many of it are never free; ARM's for an
    instruction set that is none of gem5's."""
    ints, vecs, file = NAMED_REGISTERS.get(arch, NAMED_REGISTERS["arm"])
    return {"phys_int": ints, file: vecs}


def too_few(machine: Mapping[str, Any], arch: str) -> Iterator[str]:
    """Files of an out-of-order machine that gem5 cannot run, for programs of ``arch``; for those of
    each instruction set if that is empty."""
    if machine.get("cpu") == "minor":
        return
    few: dict[str, list[str]] = {}
    for a in [arch] if arch else NAMED_REGISTERS:
        for key, held in files(a).items():
            value = machine.get(key)
            if isinstance(value, int) and value < held:
                few.setdefault(key, []).append(f"{_WRITTEN[a]} ({held})")
    for key, of in few.items():
        yield (
            f"{key}: gem5 cannot run {machine[key]} registers of {', '.join(of)}: simulated with "
            f"{LEAST_FREE} more than these"
        )
