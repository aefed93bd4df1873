"""Miss ratio curves of fully associative LRU caches, from stack distances.

One pass gives every size at once: an access hits in a cache of c lines exactly when its stack
distance is at most c (Mattson et al., IBM Systems Journal 9(2), 1970).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.errors import TracekitError, UsageError

#: Distances of this and above are first touches, or over the features' cap: misses in any cache.
NEVER = 100_000_000


@dataclass(frozen=True)
class MissRatioCurve:
    """``ratios[i]`` of the accesses miss in a cache of ``lines[i]`` lines, the sizes ascending."""

    lines: npt.NDArray[np.int64]
    ratios: npt.NDArray[np.float64]
    accesses: int
    #: Share of accesses that miss in every cache.
    cold: float

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
    1.
    """
    d = np.asarray(distances)
    if d.ndim != 1 or (d.size and d.dtype.kind not in "iu"):
        raise UsageError("distances: a one-dimensional array of integers is needed")
    d = d[d != 0]
    if d.size and d.min() < 0:
        raise UsageError("distances: none may be negative")
    values, counts = np.unique(d[d < NEVER], return_counts=True)
    hits = np.cumsum(counts)
    n, warm = int(d.size), int(hits[-1]) if hits.size else 0
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


def size_name(size: int) -> str:
    """Bytes in words: 32768 -> "32 KiB"."""
    power = min((max(size, 1).bit_length() - 1) // 10, 4)
    return f"{size / 1024**power:g} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"


def plot(
    curves: dict[str, MissRatioCurve], path: str | Path, *, line_size: int = 64, title: str = ""
) -> None:
    """Writes a picture of the curves: .png or .svg.  Needs matplotlib (the extra "plot")."""
    if Path(path).suffix.lower() not in (".png", ".svg"):
        raise UsageError("a plot is a .png or an .svg file", path=str(path))
    try:
        import matplotlib

        matplotlib.use("agg")
        from matplotlib import pyplot as plt
    except ImportError:
        raise UsageError("matplotlib is not installed", hint="pip install tracekit[plot]") from None
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
            label=f"{name} ({c.accesses:,} accesses)",
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
        fig.savefig(path, dpi=150)
    except OSError as e:
        raise TracekitError(f"cannot write: {e.strerror}", path=str(path)) from None
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
