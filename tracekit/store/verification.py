"""Checks of a whole file: checksums and frames by reading it, then what must hold between its
columns."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import numpy as np
import xxhash

from tracekit import schema
from tracekit.errors import TracekitError
from tracekit.store.chunk import Chunk
from tracekit.store.index_types import Index
from tracekit.store.reader import TraceFile
from tracekit.store.targets import read_plane

_PIECE = 1 << 20


def verify(path: str | os.PathLike[str]) -> list[str]:
    """What is wrong with a file, a line each; empty = nothing."""
    try:
        with TraceFile(path) as f:
            return list(_problems(f))
    except TracekitError as e:
        return [str(e)]


def _problems(f: TraceFile) -> Iterator[str]:
    if damage := list(_damage(f)):
        yield from damage
        return
    t = f.statics
    counts = np.zeros(len(t), np.int64)
    bits = np.zeros(8, np.int64)
    conditional = t.has("IsCondControl")
    for number in range(f.chunks):
        try:
            c = f.chunk(number)
            ids = c.column("static_id")
            counts += np.bincount(ids, minlength=len(t))
            b = c.column("bits")
            bits += np.array([int((b >> k & 1).sum()) for k in range(8)], np.int64)
            for problem in _chunk_problems(c, conditional[ids]):
                yield f"{f.path}: rows {c.first} to {c.first + c.rows - 1}: {problem}"
        except TracekitError as e:
            yield str(e)
    if "targets" in f.index:
        yield from _target_problems(f)
    if not np.array_equal(counts, t.count.astype(np.int64)):
        yield f"{f.path}: executions of the static instructions do not add up"
    if bits.tolist() != list(f.index["bits"]):
        yield f"{f.path}: counts of faults, branches or accesses do not add up"


def _damage(f: TraceFile) -> Iterator[str]:
    """What is not as it was written: the bytes before the index as a whole, then which frames."""
    want, got = f.index.get("xxh3_128"), xxhash.xxh3_128()
    for at in range(0, f.index_offset, _PIECE):
        got.update(f.read_bytes(at, min(_PIECE, f.index_offset - at)))
    if want is not None and got.hexdigest() != want:
        yield f"{f.path}: checksum of the file is wrong"
    ends = [(0, f.head_size)]
    for what, place in _places(f.index):
        ends.append((place[0], place[0] + place[1]))
        try:
            f.stream(place)
        except TracekitError as e:
            yield f"{e} ({what})"
    ends.append((f.index_offset, f.index_offset))
    ends.sort()
    for (_, end), (begin, _) in itertools.pairwise(ends):
        if begin != end:
            yield f"{f.path}: bytes that no frame holds, or two, at byte {min(begin, end)}"
            return


def _places(index: Index) -> Iterator[tuple[str, list[int]]]:
    """Every place in an index, and what stands there."""
    for c in index["chunks"]:
        for name, place in c["streams"].items():
            yield f"column {name} of the chunk at row {c['first']}", place
    for name, place in index["statics"]["streams"].items():
        yield f"static column {name}", place
    blocks = index["targets"]["blocks"] if "targets" in index else []
    for c, b in zip(index["chunks"], blocks, strict=False):
        yield f"targets (cycles) of the chunk at row {c['first']}", b["cycles"]
        if "far" in b:
            yield f"targets (far) of the chunk at row {c['first']}", b["far"]


def _target_problems(f: TraceFile) -> Iterator[str]:
    t, left = f.index["targets"], int(f.index["targets"]["rows"])
    for meta, b in zip(f.index["chunks"], t["blocks"], strict=False):
        values = np.empty((1, min(left, meta["rows"]), len(t["machines"])), t["dtype"])
        left -= min(left, meta["rows"])
        try:
            read_plane(f, b, values.size).take(np.zeros(1, np.int64), values)
        except TracekitError as e:
            yield str(e)
            continue
        if not np.isfinite(values).all() or (values < 0).any():
            yield f"{f.path}: targets of the chunk at row {meta['first']}: no number of cycles"


def _chunk_problems(
    c: Chunk, conditional: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> Iterator[str]:
    for name in schema.COLUMNS:
        if schema.COLUMNS[name].domain != "timed" or c.timed:
            c.column(name)
    memory = (c.column("bits") & schema.BITS["is_mem"][0]) != 0
    fetch = c.column("fetch_distance")
    if fetch.size and int(fetch.min()) < 1:
        yield "a fetch distance below 1"
    for name, spec in schema.COLUMNS.items():
        values = c.column(name) if spec.domain in ("memory", "branch") else None
        if values is None:
            continue
        inside = memory if spec.domain == "memory" else conditional
        if np.any(values[~inside]):
            yield f"{name} on rows that have none"
        if name.endswith("distance") and np.any(values[inside] < 1):
            yield f"{name} below 1"
    both = c.column("data_distance")
    for name in ("load_distance", "store_distance"):
        # A line is in the joint stack whenever it is in one of the two, and no deeper there by
        # itself.
        if np.any((both == schema.NEVER) & (c.column(name) != schema.NEVER) & memory):
            yield f"{name} of a line that no access touched before"
    if c.timed:
        untimed = (c.column("bits") & schema.BITS["untimed"][0]) != 0
        fault = (c.column("bits") & schema.BITS["fault"][0]) != 0
        if np.any((c.column("retire") != 0) & untimed):
            yield "a retire tick on an untimed row"
        if np.any((c.column("retire") == 0) & ~untimed & ~fault):
            yield "no retire tick on a row that retired"
