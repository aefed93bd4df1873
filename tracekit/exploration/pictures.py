"""The picture of ``tracekit dse``: a heat map of two parameters, times against a cost with the
Pareto designs named, or the designs in the order of their times."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.exploration.dse import Space, pareto
from tracekit.plotting import figure, save

__all__ = ["dse_plot"]

F64 = npt.NDArray[np.float64]
_RELATIVE = "cycles, relative to the fastest design"
#: Designs that a legend names.
_NAMED = 8


def dse_plot(
    result: dict[str, Any], space: Space, cost: str | None, path: str, *, force: bool = False
) -> None:
    """Writes it; ``result`` is `explore`'s, ``cost`` an expression of the parameters."""
    times = {
        name: np.array(p["cycles"]) / min(p["cycles"]) for name, p in result["programs"].items()
    }
    varied = [k for k, v in space.vary.items() if len(v) > 1]
    if cost is not None:
        _against_cost(times, space, cost, path, force)
    elif len(varied) == 2:
        _heat_maps(times, space, varied, path, force)
    elif len(varied) == 1:
        _line(times, space, varied[0], path, force)
    else:
        _in_order(times, space, path, force)


def _heat_maps(
    times: dict[str, F64], space: Space, varied: list[str], path: str, force: bool
) -> None:
    """One for each program: the first parameter upwards, the second to the right."""
    rows, columns = (space.vary[k] for k in varied)
    fig, axes = figure(2.5 + 0.9 * len(columns), (1.2 + 0.55 * len(rows)) * len(times), len(times))
    for ax, (name, y) in zip(np.atleast_1d(axes), times.items(), strict=True):
        grid = np.full((len(rows), len(columns)), np.nan)
        for point, value in zip(space.points, y.tolist(), strict=True):
            grid[rows.index(point[varied[0]]), columns.index(point[varied[1]])] = value
        image = ax.imshow(grid, origin="lower", aspect="auto", cmap="viridis_r")
        middle = (np.nanmin(grid) + np.nanmax(grid)) / 2
        digits = 2 if np.nanmax(grid) - np.nanmin(grid) > 0.1 else 3
        for (i, j), value in np.ndenumerate(grid):
            color = "white" if value > middle else "black"
            ax.text(j, i, f"{value:.{digits}f}", ha="center", va="center", fontsize=7, color=color)
        ax.set_xticks(range(len(columns)), [str(c) for c in columns], fontsize=7)
        ax.set_yticks(range(len(rows)), [str(r) for r in rows], fontsize=7)
        ax.set_xlabel(varied[1], fontsize=8)
        ax.set_ylabel(varied[0], fontsize=8)
        ax.set_title(name, fontsize=9)
        fig.colorbar(image, ax=ax).set_label("relative cycles", fontsize=7)
    save(fig, path, force=force)


def _against_cost(times: dict[str, F64], space: Space, cost: str, path: str, force: bool) -> None:
    x = space.values(cost)
    fig, ax = figure(7, 4.5)
    for name, y in times.items():
        (dots,) = ax.plot(x, y, ".", ms=4, alpha=0.5, label=name)
        front = np.flatnonzero(pareto(x, y))
        front = front[np.argsort(x[front], kind="stable")]
        color = dots.get_color()
        ax.plot(x[front], y[front], "o-", ms=4, color=color, lw=1, label=f"{name}: Pareto designs")
        for number, k in enumerate(front.tolist(), 1):
            ax.annotate(str(number), (x[k], y[k]), (3, 3), textcoords="offset points", fontsize=7)
            if number <= _NAMED:
                ax.plot([], [], " ", label=f"  {number}: {_design(space, k)}")
        if len(front) > _NAMED:
            ax.plot([], [], " ", label=f"  and {len(front) - _NAMED} more")
    ax.set_xlabel(f"cost: {cost}")
    ax.set_ylabel(_RELATIVE)
    ax.legend(fontsize=6, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    save(fig, path, force=force)


def _line(times: dict[str, F64], space: Space, varied: str, path: str, force: bool) -> None:
    values = space.vary[varied]
    fig, ax = figure(6, 4)
    for name, y in times.items():
        ax.plot(range(len(values)), y, "o-", ms=4, lw=1, label=name)
    ax.set_xticks(range(len(values)), [str(v) for v in values], fontsize=7)
    ax.set_xlabel(varied)
    ax.set_ylabel(_RELATIVE)
    ax.legend(fontsize=7)
    save(fig, path, force=force)


def _in_order(times: dict[str, F64], space: Space, path: str, force: bool) -> None:
    fig, ax = figure(7, 4.5)
    for name, y in times.items():
        order = np.argsort(y, kind="stable")
        (line,) = ax.plot(np.arange(1, len(y) + 1), y[order], ".-", ms=4, lw=0.8)
        line.set_label(f"{name}; fastest: {_design(space, int(order[0]))}")
    ax.set_xlabel("designs, the fastest first")
    ax.set_ylabel(_RELATIVE)
    ax.legend(fontsize=6)
    save(fig, path, force=force)


def _design(space: Space, number: int) -> str:
    return ", ".join(f"{k} {v}" for k, v in space.points[number].items())
