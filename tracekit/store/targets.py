"""Targets on many machines in the file of the features: a block for each chunk, all machines of a
row side by side.

Most increments are below 255 cycles: a block is a byte for each, 255 where the number stands in
``far`` (u32, in the same order).  Where cycles are no whole numbers it is float32 instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.errors import FormatError, UsageError
from tracekit.store import _windows
from tracekit.store.frames import Compressor
from tracekit.store.index import expands
from tracekit.store.reader import TraceFile
from tracekit.store.writer import Output

__all__ = ["add_targets", "encode", "plane", "read_plane"]

LEVEL = 3
FAR = 255
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


def add_targets(
    trace: TraceFile,
    output: str,
    machines: tuple[str, ...],
    rows: int,
    block: Callable[[int, int], Array],
    notes: Mapping[str, Any],
    *,
    force: bool = False,
) -> None:
    """Write ``output``: all of ``trace`` as it is, and targets of its first ``rows`` rows.

    ``block(begin, end)`` gives cycles [rows, machines].  ``notes`` are kept in the index.
    """
    out = Output(output, force=force)
    compress = Compressor(LEVEL)
    blocks: list[dict[str, Any]] = []
    largest, fractions = 0, False
    try:
        for data in _pieces(trace):
            out.write(data)
        for meta in trace.index["chunks"]:
            begin, end = meta["first"], min(meta["first"] + meta["rows"], rows)
            if begin >= end:
                break
            kind, streams = encode(block(begin, end))
            fractions |= kind == "f4"
            if kind == "u1" and streams["far"]:
                largest = max(largest, int(np.frombuffer(streams["far"], "<u4").max()))
            places = {k: out.stream(v, compress) for k, v in streams.items()}
            if expands(sum(p[1] for p in places.values()), sum(p[2] for p in places.values())):
                raise UsageError(
                    f"{len(machines)} machines x {end - begin} rows of a chunk: too much to read",
                    path=output,
                    hint="extract with fewer --chunk-rows",
                )
            blocks.append({"kind": kind, **places})
        targets = {
            **notes,
            "machines": list(machines),
            "rows": rows,
            "dtype": "f4" if fractions else "u4" if largest > 0xFFFF else "u2",
            "blocks": blocks,
        }
        out.end({**trace.index, "targets": targets})
    finally:
        out.discard()


def _pieces(trace: TraceFile, size: int = 1 << 20) -> Iterable[bytes]:
    """Everything before the index: places in it stay what they are."""
    for at in range(0, trace.index_offset, size):
        yield trace.read_bytes(at, min(size, trace.index_offset - at))
