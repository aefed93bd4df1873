"""Miss ratio curves of fully associative LRU caches, from stack distances.

One pass gives every size at once: an access hits in a cache of c lines exactly when its stack
distance is at most c (Mattson et al., IBM Systems Journal 9(2), 1970).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit import schema
from tracekit.analysis.lru import StackDistance
from tracekit.errors import UsageError
from tracekit.extras import install_command
from tracekit.io.arrays import save_figure
from tracekit.progress import Progress
from tracekit.schema import NEVER
from tracekit.store.reader import TraceFile
from tracekit.text import counted, html_table

_AT_ONCE = 1 << 18

#: What an access is, for people.
ACCESSES = {
    "data": "each line that a row's access touches; the caches start empty at the first row",
    "fetch": "each row's line of its pc",
}


@dataclass(frozen=True, repr=False, eq=False)
class MissRatioCurve:
    """``ratios[i]`` of the accesses miss in a cache of ``lines[i]`` lines, the sizes ascending."""

    lines: npt.NDArray[np.int64]
    ratios: npt.NDArray[np.float64]
    accesses: int
    #: Share of accesses that miss in every cache.
    cold: float

    def __repr__(self) -> str:
        return (
            f"{counted(len(self.lines), 'size')} up to {counted(int(self.lines[-1]), 'line')}, "
            f"{counted(self.accesses, 'access', 'accesses')}, {100 * self.cold:.1f} % first touches"
        )

    def _repr_html_(self) -> str:
        """For notebooks: ratios at powers of two."""
        sizes = [1 << k for k in range(int(self.lines[-1]).bit_length())]
        ratios = self.at(sizes).tolist()
        rows = [(f"{n:,}", f"{100 * r:.2f} %") for n, r in zip(sizes, ratios, strict=True)]
        return html_table(repr(self), rows, ("lines", "misses"))

    def at(self, lines: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """The miss ratio at other sizes, from 0 (where all miss): of the next smaller one held."""
        i = np.searchsorted(self.lines, np.asarray(lines), side="right") - 1
        return np.where(i < 0, 1.0, self.ratios[np.maximum(i, 0)])


def miss_ratio_curve(
    distances: npt.ArrayLike, sizes: npt.ArrayLike | None = None
) -> MissRatioCurve:
    """The miss ratio of an LRU cache of each of ``sizes`` lines (strictly ascending, from 1 up).

    ``distances``: one stack distance an access, as from `tracekit.stack_distance` or the columns
    ``data_distance`` and ``fetch_distance`` of a file; 0 is no access, `NEVER` and above a miss in
    any cache.  Without ``sizes`` the curve is exact: a point at every size where it falls, and at
    1.  Raises `UsageError` where the arguments do not fit.  Source: Mattson et al., IBM Systems
    Journal 9(2), 1970.

    >>> import tracekit
    >>> tracekit.miss_ratio_curve(tracekit.stack_distance([1, 2, 2, 1]))
    2 sizes up to 2 lines, 4 accesses, 50.0 % first touches
    """
    d = np.asarray(distances)
    if d.ndim != 1 or (d.size and d.dtype.kind not in "iu"):
        raise UsageError("distances: a one-dimensional array of integers is needed")
    d = d[d != 0]
    if d.size and d.min() < 0:
        raise UsageError("distances: none may be negative")
    values, counts = np.unique(d[d < NEVER], return_counts=True)
    return _curve(values, counts, int(d.size), sizes)


def _curve(
    values: npt.NDArray[Any], counts: npt.NDArray[Any], n: int, sizes: npt.ArrayLike | None
) -> MissRatioCurve:
    """Of ``n`` accesses, of which ``counts`` have the distances ``values`` (ascending)."""
    hits = np.cumsum(counts)
    warm = int(hits[-1]) if hits.size else 0
    if sizes is None:
        lines = values.astype(np.int64)
        if not lines.size or lines[0] != 1:
            lines = np.concatenate([np.ones(1, np.int64), lines])
    else:
        lines = np.asarray(sizes, np.int64)
        if lines.ndim != 1 or (lines.size and lines[0] < 1) or (np.diff(lines) <= 0).any():
            raise UsageError("sizes: strictly ascending numbers of lines, from 1 up, are needed")
    at = np.searchsorted(values, lines, side="right")
    hit = np.concatenate([np.zeros(1, np.int64), hits])[at]
    ratios = (n - hit) / n if n else np.zeros(len(lines))
    return MissRatioCurve(lines, ratios, n, (n - warm) / n if n else 0.0)


class DistanceCounts:
    """How often each stack distance came, in 8 bytes a distance and a quarter to grow."""

    def __init__(self) -> None:
        self._counts = np.zeros(1024, np.int64)
        self.accesses = 0

    def add(self, distances: npt.NDArray[Any]) -> None:
        """More distances; 0 is no access."""
        d = distances[distances != 0]
        self.accesses += int(d.size)
        values, counts = np.unique(d[d < NEVER], return_counts=True)
        if not values.size:
            return
        if (top := int(values[-1])) >= len(self._counts):
            self._counts = np.concatenate(
                [self._counts, np.zeros(top + top // 4 + 1 - len(self._counts), np.int64)]
            )
        self._counts[values] += counts

    def curve(self, sizes: npt.ArrayLike | None = None) -> MissRatioCurve:
        """The curve so far; ``sizes`` as in `miss_ratio_curve`."""
        values = np.flatnonzero(self._counts)
        return _curve(values, self._counts[values], self.accesses, sizes)


def data_counts(trace: TraceFile, *, quiet: bool = True) -> DistanceCounts:
    """Stack distances of the data of a file, whose caches start empty at its first row.

    An access is a line that a row touches: one that crosses lines touches each, from the row's
    address on for the access size of its instruction (where that is unknown, one line).
    """
    bits = int(trace.index["options"]["line_bits"])
    stack, out = StackDistance(), DistanceCounts()
    sizes = trace.statics.access_size
    for number in _chunks(trace, "data", quiet):
        chunk = trace.chunk(number)
        memory = (chunk.column("bits") & schema.BITS["is_mem"][0]) != 0
        address = chunk.column("addr")[memory]
        size = np.maximum(sizes[chunk.column("static_id")[memory]], 1)
        for lines in _lines(address, size, bits):
            out.add(stack.access(lines))
    return out


def fetch_counts(trace: TraceFile, *, quiet: bool = True) -> DistanceCounts:
    """Stack distances of the instructions of a file: an access is a row's fetch of the line of its
    pc."""
    out = DistanceCounts()
    for number in _chunks(trace, "fetch", quiet):
        out.add(trace.chunk(number).column("fetch_distance"))
    return out


def _chunks(trace: TraceFile, what: str, quiet: bool) -> Iterator[int]:
    """The numbers of a file's chunks, with progress on standard error unless ``quiet``."""
    with Progress(f"{Path(trace.path).name}, {what}", len(trace), quiet=quiet) as progress:
        done = 0
        for number, chunk in enumerate(trace.index["chunks"]):
            yield number
            done += int(chunk["rows"])
            progress.update(done)


