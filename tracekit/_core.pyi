"""The C++ core (csrc/): one section a register_*.cpp."""

from collections.abc import Callable, Sequence
from typing import Any, TypedDict, overload

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

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
def bare_step_ns(steps: int) -> tuple[float, float]: ...

# --- rows.hpp, register_features.cpp
class StaticTable:
    """The static instructions of one stream."""

    def __len__(self) -> int: ...
    def columns(self) -> dict[str, Any]: ...

class Rows:
    """Rows in commit order, on their way to the feature stage."""

    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...

# --- register_streams.cpp
class EncodingTable:
    """The distinct instructions of native streams: ids from 0 in order of first appearance."""

    def __init__(self) -> None: ...
    def __len__(self) -> int: ...
    def __getitem__(self, id: int, /) -> tuple[int, int, bool, bytes]:
        """pc, length, whether the machine code is known, and 15 bytes (zeros after ``length``)."""
    def pcs(self) -> npt.NDArray[np.uint64]: ...

class NativeBatch:
    """Native instructions in program order (csrc/streams/native_batch.hpp); arrays are views."""

    def __init__(self) -> None: ...
    def __len__(self) -> int: ...
    @property
    def encoding(self) -> npt.NDArray[np.uint32]: ...
    @property
    def bits(self) -> npt.NDArray[np.uint8]: ...
    @property
    def first_access(self) -> npt.NDArray[np.uint64]: ...
    @property
    def address(self) -> npt.NDArray[np.uint64]: ...
    @property
    def access_size(self) -> npt.NDArray[np.uint32]: ...
    @property
    def is_store(self) -> npt.NDArray[np.uint8]: ...
    @staticmethod
    def joined(stretches: list[tuple[NativeBatch, int, int, bool]]) -> NativeBatch:
        """The rows [from, to) of each (batch, from, to, anew); anew: not in sequence with those before."""

class DrmemtraceParser:
    def __init__(self, table: EncodingTable) -> None: ...
    def feed(self, data: Buffer) -> None: ...
    def finish(self) -> None: ...
    def take(self) -> tuple[NativeBatch, npt.NDArray[np.uint64]]:
        """The complete rows, and (row, microseconds) of each timestamp among them."""
    def fetched(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint8]]:
        """The distinct pcs that were fetched, in no order, and the BranchKind that each record told."""
    @property
    def version(self) -> int: ...
    @property
    def filetype(self) -> int | None: ...
    @property
    def process(self) -> int: ...
    @property
    def threads(self) -> list[int]: ...
    @property
    def counts(self) -> dict[str, int]: ...
    @property
    def anomalies(self) -> dict[str, dict[str, int]]: ...

class ChampsimParser:
    def __init__(self, table: EncodingTable, cloudsuite: bool = False) -> None: ...
    def feed(self, data: Buffer) -> None: ...
    def finish(self) -> None: ...
    def take(self) -> NativeBatch: ...
    @property
    def record_bytes(self) -> int: ...
    @property
    def anomalies(self) -> dict[str, dict[str, int]]: ...

class TextStreamParser:
    def __init__(self, table: EncodingTable, format: str, arch: str = "") -> None: ...
    def feed(self, data: Buffer) -> None: ...
    def finish(self) -> None: ...
    def take(self) -> NativeBatch: ...
    @property
    def lines(self) -> int: ...
    @property
    def anomalies(self) -> dict[str, dict[str, int]]: ...

# --- register_native_rows.cpp
class NativeSource:
    """Native batches to rows (csrc/streams/native_rows.hpp)."""

    def __init__(self, table: EncodingTable, described: str, arch: str) -> None: ...
    def meet(self, batch: NativeBatch) -> list[int]:
        """The ids of its new encodings that `define` must be told of before it is converted."""
    def define(
        self,
        id: int,
        op: int,
        flags: int,
        branch: int,
        access_size: int,
        src: Sequence[tuple[int, int]],
        dst: Sequence[tuple[int, int]],
        text: str,
        length: int,
    ) -> None: ...
    def convert(self, batch: NativeBatch) -> Rows: ...
    def finish(self) -> Rows: ...
    def statics(self) -> dict[str, Any]: ...
    def table(self) -> StaticTable: ...
    def counters(self) -> dict[str, dict[str, int]]: ...
    def arch(self) -> str: ...
    @property
    def instructions(self) -> int: ...

class ChampsimEncoder:
    @overload
    def __init__(self, statics: dict[str, Any], arch: str) -> None: ...
    @overload
    def __init__(self, arch: str) -> None: ...
    def encode(
        self,
        static_id: npt.NDArray[np.uint32],
        addr: npt.NDArray[np.uint64],
        bits: npt.NDArray[np.uint8],
    ) -> bytes: ...
    def encode_rows(self, table: StaticTable, rows: Rows) -> bytes: ...
    @property
    def records(self) -> int: ...
    @property
    def dropped(self) -> dict[str, dict[str, int]]: ...

# --- register_stack_distance.cpp
COLD: int

class StackDistance:
    def __init__(
        self,
        line_bits: int = 0,
        *,
        isa: str | None = None,
        first_stamps: int = 16384,
        stamps_per_line: int = 6,
    ) -> None: ...
    @overload
    def access(
        self, addresses: npt.NDArray[np.uint64], *, out: npt.NDArray[np.uint32] | None = None
    ) -> npt.NDArray[np.uint32]: ...
    @overload
    def access(
        self,
        addresses: npt.NDArray[np.uint64],
        updates: npt.NDArray[np.bool_],
        *,
        out: npt.NDArray[np.uint32] | None = None,
    ) -> npt.NDArray[np.uint32]: ...
    def access_one(self, address: int) -> int: ...
    def peek_one(self, address: int) -> int: ...
    def copy(self) -> StackDistance: ...
    def __copy__(self) -> StackDistance: ...
    def __deepcopy__(self, memo: dict[int, object]) -> StackDistance: ...
    @property
    def distinct(self) -> int: ...
    @property
    def nbytes(self) -> int: ...

class peers:
    @staticmethod
    def splay_stack_distance(lines: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint32]: ...
    @staticmethod
    def fenwick_stack_distance(lines: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint32]: ...
    @staticmethod
    def last_access_floor(lines: npt.NDArray[np.uint64]) -> int: ...

# --- register_reference.cpp
CORE_PARAMETERS: tuple[tuple[str, float, float], ...]
"""Name, least and most value of each parameter of a reference core, in the order of its row."""

class ReferenceCores:
    def __init__(
        self,
        pc: npt.NDArray[np.uint64],
        flags: npt.NDArray[np.uint16],
        op: npt.NDArray[np.uint8],
        branch: npt.NDArray[np.uint8],
        size: npt.NDArray[np.uint16],
        src: npt.NDArray[np.uint16],
        dst: npt.NDArray[np.uint16],
        cores: npt.NDArray[np.float64],
    ) -> None: ...
    def run(
        self,
        sid: npt.NDArray[np.uint32],
        addr: npt.NDArray[np.uint64],
        bits: npt.NDArray[np.uint8],
        next: int,
        threads: int = 1,
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.uint8]]: ...
