"""The C++ core (csrc/): one section a register_*.cpp."""

from collections.abc import Callable, Sequence
from typing import Any, TypedDict, overload

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer, NotRequired

# --- register_core.cpp
OP_CLASSES: tuple[str, ...]
BRANCH_KINDS: tuple[str, ...]
"""gem5's operation classes by name, in tracekit's own stable numbering."""
OP_CLASS_REF: tuple[int, ...]
"""The number that gem5 v20.1-v22.1 gave each of them (MemRead = 47)."""
FLAGS: tuple[str, ...]
"""gem5's flags of a static instruction; the bit is the place in this tuple."""

def active_isa() -> str: ...
def add_chain_seconds(rounds: int) -> float: ...
def free_adds_seconds(rounds: int) -> float: ...

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
def renamed_operands(
    disassembly: list[str], upc: npt.NDArray[np.uint16], flags: npt.NDArray[np.uint64]
) -> tuple[
    npt.NDArray[np.uint8], npt.NDArray[np.uint16], npt.NDArray[np.uint8], npt.NDArray[np.uint16]
]:
    """Of X86's micro-ops, ``src_class``, ``src_index``, ``dst_class`` and ``dst_index`` as a static
    table has them (255: none), but for what gem5 renames: halves of vector registers are two (high
    ones from 128 on), condition codes four (ZF, AF, PF and SF; CF and OF; ECF; EZF)."""

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
def tks_code_block(table: EncodingTable, from_: int, /) -> bytes: ...
def tks_epoch_block(info: dict[str, int], rows: NativeBatch, /) -> bytes: ...

class QemuCode:
    def __init__(
        self,
        table: EncodingTable,
        describe: Callable[[list[tuple[int, bytes]]], list[tuple[Any, ...]]],
        load: bytes,
        store: bytes,
    ) -> None: ...

class QemuStream:
    def __init__(self, code: QemuCode, piece: int) -> None: ...
    def feed(self, data: Any) -> None: ...
    @property
    def waits(self) -> bool: ...
    @property
    def blocks(self) -> int: ...
    def inherit(self, parent: QemuStream, blocks: int) -> None: ...
    def leftover(self, file: bytes) -> None: ...
    def finish(self) -> None: ...
    def take(self) -> list[tuple[int, int, int, NativeBatch]]: ...
    def take_texts(self) -> list[tuple[int, bytes]]: ...
    def executed(self) -> dict[int, int]: ...
    def silent(self) -> dict[int, int]: ...
    @property
    def anomalies(self) -> dict[str, dict[str, int]]: ...

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
    outcome: str  # taken, in_system_call, stopped, gone, busy, clone_failed, lacks_memory
    info: dict[str, int]
    waited_ns: int
    reap_ns: int
    crowded_ns: int  # processor time of a copy and the recorder while others wanted their core
    instructions: int
    accesses: int
    maps: bytes  # the text of /proc/PID/maps
    handled_faults: int  # that handlers of the copy saw to
    clone_errno: int
    exit_status: int | None  # as waitpid gives it

class Recorder:
    """Linux on x86-64 only."""

    def __init__(self, decode: Callable[[int, bytes], Any]) -> None: ...
    def epoch(self, request: EpochRequest) -> EpochResult: ...
    def in_place(self, request: EpochRequest) -> EpochResult: ...
    def full(self, request: EpochRequest, let_go: bool) -> EpochResult: ...
    def encode(self) -> tuple[bytes, bytes]: ...

def record_start(
    arguments: list[bytes], environment: list[bytes], output: int = -1, folder: bytes = b""
) -> int: ...
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

# --- register_formats.cpp
class EncodingTable:
    """The distinct instructions of native streams: ids from 0 in order of first appearance."""

    def __init__(self) -> None: ...
    def __len__(self) -> int: ...
    def __getitem__(self, id: int, /) -> tuple[int, int, bool, bytes]:
        """pc, length, whether the machine code is known, and 15 bytes (zeros after ``length``)."""
    def pcs(self) -> npt.NDArray[np.uint64]: ...

