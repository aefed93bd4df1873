"""SimPoint 3.2's files: frequency vectors (.bb), simulation points (.simpoints), weights."""

from __future__ import annotations

import io
import math
import os
import re
from array import array
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from tracekit.errors import FormatError, UsageError
from tracekit.io.files import read_limited
from tracekit.io.output import write_bytes
from tracekit.simpoint.clusters import SimulationPoint
from tracekit.simpoint.vectors import BlockVectors

__all__ = ["read_points", "read_vectors", "read_weights", "write_points", "write_vectors"]

StrPath = str | os.PathLike[str]
MAX_VECTORS: Final = 1 << 30
"""Bytes of a file of vectors."""
MAX_LIST: Final = 1 << 24
"""Bytes of a list of points or weights."""
_ENTRY = re.compile(rb":(\d{1,18}):(\d{1,18})\s*")
#: SimPoint prints weights with six digits, others with fewer.
_SUM_WITHIN = 0.01


def write_vectors(path: StrPath, vectors: BlockVectors, *, force: bool = False) -> None:
    """A line for each interval: ``T:block:instructions :block:instructions``."""
    lines = []
    for a, b in zip(vectors.begin, vectors.begin[1:], strict=False):
        pairs = zip(vectors.block[a:b].tolist(), vectors.count[a:b].tolist(), strict=True)
        lines.append("T" + "".join(f":{block}:{count} " for block, count in pairs) + "\n")
    write_bytes(path, "".join(lines).encode(), force=force)


def read_vectors(path: StrPath, length: int | None = None) -> BlockVectors:
    """The vectors of a file; ``length``: of an interval, else the mean of those there are.

    Raises `FormatError` with the line for what is no vector, and `UsageError` where intervals of
    that length are not what there is.
    """
    block, count, begin = array("q"), array("q"), array("q", [0])
    for number, line in _lines(path, MAX_VECTORS):
        at = 1
        while at < len(line) and (m := _ENTRY.match(line, at)):
            block.append(int(m[1]))
            count.append(int(m[2]))
            at = m.end()
        if line[:1] != b"T" or at < len(line) or not any(count[begin[-1] :]):
            raise _wrong(path, number, "no vector (T:block:count :block:count)")
        begin.append(len(block))
    if len(begin) == 1:
        raise FormatError("no vectors", path=os.fspath(path))
    if sum(count) >= 1 << 62:
        raise FormatError("more instructions than there can be", path=os.fspath(path))
    mean = max(1, sum(count) // (len(begin) - 1))
    if length and len(begin) > 2 and not mean <= 2 * length <= 4 * mean:
        raise UsageError(
            f"intervals of {length} instructions; there are {mean} in each", path=os.fspath(path)
        )
    blocks, counts, begins = (np.frombuffer(v, np.int64) for v in (block, count, begin))
    return BlockVectors(blocks, counts, begins, length or mean)


def write_points(
    points_path: StrPath,
    weights_path: StrPath,
    points: Sequence[SimulationPoint],
    *,
    force: bool = False,
) -> None:
    """Both lists, a line for each cluster: its interval, and its weight."""
    where = "".join(f"{p.interval} {p.cluster}\n" for p in points)
    weights = "".join(f"{p.weight:.17g} {p.cluster}\n" for p in points)
    write_bytes(points_path, where.encode(), force=force)
    write_bytes(weights_path, weights.encode(), force=force)


def read_weights(path: StrPath) -> dict[int, float]:
    """Cluster to weight, in the file's order; they add up to 1.

    Raises `FormatError` for what is no weight, and where they do not add up.
    """
    out: dict[int, float] = {}
    for number, line in _lines(path, MAX_LIST):
        m = re.fullmatch(rb"(\d[\d.]*(?:[eE][-+]?\d+)?) +(\d{1,9})", line)
        try:
            weight = float(m[1]) if m else math.nan
        except ValueError:
            weight = math.nan
        if m is None or not 0 <= weight <= 1 + _SUM_WITHIN:
            raise _wrong(path, number, "no line of a weight and a cluster")
        if int(m[2]) in out:
            raise _wrong(path, number, f"cluster {int(m[2])} a second time")
        out[int(m[2])] = weight
    if abs(sum(out.values()) - 1) > _SUM_WITHIN:
        raise FormatError(
            f"the weights add up to {sum(out.values()):.4g}, not to 1", path=os.fspath(path)
        )
    return out


def read_points(
    points_path: StrPath, weights_path: StrPath, intervals: int | None = None
) -> list[SimulationPoint]:
    """The points of two lists, in the order of their intervals; ``intervals``: how many the program
    has.

    Raises `FormatError` for what is none, for clusters without a weight, and for intervals that
    the program does not have.
    """
    weights = read_weights(weights_path)
    out: list[SimulationPoint] = []
    seen: set[int] = set()
    for number, line in _lines(points_path, MAX_LIST):
        m = re.fullmatch(rb"(\d{1,18}) +(\d{1,9})", line)
        if m is None:
            raise _wrong(points_path, number, "no line of an interval and a cluster")
        interval, cluster = int(m[1]), int(m[2])
        if cluster not in weights or cluster in seen:
            why = "a second time" if cluster in seen else f"has no weight in {weights_path}"
            raise _wrong(points_path, number, f"cluster {cluster} {why}")
        if intervals is not None and interval >= intervals:
            raise _wrong(
                points_path,
                number,
                f"interval {interval} of a program that has {intervals} of them: the list is of "
                "another program, or of other intervals",
            )
        seen.add(cluster)
        out.append(SimulationPoint(interval, cluster, weights[cluster]))
    if missing := sorted(weights.keys() - seen):
        raise FormatError(f"no interval for cluster {missing[0]}", path=os.fspath(points_path))
    return sorted(out, key=lambda p: p.interval)


def _wrong(path: StrPath, line: int, why: str) -> FormatError:
    return FormatError(why, path=f"{os.fspath(path)}:{line}")


def _lines(path: StrPath, most: int) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(io.BytesIO(read_limited(path, most)), 1):
        if stripped := line.strip():
            yield number, stripped
