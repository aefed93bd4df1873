"""The index of a file as types; docs/feats-format.md has what each key means.

`index.check` is what makes an index that was read one of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from tracekit.io.json_types import Json

if TYPE_CHECKING:
    from typing_extensions import NotRequired

__all__ = ["AnomalyCount", "ChunkEntry", "Head", "Index", "Options", "Source", "Targets"]


class Head(TypedDict):
    """The first frame of a file."""

    format: int
    tracekit: str


class Options(TypedDict):
    """How a file was extracted."""

    line_bits: int
    history: NotRequired[int]
    start: NotRequired[int]
    cold: NotRequired[bool]
    count: NotRequired[int | None]
    clock_ps: NotRequired[int | None]
    binary: NotRequired[str | None]
    gem5_operands: NotRequired[bool]


class Source(TypedDict, total=False):
    """What a source tells; each format has some of these."""

    format: str
    squashed: int
    exec_lines: int
    blocks: int
    exec_flags: bool
    fetch_seq: bool
    missing_debug_flags: list[str]
    tick_unit: int
    unfinished: int
    contiguous: bool
    command: list[str]
    maps: dict[str, list[list[Json]]]
    epoch_lengths: dict[str, list[int]]
    machine: dict[str, Json]
    machine_notes: list[str]
    machine_unknown: str


class AnomalyCount(TypedDict):
    """How often one kind of damage was met, and the first place in the decompressed input."""

    count: int
    first_offset: NotRequired[int]


class ChunkEntry(TypedDict):
    """One chunk; a stream is a column's (offset, size in the file, size decompressed)."""

    first: int
    rows: int
    timed: bool
    tick_unit: int
    retired_before: int
    streams: dict[str, list[int]]


class Statics(TypedDict):
    """Where the static table is."""

    count: int
    forms: int
    op_names: dict[str, str]
    streams: dict[str, list[int]]


class Block(TypedDict):
    """One chunk's targets."""

    kind: str
    cycles: list[int]
    far: NotRequired[list[int]]


class Targets(TypedDict):
    """Cycles on several machines."""

    machines: list[str]
    rows: int
    dtype: str
    blocks: list[Block]


class Index(TypedDict):
    """All of a file but its columns."""

    level: str
    arch: str
    cpu: str
    rows: int
    options: Options
    input: dict[str, Json]
    source: Source
    anomalies: dict[str, AnomalyCount]
    bits: list[int]
    chunks: list[ChunkEntry]
    statics: Statics
    targets: NotRequired[Targets]
    binary: NotRequired[dict[str, Json]]
    xxh3_128: NotRequired[str]