class NativeBatch:
    """Native instructions in program order (csrc/formats/common/native_batch.hpp).

    Arrays are views.
    """

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
        """The rows [from, to) of each (batch, from, to, anew); anew: not in sequence with those
        before."""

class DrmemtraceParser:
    def __init__(self, table: EncodingTable) -> None: ...
    def feed(self, data: Buffer) -> None: ...
    def finish(self) -> None: ...
    def take(self) -> tuple[NativeBatch, npt.NDArray[np.uint64]]:
        """The complete rows, and (row, microseconds) of each timestamp among them."""
    def fetched(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint8]]:
        """The distinct pcs that were fetched, in no order, and the BranchKind that each record
        told."""
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
    """Native batches to rows (csrc/formats/native_rows/native_rows.hpp)."""

    def __init__(self, table: EncodingTable, described: str, arch: str, halves: bool) -> None: ...
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
"""Of the class StackDistance, which caps nothing."""

class StackDistance:
    def __init__(
        self,
        line_bits: int = 0,
        *,
        isa: str | None = None,
        first_stamps: int = 16384,
        stamps_per_line: int = 6,
        most_stamps: int = 1073741824,
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

# --- register_sim.cpp
CORE_PARAMETERS: tuple[tuple[str, float, float], ...]
"""Name, least and most value of each parameter of a core, in the order of its row."""
CAUSES: tuple[tuple[str, str], ...]
"""(name, group) of each cause of cycles, in the order of the arrays of causes."""
CORE_INST_BITS: dict[str, int]
"""What a row of a core is or does, by name: its bit in ``flags``."""
CORE_INST_SOURCES: int
MICROCODE_LOOP_CASES: int
CORE_INST_DESTINATIONS: int
NO_REGISTER: int
MOST_CORE_REGISTERS: int
EVENT_LEVEL_MASK: int
ROWS_AHEAD: int
EVENT_FETCH_SHIFT: int
EVENT_MISPREDICTED: int
EVENT_RESTEERED: int
CORE_TIMING: tuple[str, ...]
"""What a timed walk gives for each row and core, in order."""
PREDICTORS: tuple[str, ...]
PREFETCHERS: tuple[str, ...]
REPLACEMENTS: tuple[str, ...]
"""By their numbers in a core's row."""

def predict_directions(
    kind: int,
    pc: npt.NDArray[np.uint64],
    next: npt.NDArray[np.uint64],
    branch: npt.NDArray[np.uint8],
    taken: npt.NDArray[np.uint8],
    committed: npt.NDArray[np.uint32],
    detours: npt.NDArray[np.uint8] = ...,
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]: ...
def cache_hits(
    kb: int, ways: int, lines: npt.NDArray[np.uint64], policy: int = 0
) -> npt.NDArray[np.bool_]:
    """Which of the line numbers a cold LRU cache of a simulated core finds."""

_RowsBehind = tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint64], npt.NDArray[np.uint8]]

