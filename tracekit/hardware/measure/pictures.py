"""A picture of what was measured: loads by footprint and by stride, widths, the clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tracekit.hardware.measure.forms import FormTimes
from tracekit.hardware.measure.prefetchers import STRIDES
from tracekit.plotting import figure, save

__all__ = ["calibration_plot"]


def calibration_plot(
    title: str,
    values: Mapping[str, float],
    curve: Mapping[int, float],
    forms: FormTimes,
    path: str,
    *,
    force: bool = False,
) -> None:
    """Cycles of a load by the size of what is walked through, with the sizes of caches that were
    found; of a load in a steady stride; latency and throughput of instruction forms."""
    fig, axes = figure(7.5, 9.5, 3)
    fig.suptitle(title, fontsize=10)
    _loads(axes[0], values, curve)
    _strides(axes[1], values)
    _forms(axes[2], forms)
    save(fig, path, force=force)


def _loads(ax: Any, values: Mapping[str, float], curve: Mapping[int, float]) -> None:
    sizes = list(curve)
    ax.plot([s / 1024 for s in sizes], [curve[s] for s in sizes], ".-", color="#4c72b0")
    for key, name in (("l1d_kb", "L1D"), ("l2_kb", "L2"), ("l3_kb", "L3, usable")):
        if kb := values.get(key):
            ax.axvline(kb, color="#c44e52", lw=1)
            ax.annotate(f" {name} {kb:,.0f} kB", (kb, ax.get_ylim()[1]), fontsize=7, va="top")
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_xlabel("kB walked through in random order")
    ax.set_ylabel("cycles a load")


def _strides(ax: Any, values: Mapping[str, float]) -> None:
    there = [s for s in STRIDES if f"stride_{s}_cycles" in values]
    at = range(len(there))
    ax.bar(at, [values[f"stride_{s}_cycles"] for s in there], color="#4c72b0")
    if "memory_cycles" in values:
        ax.axhline(values["memory_cycles"], color="#c44e52", lw=1, label="random")
        ax.legend(fontsize=7)
    ax.set_xticks(list(at), [f"{s:,}" for s in there], fontsize=7)
    ax.set_xlabel("bytes from one load to the next, memory that no cache holds")
    ax.set_ylabel("cycles a load")


def _forms(ax: Any, found: FormTimes) -> None:
    both = [f for f in found.latency if f in found.throughput]
    x = [found.throughput[f] for f in both]
    y = [found.latency[f] for f in both]
    ax.plot(x, y, ".", color="#4c72b0", ms=4)
    slow = sorted(both, key=lambda f: -found.latency[f])[:6]
    for f in slow:
        ax.annotate(f, (found.throughput[f], found.latency[f]), fontsize=6)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("cycles an instruction of independent copies")
    ax.set_ylabel("cycles of latency")