def _lines(
    address: npt.NDArray[np.uint64], size: npt.NDArray[Any], bits: int
) -> Iterator[npt.NDArray[np.uint64]]:
    """The lines that accesses touch, in order, about `_AT_ONCE` at a time."""
    shift = np.uint64(bits)
    first = address >> shift
    last = (address + (size.astype(np.uint64) - np.uint64(1))) >> shift
    count = np.where(last >= first, last - first + np.uint64(1), 1).astype(np.int64)
    ends = np.cumsum(count)
    begin = 0
    while begin < len(first):
        before = int(ends[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, before + _AT_ONCE, side="right")))
        n = count[begin:end]
        starts = np.cumsum(n) - n
        steps = np.arange(int(n.sum()), dtype=np.int64) - np.repeat(starts, n)
        yield np.repeat(first[begin:end], n) + steps.astype(np.uint64)
        begin = end


def size_name(size: int) -> str:
    """Bytes in words: 32768 -> "32 KiB"."""
    power = min((max(size, 1).bit_length() - 1) // 10, 4)
    return f"{size / 1024**power:g} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"


def plot(
    curves: dict[str, MissRatioCurve],
    path: str | Path,
    *,
    line_size: int = 64,
    title: str = "",
    force: bool = False,
) -> None:
    """Writes a picture of the curves: .png, .svg or .pdf.  Needs matplotlib (the extra "plot").
    One that exists is an error without ``force``."""
    if Path(path).suffix.lower() not in (".png", ".svg", ".pdf"):
        raise UsageError("a plot is a .png, .svg or .pdf file", path=str(path))
    try:
        import matplotlib

        matplotlib.use("agg")
        from matplotlib import pyplot as plt
    except ImportError:
        raise UsageError("matplotlib is not installed", hint=install_command("plot")) from None
    fig, ax = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
    largest = max((int(c.lines[-1]) for c in curves.values()), default=1)
    largest = 1 << (2 * largest - 1).bit_length()
    for i, (name, c) in enumerate(curves.items()):
        x = np.concatenate([c.lines, [largest]]) * line_size
        y = 100 * np.concatenate([c.ratios, c.ratios[-1:]])
        color = f"C{i}"
        ax.step(
            x,
            y,
            where="post",
            color=color,
            linewidth=1.8,
            label=f"{name} ({counted(c.accesses, 'access', 'accesses')})",
        )
        ax.axhline(100 * c.cold, color=color, linewidth=0.8, linestyle=":")
    ax.set_xscale("log", base=2)
    ax.set_xlim(line_size, largest * line_size)
    ticks = [line_size << k for k in range(0, largest.bit_length(), 1 + largest.bit_length() // 9)]
    ax.set_xticks(ticks, [size_name(t) for t in ticks])
    ax.set_ylim(bottom=0)
    ax.set_xlabel(f"size of the cache (fully associative LRU, {line_size}-byte lines)")
    ax.set_ylabel("accesses that miss, %")
    ax.set_title(title, fontsize=10)
    ax.grid(alpha=0.25)
    ax.plot([], [], color="gray", linewidth=0.8, linestyle=":", label="first touches")
    ax.legend(frameon=False)
    try:
        save_figure(fig, path, force=force)
    finally:
        plt.close(fig)


def as_dict(curve: MissRatioCurve) -> dict[str, Any]:
    """For JSON: sizes in lines and their miss ratios, the share of first touches, the accesses."""
    return {
        "accesses": curve.accesses,
        "cold": curve.cold,
        "lines": curve.lines.tolist(),
        "miss_ratio": curve.ratios.tolist(),
    }