class SimulatedCores:
    def __init__(
        self,
        pc: npt.NDArray[np.uint64],
        flags: npt.NDArray[np.uint32],
        op: npt.NDArray[np.uint8],
        branch: npt.NDArray[np.uint8],
        size: npt.NDArray[np.uint16],
        offset: npt.NDArray[np.uint8],
        src: npt.NDArray[np.uint16],
        dst: npt.NDArray[np.uint16],
        parts: npt.NDArray[np.uint32],
        told: npt.NDArray[np.uint8] = ...,
        base: npt.NDArray[np.uint16] = ...,
        number: npt.NDArray[np.int64] = ...,
        reach: int = 0,
        loop_ids: npt.NDArray[np.uint32] = ...,
        loop_from: npt.NDArray[np.uint32] = ...,
        loop_branch: npt.NDArray[np.uint32] = ...,
        loop_turns: npt.NDArray[np.uint8] = ...,
        joined: bool = False,
        image: tuple[int, int] = (0, 0),
        *,
        cores: npt.NDArray[np.float64],
        causes: bool = False,
    ) -> None: ...
    def cause_sums(
        self,
        sid: npt.NDArray[np.uint32],
        addr: npt.NDArray[np.uint64],
        bits: npt.NDArray[np.uint8],
        next: int | _RowsBehind,
        labels: npt.NDArray[np.uint32],
        out: npt.NDArray[np.float64],
        threads: int = 1,
    ) -> None: ...
    def events(
        self,
        sid: npt.NDArray[np.uint32],
        addr: npt.NDArray[np.uint64],
        bits: npt.NDArray[np.uint8],
        next: int | _RowsBehind,
        threads: int = 1,
    ) -> npt.NDArray[np.uint8]: ...
    def observe(
        self,
        sid: npt.NDArray[np.uint32],
        addr: npt.NDArray[np.uint64],
        bits: npt.NDArray[np.uint8],
        next: int | _RowsBehind,
        threads: int = 1,
    ) -> None: ...
    def observe_lines(
        self,
        sid: npt.NDArray[np.uint32],
        addr: npt.NDArray[np.uint64],
        bits: npt.NDArray[np.uint8],
        next: int | _RowsBehind,
        threads: int = 1,
    ) -> None: ...
    def begin_behind(
        self,
        sid: npt.NDArray[np.uint32],
        addr: npt.NDArray[np.uint64],
        bits: npt.NDArray[np.uint8],
        next: int | _RowsBehind,
        threads: int = 1,
    ) -> None: ...
    def begun_behind(
        self,
        sid: npt.NDArray[np.uint32],
        addr: npt.NDArray[np.uint64],
        bits: npt.NDArray[np.uint8],
        next: int | _RowsBehind,
    ) -> SimulatedCores: ...
    def run(
        self,
        sid: npt.NDArray[np.uint32],
        addr: npt.NDArray[np.uint64],
        bits: npt.NDArray[np.uint8],
        next: int | _RowsBehind,
        threads: int = 1,
        timed: bool = False,
        difficulty: bool = False,
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.uint8]]: ...
    def sums(
        self,
        sid: npt.NDArray[np.uint32],
        addr: npt.NDArray[np.uint64],
        bits: npt.NDArray[np.uint8],
        next: int | _RowsBehind,
        edges: npt.NDArray[np.uint32],
        threads: int = 1,
    ) -> npt.NDArray[np.float64]: ...
    def class_sums(
        self,
        sid: npt.NDArray[np.uint32],
        addr: npt.NDArray[np.uint64],
        bits: npt.NDArray[np.uint8],
        next: int | _RowsBehind,
        labels: npt.NDArray[np.uint16],
        classes: int,
        threads: int = 1,
    ) -> npt.NDArray[np.float64]: ...

# --- register_warm.cpp
def warm_contents(
    lines: npt.NDArray[np.uint64],
    writes: npt.NDArray[np.uint8],
    sets: int,
    ways: int,
    first: tuple[int, int] = (0, 0),
) -> list[list[tuple[int, bool]]]: ...
def prefetched_contents(
    core: npt.NDArray[np.float64],
    address: npt.NDArray[np.uint64],
    pc: npt.NDArray[np.uint64],
    kind: npt.NDArray[np.uint8],
    rows: npt.NDArray[np.uint32],
) -> tuple[list[list[tuple[int, bool, bool]]], list[list[tuple[int, bool, bool]]]]:
    """Lines, dirty and prefetched, of each set of the data cache and the second one."""

# --- register_features.cpp
NEVER: int
"""The stack distance of a first touch, and the cap of every distance in a column."""

class EncodedChunk(TypedDict):
    rows: int
    tick_unit: int
    retired_before: int
    timed: bool
    streams: dict[str, bytes]  # without the empty ones
    hashes: NotRequired[list[int]]  # of COLUMNS in their order, where asked for

def static_forms(
    texts: list[str], codes: list[bytes], rest: npt.NDArray[np.uint8]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32]]: ...

