"""The C++ core (csrc/): one section a register_*.cpp."""

from typing import TypedDict

# --- register_core.cpp
OP_CLASSES: tuple[str, ...]
"""gem5's operation classes by name, in tracekit's own stable numbering."""
OP_CLASS_REF: tuple[int, ...]
"""The number that gem5 v20.1-v22.1 gave each of them (MemRead = 47)."""
FLAGS: tuple[str, ...]
"""gem5's flags of a static instruction; the bit is the place in this tuple."""

def active_isa() -> str: ...

# --- register_isa.cpp
class DecodedText(TypedDict):
    op: str
    flags: list[str]
    src: list[tuple[int, int]]  # (register class, number)
    dst: list[tuple[int, int]]
    access_size: int  # bytes; 0 = none or unknown
    branch: int
    syscall: bool
    displacement: int | None

def detect_arch(raw: str) -> str: ...
def decode_text(
    arch: str,
    disassembly: str,
    op: str | None = None,
    flags: list[str] = ...,
    pc: int = 0,
    upc: int = 0,
    infer_flags: bool = False,
) -> DecodedText: ...
