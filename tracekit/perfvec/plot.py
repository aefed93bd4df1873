"""Pictures; matplotlib is imported when one is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tracekit.errors import UsageError

__all__ = ["error_plot", "figure", "save"]


def figure(width: float, height: float, rows: int = 1) -> tuple[Any, Any]:
    """A figure and its axes, ``rows`` of them one below the other."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise UsageError("a picture needs matplotlib", hint="pip install tracekit[plot]") from None
    fig = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(fig)
    return fig, fig.subplots(rows)


def save(fig: Any, path: str) -> None:
    """Write it; the format is the file's suffix."""
    if Path(path).suffix not in (".png", ".svg", ".pdf"):
        raise UsageError(f"{path}: a picture is .png, .svg or .pdf")
    fig.savefig(path, dpi=150)


def error_plot(result: dict[str, Any], path: str) -> None:
    """Mean and largest error of each program over the machines, like PerfVec's Figure 3."""
    programs = result["unseen_programs_seen_machines"]["programs"]
    names = sorted(programs, key=lambda n: programs[n]["mean"])
    fig, ax = figure(max(6.0, 0.28 * len(names)), 4)
    at = range(len(names))
    ax.bar(
        at, [100 * programs[n]["mean"] for n in names], color="#4c72b0", label="mean over machines"
    )
    ax.plot(at, [100 * programs[n]["max"] for n in names], "k_", label="worst machine")
    ax.axhline(
        100 * result["unseen_programs_seen_machines"]["mean"],
        color="#c44e52",
        lw=1,
        label="mean of all",
    )
    ax.set_xticks(list(at), names, rotation=90, fontsize=7)
    ax.set_ylabel("error of total time, %")
    ax.set_title("programs of families that the model has not seen")
    ax.legend(fontsize=7)
    save(fig, path)