class FeatureStage:
    """Rows to features to the streams of chunks."""

    def __init__(
        self,
        history: int,
        line_bits: int,
        macro: bool,
        unseen: int = 0,
        skip: int = 0,
        count: int | None = None,
        chunk_rows: int = 65536,
        hashes: bool = False,
        moments: bool = False,
    ) -> None: ...
    def add(self, rows: Rows) -> bool: ...
    def finish(self) -> bool: ...
    def chunk(self) -> EncodedChunk: ...
    @property
    def done(self) -> bool: ...
    @property
    def skipped(self) -> int: ...
    def counts(self) -> npt.NDArray[np.uint64]: ...
    def bit_counts(self) -> list[int]: ...
    def moments(self) -> dict[str, Any] | None: ...
    def unfinished(self) -> int: ...
    def hot(self) -> dict[str, npt.NDArray[Any]]: ...
    def macro_table(self, micro: StaticTable) -> StaticTable | None: ...

# --- register_gem5_text.cpp, register_tkt.cpp, register_perfvec_text.cpp
class Gem5Text:
    """Parser of gem5's O3PipeView and Exec text, in chunks cut anywhere."""

    def __init__(self) -> None: ...
    def feed(self, data: Buffer) -> None: ...
    def finish(self) -> None: ...
    def cpus(self) -> list[str]: ...
    def take(self, cpu: int) -> Rows: ...
    def table(self, cpu: int) -> StaticTable: ...
    def counters(self) -> dict[str, dict[str, int]]: ...
    def arch(self) -> str: ...
    def stats(self) -> dict[str, Any]: ...
    def cpu_stats(self, cpu: int) -> dict[str, int]: ...

class Tkt:
    """Reads a .tkt stream (docs/tkt-format.md), in chunks cut anywhere."""

    piece: int

    def __init__(self) -> None: ...
    def use_gem5_operands(self) -> None: ...
    def feed(self, data: Buffer) -> None: ...
    def finish(self) -> None: ...
    def cpus(self) -> list[str]: ...
    def take(self, cpu: int) -> Rows: ...
    def columns(self) -> dict[str, npt.NDArray[Any]]: ...
    def table(self, cpu: int) -> StaticTable: ...
    def counters(self) -> dict[str, dict[str, int]]: ...
    def arch(self) -> str: ...
    def stats(self) -> dict[str, Any]: ...
    def header(self) -> dict[str, Any] | None: ...
    def configuration(self) -> bytes: ...
    def complete(self) -> bool: ...

class TktWriter:
    """Writes a .tkt stream into memory."""

    def __init__(self, header: dict[str, Any]) -> None: ...
    def add_static(
        self,
        pc: int,
        upc: int = 0,
        op: int = 0,
        flags: int = 0,
        disassembly: str = "",
        bytes: bytes = b"",
        src: Sequence[tuple[int, int]] = ...,
        dst: Sequence[tuple[int, int]] = ...,
    ) -> int: ...
    def add_row(
        self,
        sid: int,
        flags: int = 0,
        addr: int = 0,
        size: int = 0,
        ticks: Sequence[int] = ...,
        thread: int = 0,
    ) -> None: ...
    def mark(self, begins: bool, tick: int, instructions: int) -> None: ...
    def finish(self, tick: int = 0) -> None: ...
    def take(self) -> bytes: ...

class PerfvecText:
    """Parser of the two-file trace of PerfVec's authors."""

    def __init__(self) -> None: ...
    def feed(self, data: Buffer) -> None: ...
    def feed_stores(self, data: Buffer) -> None: ...
    def stores_end(self) -> None: ...
    def wants_stores(self) -> bool: ...
    def finish(self) -> None: ...
    def take(self) -> Rows: ...
    def table(self) -> StaticTable: ...
    def counters(self) -> dict[str, dict[str, int]]: ...
    def lines(self) -> int: ...

# --- register_stored_rows.cpp
class StoredRows:
    """The rows of a feats.zst of the micro level once more."""

    def __init__(self, statics: dict[str, Any], arch: str) -> None: ...
    def rows(
        self,
        static_id: npt.NDArray[Any],
        addr: npt.NDArray[Any],
        bits: npt.NDArray[Any],
        ticks: list[npt.NDArray[Any]] | None = None,
    ) -> Rows: ...
    def table(self) -> StaticTable: ...

