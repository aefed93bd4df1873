"""How to extract, and what an extraction did."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Literal

from tracekit.errors import UsageError
from tracekit.io.json_types import Json
from tracekit.store.index import MAX_CHUNK_ROWS
from tracekit.text import counted, html_table

__all__ = ["CHUNK_ROWS", "HARMLESS", "ExtractedFile", "ExtractionResult", "Level", "Options"]

#: What a row is; "auto": a micro-op where the input has them, else an instruction.
Level = Literal["auto", "micro", "macro"]

#: Rows of a chunk, unless asked for.
CHUNK_ROWS = 1 << 16

#: Counted, but no damage.
HARMLESS = frozenset({"macro_op_line"})


@dataclass(frozen=True)
class Options:
    """How to extract; ``tracekit.extract`` documents each but ``statistics``: describe the files
    that were written, with statistics of their columns, in `Extraction.described`."""

    level: Level = "auto"
    cpu: str | None = None
    start: int = 0
    count: int | None = None
    cold: bool = False
    binary: str | None = None
    gem5_operands: bool = False
    history: int = 8
    line_bytes: int = 64
    clock_ps: int | None = None
    chunk_rows: int = CHUNK_ROWS
    force: bool = False
    strict: bool = False
    sha256: bool = False
    threads: Literal["separate", "interleaved"] = "separate"
    isa: str | None = None
    overlap: bool | None = None
    verify: bool = False
    statistics: bool = False

    def __post_init__(self) -> None:
        if self.level not in ("auto", "micro", "macro"):
            raise UsageError(f"level: auto, micro or macro, not {self.level!r}")
        if self.start < 0 or (self.count is not None and self.count < 1):
            raise UsageError("start: at least 0; count: at least 1")
        if (
            self.line_bytes < 1
            or self.line_bytes & (self.line_bytes - 1)
            or self.line_bytes > 1 << 20
        ):
            raise UsageError("line_bytes: a power of two up to 1048576")
        if not 1 <= self.history <= 24:
            raise UsageError("history: 1 to 24")
        if not 256 <= self.chunk_rows <= MAX_CHUNK_ROWS:
            raise UsageError(f"chunk_rows: 256 to {MAX_CHUNK_ROWS}")
        if self.clock_ps is not None and self.clock_ps < 1:
            raise UsageError("clock_ps: at least 1")

    @property
    def line_bits(self) -> int:
        """log2 of the size of a cache line."""
        return self.line_bytes.bit_length() - 1


@dataclass(frozen=True)
class ExtractedFile:
    """One file that was written: its path, the CPU's name ("" where the trace names none), rows and
    bytes."""

    path: str
    cpu: str
    rows: int
    bytes: int


@dataclass(frozen=True, repr=False)
class ExtractionResult:
    """What `extract` did.

    ``outputs``: the files.  ``anomalies``: damage that was survived, kind → ``count`` and, where it
    is known, ``first_offset`` (byte of the decompressed input; docs/inputs.md).  ``stats``: the
    source's numbers, of one output its file's.  ``input``: path, size and hashes of what was read.
    """

    outputs: list[ExtractedFile]
    anomalies: dict[str, dict[str, int]]
    stats: dict[str, Json]
    input: dict[str, Json] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Rows of all files."""
        return sum(o.rows for o in self.outputs)

    def to_dict(self) -> dict[str, object]:
        """For JSON (docs/json.md, "tracekit extract")."""
        return asdict(self)

    def _repr_html_(self) -> str:
        """For notebooks: the files, and what was survived."""
        files = [(o.path, o.cpu, f"{o.rows:,}", f"{o.bytes:,}") for o in self.outputs]
        out = html_table(counted(self.rows, "row"), files, ("file", "CPU", "rows", "bytes"))
        survived = [
            (k.replace("_", " "), f"{a['count']:,}")
            for k, a in self.anomalies.items()
            if k not in HARMLESS
        ]
        return out + (html_table("survived", survived) if survived else "")

    def __repr__(self) -> str:
        kinds = [k.replace("_", " ") for k in self.anomalies if k not in HARMLESS]
        survived = f" ({', '.join(kinds)})" if kinds else ""
        files = ", ".join(ascii(o.path)[1:-1] for o in self.outputs)
        return f"{files}: {counted(self.rows, 'row')}{survived}"
