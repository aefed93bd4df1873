"""Pictures; matplotlib is imported when one is asked for."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from tracekit.errors import UsageError
from tracekit.extras import install_command
from tracekit.io.arrays import save_figure
from tracekit.io.output import check_output

__all__ = ["check_picture", "error_plot", "figure", "machines_plot", "save"]


#: The largest error over the median program's from which on a scale is logarithmic.
OUTLIERS = 10


def figure(width: float, height: float, rows: int = 1) -> tuple[Any, Any]:
    """A figure and its axes, ``rows`` of them one below the other."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise _no_matplotlib() from None
    fig = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(fig)
    return fig, fig.subplots(rows)


def check_picture(path: str | None, force: bool) -> None:
    """Raises UsageError where ``path`` has no picture's suffix or nothing draws it, TracekitError
    where it must not be replaced; None is nothing.  Called before the work that is drawn."""
    if path is None:
        return
    if Path(path).suffix not in (".png", ".svg", ".pdf"):
        raise UsageError(f"{path}: a picture is .png, .svg or .pdf")
    check_output(path, force)
    if importlib.util.find_spec("matplotlib") is None:
        raise _no_matplotlib()


def _no_matplotlib() -> UsageError:
    return UsageError("a picture needs matplotlib", hint=install_command("plot"))


def save(fig: Any, path: str, *, force: bool = False) -> None:
    """Write it; the format is the file's suffix."""
    check_picture(path, force)
    save_figure(fig, path, force=force)


def error_plot(result: dict[str, Any], path: str, *, force: bool = False) -> None:
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
    worst = share(programs, "max")
    if max(worst) > OUTLIERS * sorted(share(programs, "mean"))[len(names) // 2]:
        ax.set_yscale("log")  # a few programs would make all others' bars invisible
    ax.set_ylabel("error of total time, %")
    ax.set_title("each program predicted by a model that has not seen its family")
    ax.set_xlim(-0.8, len(names) - 0.2)
    ax.legend(fontsize=7)
    save(fig, path, force=force)


def machines_plot(result: dict[str, Any], path: str, *, force: bool = False) -> None:
    """Time of an instruction of a program on each machine with its 95 % interval, the fastest
    machine on the left; the dots above them are where caches that start cold would put it.
    Machines whose clock is not known have no time and are left out; where none has one, the bars
    are cycles."""
    timed = [m for m in result["machines"] if m["ns_per_instruction"]]
    machines = timed or result["machines"]
    value, interval = (
        ("ns_per_instruction", "ns_half_interval") if timed else ("cpi", "cpi_half_interval")
    )
    fig, ax = figure(max(6.0, 0.34 * len(machines) + 1.5), 4)
    at = range(len(machines))
    bars = [m[value] for m in machines]
    half = [m[interval] or 0.0 for m in machines]
    ax.bar(at, bars, color="#4c72b0", label="time" if timed else "cycles")
    ax.errorbar(
        at, bars, yerr=half, fmt="none", ecolor="black", capsize=2, lw=1, label="95 % interval"
    )
    cold = [b * (1 + (m["cold_caches"] or 0.0)) for b, m in zip(bars, machines, strict=True)]
    ax.plot(at, cold, ".", color="#c44e52", ms=4, label="caches cold")
    names = [f"{m['name']}  CPI {m['cpi']:.2f}" for m in machines]
    ax.set_xticks(list(at), names, rotation=90, fontsize=7)
    ax.set_ylabel("ns an instruction" if timed else "cycles an instruction")
    ax.set_ylim(bottom=0)
    title = " ".join(result["command"] or ["program"])
    ax.set_title(f"{title[:60]}: fastest machine first", fontsize=9)
    ax.legend(fontsize=7)
    save(fig, path, force=force)