# --- register_chunk.cpp
COLUMNS: tuple[tuple[str, np.dtype[Any], str, str, str], ...]
"""Name, type, domain, unit and meaning of each stored column (csrc/core/column.def)."""

class DecodeError(ValueError): ...

class HotTable:
    """What decoding asks of each static instruction; fall is n x 2."""

    def __init__(
        self,
        pc: npt.NDArray[np.uint64],
        upc: npt.NDArray[np.uint16],
        bits: npt.NDArray[np.uint8],
        fall: npt.NDArray[np.uint8],
    ) -> None: ...

class Chunk:
    """Decoder of one chunk's streams: one value a row; DecodeError where the bytes cannot be a
    column."""

    def __init__(self, table: HotTable, rows: int, static_id: Buffer, bits: Buffer) -> None: ...
    def static_id(self) -> npt.NDArray[np.uint32]: ...
    def bits(self) -> npt.NDArray[np.uint8]: ...
    def hashes(
        self, streams: list[bytes], tick_unit: int, line_bits: int, timed: bool, /
    ) -> list[int]: ...
    def addr(self, stream: Buffer, /) -> npt.NDArray[np.uint64]: ...
    def fetch_distance(self, stream: Buffer, line_bits: int, /) -> npt.NDArray[np.uint32]: ...
    def distance(self, stream: Buffer, /) -> npt.NDArray[np.uint32]: ...
    def distance_ref(
        self, stream: Buffer, plain: npt.NDArray[np.uint32], /
    ) -> npt.NDArray[np.uint32]: ...
    def reuse(self, stream: Buffer, /) -> npt.NDArray[np.uint16]: ...
    def window(self, stream: Buffer, /) -> npt.NDArray[np.uint8]: ...
    def probability(self, stream: Buffer, /) -> npt.NDArray[np.float32]: ...
    def ticks(self, streams: Sequence[Buffer], unit: int, /) -> list[npt.NDArray[np.uint64]]: ...

# --- register_plugins.cpp
def add_predictor(name: str, state_bytes: int, predict: int, resolve: int, update: int) -> int: ...
def add_prefetcher(name: str, state_bytes: int, access: int) -> int: ...
def add_replacement(name: str, set_bytes: int, touch: int, victim: int) -> int: ...
def plugin_complaint() -> str: ...

# --- register_hardware.cpp, register_hardware_parts.cpp
HARDWARE_PARAMETERS: tuple[tuple[str, float, float], ...]
"""(name, least, most) of each number of a real processor."""
HARDWARE_OP_BITS: dict[str, int]
MOST_SCHEDULERS: int
TOUCHED_PCS: tuple[int, int, int]
MOST_HARDWARE_REGISTERS: int

class HardwareCore:
    """A real processor's core (csrc/hardware/core.hpp), block by block."""

    def __init__(
        self,
        ops: dict[str, npt.NDArray[Any]],
        parameters: npt.NDArray[np.float64],
        schedulers: list[tuple[int, int]],
    ) -> None: ...
    def run(
        self,
        sid: npt.NDArray[np.uint32],
        addr: npt.NDArray[np.uint64],
        bits: npt.NDArray[np.uint8],
        next: int,
    ) -> npt.NDArray[np.float32]: ...
    def counts(self) -> dict[str, int]: ...

def hardware_lines(entries: int, ways: int, operations: list[tuple[int, int]]) -> list[int]: ...
def hardware_ports(wanted: list[tuple[int, int, int, int]]) -> list[int]: ...
def hardware_scheduler(entries: int, given: list[tuple[int, int]]) -> list[int]: ...
def hardware_forwards(
    stores: list[tuple[int, int, int]], loads: list[tuple[int, int, int, int]]
) -> list[tuple[int, int]]: ...
def hardware_indirect(
    entries: int, branches: list[tuple[int, int]], history: int = 54
) -> list[bool]: ...
def hardware_strides(accesses: list[tuple[int, int]]) -> list[int]: ...
