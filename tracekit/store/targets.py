"""Targets on many machines in the file of the features: a block for each chunk, all machines of a
row side by side.

Most increments are below 255 cycles: a block is a byte for each, 255 where the number stands in
``far`` (u32, in the same order).  Where cycles are no whole numbers it is float32 instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.errors import FormatError, UsageError
from tracekit.io.files import open_file
from tracekit.store import _windows
from tracekit.store.frames import Compressor
from tracekit.store.index import expands
from tracekit.store.reader import TraceFile
from tracekit.store.writer import Output

__all__ = [
    "BlockWriter",
    "Blocks",
    "add_targets",
    "copy_blocks",
    "encode",
    "plane",
    "read_plane",
]

LEVEL = 3
FAR = 255
_PIECE = 1 << 20
Array = npt.NDArray[Any]


def encode(cycles: Array) -> tuple[str, dict[str, bytes]]:
    """The kind of a block and its streams; ``cycles`` [rows, machines], finite and >= 0."""
    whole = cycles
    if cycles.dtype.kind == "f":
        with np.errstate(over="ignore", invalid="ignore"):
            whole = np.minimum(cycles, 0xFFFFFFFF).astype(np.uint32)
        if not np.array_equal(whole, cycles):
            return "f4", {"cycles": np.ascontiguousarray(cycles, "<f4").tobytes()}
    plane = np.minimum(whole, FAR).astype(np.uint8)
    far = whole[plane == FAR].astype("<u4")
    return "u1", {"cycles": plane.tobytes(), "far": far.tobytes()}


def plane(
    kind: str, streams: Mapping[str, bytes], numbers: int, path: str
) -> _windows.BytePlane | _windows.FloatPlane:
    """The ``numbers`` of a block, to ``take`` windows of rows from."""
    dtype = "<f4" if kind == "f4" else np.uint8
    values = np.frombuffer(streams["cycles"], dtype)
    if len(values) != numbers:
        raise FormatError("targets: a block of another size", path=path)
    if kind == "f4":
        return _windows.FloatPlane(values)
    try:
        return _windows.BytePlane(values, np.frombuffer(streams["far"], "<u4"))
    except ValueError as e:
        raise FormatError(f"targets: a block's {e}", path=path) from None


def read_plane(
    trace: TraceFile, block: Mapping[str, Any], numbers: int
) -> _windows.BytePlane | _windows.FloatPlane:
    """``plane`` of a block as the trace's index names it."""
    streams = {k: trace.stream(place) for k, place in block.items() if k != "kind"}
    return plane(block["kind"], streams, numbers, trace.path)


@dataclass(frozen=True)
class Blocks:
    """Blocks that stand in a file one after another: their entries in the index.  ``largest``: of
    the numbers that are 255 or more, 0 where there are none; ``fractions``: whether some are."""

    entries: list[dict[str, Any]]
    largest: int
    fractions: bool


class BlockWriter:
    """Appends chunks' targets of ``machines`` machines to a file, one chunk after another."""

    def __init__(self, out: Output, machines: int) -> None:
        self._out, self._machines = out, machines
        self._compress = Compressor(LEVEL)
        self._entries: list[dict[str, Any]] = []
        self._largest, self._fractions = 0, False

    def add(self, cycles: Array) -> None:
        """``cycles`` [rows, machines]: a chunk's, or those of its first rows."""
        kind, streams = encode(cycles)
        self._fractions |= kind == "f4"
        if kind == "u1" and streams["far"]:
            far = np.frombuffer(streams["far"], "<u4")
            self._largest = max(self._largest, int(far.max()))
        places = {k: self._out.stream(v, self._compress) for k, v in streams.items()}
        if expands(sum(p[1] for p in places.values()), sum(p[2] for p in places.values())):
            raise UsageError(
                f"{self._machines} machines x {len(cycles)} rows of a chunk: too much to read",
                path=str(self._out.path),
                hint="extract with fewer --chunk-rows",
            )
        self._entries.append({"kind": kind, **places})

    @property
    def blocks(self) -> Blocks:
        """What was written."""
        return Blocks(self._entries, self._largest, self._fractions)


def _moved(entry: Mapping[str, Any], by: int) -> dict[str, Any]:
    """An entry whose streams stand so much further behind."""
    return {k: v if k == "kind" else [v[0] + by, *v[1:]] for k, v in entry.items()}


def copy_blocks(out: Output, parts: Sequence[tuple[str, Blocks]]) -> Blocks:
    """Appends files that hold nothing but a `BlockWriter`'s chunks, one after another."""
    entries = []
    for path, own in parts:
        entries += [_moved(e, out.offset) for e in own.entries]
        with open_file(path) as f:
            while data := f.read(_PIECE):
                out.write(data)
    return Blocks(entries, max(b.largest for _, b in parts), any(b.fractions for _, b in parts))


def add_targets(
    trace: TraceFile,
    output: str,
    machines: tuple[str, ...],
    append: Callable[[Output], tuple[Blocks, int, Mapping[str, Any]]],
    *,
    force: bool = False,
) -> None:
    """Write ``output``: all of ``trace`` as it is, and targets of its first rows.  ``append``
    writes them, and tells how many rows have them and what is kept in the index, too."""
    out = Output(output, force=force)
    try:
        for data in _pieces(trace):
            out.write(data)
        blocks, rows, notes = append(out)
        targets = {
            **notes,
            "machines": list(machines),
            "rows": rows,
            "dtype": "f4" if blocks.fractions else "u4" if blocks.largest > 0xFFFF else "u2",
            "blocks": blocks.entries,
        }
        out.end({**trace.index, "targets": targets})
    finally:
        out.discard()


def _pieces(trace: TraceFile, size: int = _PIECE) -> Iterable[bytes]:
    """Everything before the index: places in it stay what they are."""
    for at in range(0, trace.index_offset, size):
        yield trace.read_bytes(at, min(size, trace.index_offset - at))
