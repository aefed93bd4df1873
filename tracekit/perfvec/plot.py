"""Pictures; matplotlib is imported when one is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tracekit.errors import UsageError

__all__ = ["error_plot", "figure", "machines_plot", "save"]


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
    """Error of each program over the machines, like PerfVec's Figure 3: as unseen and as seen
    program, its worst machine, and the best baseline beside it."""
    programs = result["unseen_programs_seen_machines"]["programs"]
    seen = result["seen_programs_seen_machines"]["programs"]
    there = {k: v for k, v in result["baselines"].items() if v is not None}
    best = min(there, key=lambda k: there[k]["mean"]) if there else None
    names = sorted(programs, key=lambda n: programs[n]["mean"])
    fig, ax = figure(max(6.0, 0.28 * len(names)), 4)
    at = range(len(names))

    def share(of: dict[str, Any], key: str) -> list[float]:
        return [100 * of[n][key] for n in names]

    ax.bar(at, share(programs, "mean"), color="#4c72b0", label="mean over machines, unseen")
    ax.bar(at, share(seen, "mean"), width=0.35, color="#a6bddb", label="seen")
    ax.plot(at, share(programs, "max"), "k_", label="worst machine, unseen")
    if best is not None:
        own = there[best]["programs"]
        ax.plot(at, share(own, "mean"), "D", ms=3.5, mfc="none", color="#dd8452", label=best)
    ax.axhline(
        100 * result["unseen_programs_seen_machines"]["mean"],
        color="#c44e52",
        lw=1,
        label="mean of all, unseen",
    )
    ax.set_xticks(list(at), names, rotation=90, fontsize=7)
    ax.set_ylabel("error of total time, %")
    ax.set_title("each program predicted by a model that has not seen its family")
    ax.set_xlim(-0.8, len(names) - 0.2)
    ax.legend(fontsize=7)
    save(fig, path)


def machines_plot(result: dict[str, Any], path: str) -> None:
    """CPI of a program on each machine with its 95 % interval, the fastest machine on the left; the
    dots above them are where caches that start cold would put it."""
    machines = result["machines"]
    fig, ax = figure(max(6.0, 0.34 * len(machines) + 1.5), 4)
    at = range(len(machines))
    cpi = [m["cpi"] for m in machines]
    half = [m["cpi_half_interval"] or 0.0 for m in machines]
    ax.bar(at, cpi, color="#4c72b0", label="CPI")
    ax.errorbar(
        at, cpi, yerr=half, fmt="none", ecolor="black", capsize=2, lw=1, label="95 % interval"
    )
    cold = [c * (1 + (m["cold_caches"] or 0.0)) for c, m in zip(cpi, machines, strict=True)]
    ax.plot(at, cold, ".", color="#c44e52", ms=4, label="caches cold")
    names = [
        f"{m['name']}  {m['ns_per_instruction']:.2f} ns" if m["ns_per_instruction"] else m["name"]
        for m in machines
    ]
    ax.set_xticks(list(at), names, rotation=90, fontsize=7)
    ax.set_ylabel("cycles an instruction")
    ax.set_ylim(bottom=0)
    title = " ".join(result["command"] or ["program"])
    ax.set_title(f"{title[:60]}: fastest machine first", fontsize=9)
    ax.legend(fontsize=7)
    save(fig, path)
