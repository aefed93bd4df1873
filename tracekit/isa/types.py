"""What a decoded instruction is, and the numbers that every architecture shares."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from tracekit._core import FLAGS, OP_CLASSES
from tracekit.schema import BRANCH_KINDS as BRANCH_KINDS

Arch = Literal["arm", "x86", "riscv"]
Reg = tuple[int, int]
"""(class, number) in tracekit's numbering (`INTEGER` … `MISC`; csrc/core/static_inst.hpp)."""

INTEGER, FLOATING, VECTOR, VECTOR_ELEMENT, PREDICATE, CONDITION, MISC = range(7)
CC: Final[Reg] = (CONDITION, 0)  # an architecture's condition codes are one register

BRANCH_FLAGS: Final[dict[str, tuple[str, ...]]] = {
    "conditional": ("IsControl", "IsDirectControl", "IsCondControl"),
    "jump": ("IsControl", "IsDirectControl", "IsUncondControl"),
    "call": ("IsControl", "IsDirectControl", "IsUncondControl", "IsCall"),
    "indirect": ("IsControl", "IsIndirectControl", "IsUncondControl"),
    "indirect_call": ("IsControl", "IsIndirectControl", "IsUncondControl", "IsCall"),
    "return": ("IsControl", "IsIndirectControl", "IsUncondControl", "IsReturn"),
    "indirect_conditional": ("IsControl", "IsIndirectControl", "IsCondControl"),
}
"""The flags that gem5 gives a branch of each kind."""

_OP_NUMBER: Final = {name: i for i, name in enumerate(OP_CLASSES)}
_FLAG_BIT: Final = {name: 1 << i for i, name in enumerate(FLAGS)}


class MemOp(NamedTuple):
    """One access: ``kind`` is "load" or "store", ``size`` in bytes (0 = unknown or not fixed).

    ``times`` is the number of accesses of that size that the instruction makes: 1, the elements of
    a gather or scatter, or 0 where it depends on the run (a ``rep`` string, a predicated vector).
    """

    kind: Literal["load", "store"]
    size: int
    times: int = 1


class DecodedInst(NamedTuple):
    """One machine instruction, at the macro level (features.md), without its pc.

    ``length`` in bytes; ``op`` is gem5's operation class by name, ``flags`` gem5's flags by name;
    ``src`` and ``dst`` are registers in order of first use, without those that always read as zero;
    ``branch`` is one of `BRANCH_KINDS`; ``access_size`` is the size in bytes of the first memory
    access (0 = none or unknown) and ``memory`` all of them in order; ``syscall`` tells an
    instruction that traps to the operating system in every run; ``text`` is the assembly, decoded
    at address 0.
    """

    length: int
    op: str
    flags: frozenset[str]
    src: tuple[Reg, ...]
    dst: tuple[Reg, ...]
    branch: str
    access_size: int
    memory: tuple[MemOp, ...]
    syscall: bool
    text: str

    @property
    def valid(self) -> bool:
        """False for bytes that are no instruction: flags hold only IsInvalid, nothing else is
        set."""
        return "IsInvalid" not in self.flags

    @property
    def op_number(self) -> int:
        """``op`` in tracekit's stable numbering (the index into tracekit._core.OP_CLASSES)."""
        return _OP_NUMBER[self.op]

    @property
    def flag_bits(self) -> int:
        """``flags`` as one integer, bit i = tracekit._core.FLAGS[i]."""
        bits = 0
        for name in self.flags:
            bits |= _FLAG_BIT[name]
        return bits


def invalid(length: int) -> DecodedInst:
    """The marker for bytes that do not decode; ``length`` is what the encoding says, 0 if
    unknown."""
    return DecodedInst(
        length, "No_OpClass", frozenset(("IsInvalid",)), (), (), "none", 0, (), False, "(bad)"
    )


def words(text: str) -> frozenset[str]:
    """The mnemonics in ``text``, for tables."""
    return frozenset(text.split())
