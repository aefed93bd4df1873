"""The C++ core (csrc/): one section a register_*.cpp."""

from collections.abc import Callable
from typing import Any, TypedDict

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

# --- register_record.cpp
END_REASONS: tuple[str, ...]
"""Why a recorded epoch ended; the place in the tuple is the number in the file."""
EPOCH_FIELDS: tuple[str, ...]

class TksDecoder:
    def __init__(self, table: EncodingTable) -> None: ...
    def block(self, payload: bytes) -> int: ...
    @property
    def text(self) -> bytes: ...
    @property
    def info(self) -> dict[str, int]: ...
    def take(self) -> NativeBatch: ...

def tks_text_block(kind: int, json: str) -> bytes: ...

class RecordSystemError(OSError):
    """args: kind (permission, seccomp, traced, not_64_bit, gone, system), message."""

class EpochRequest:
    def __init__(
        self,
        *,
        tid: int,
        tgid: int,
        number: int,
        instructions: int,
        time_ns: int,
        wait_ns: int,
        accesses: int,
        pidfd: int,
        lowest_priority: bool,
        follow_exec: bool,
        continues: bool = False,
    ) -> None: ...

class EpochResult(TypedDict):
    outcome: str  # taken, in_system_call, stopped, gone, busy, clone_failed
    info: dict[str, int]
    waited_ns: int
    reap_ns: int
    instructions: int
    accesses: int
    clone_errno: int
    exit_status: int | None  # as waitpid gives it

class Recorder:
    """Linux on x86-64 only."""

    def __init__(self, decode: Callable[[int, bytes], Any]) -> None: ...
    def epoch(self, request: EpochRequest) -> EpochResult: ...
    def in_place(self, request: EpochRequest) -> EpochResult: ...
    def full(self, request: EpochRequest, let_go: bool) -> EpochResult: ...
    def encode(self) -> tuple[bytes, bytes]: ...

def record_start(arguments: list[str]) -> int: ...
def minor_faults(pid: int) -> int: ...
def page_copy_ns() -> float: ...
def bare_step_ns(steps: int) -> float: ...
