"""A picture of what was measured: loads by footprint and by stride, widths, the clock."""

from __future__ import annotations

from typing import Any

from tracekit.hardware.measure.computer import Calibration
from tracekit.hardware.measure.prefetchers import STRIDES
from tracekit.plotting import figure, save

__all__ = ["calibration_plot"]


def calibration_plot(found: Calibration, path: str, *, force: bool = False) -> None:
    """Cycles of a load by the size of what is walked through, with the sizes of caches that were
    found; of a load in a steady stride; latency and throughput of instruction forms."""
    fig, (loads, strides, forms) = figure(7.5, 9.5, 3)
    fig.suptitle(f"{found.machine.cpu}, {found.machine.clock_ghz:.2f} GHz", fontsize=10)
    _loads(loads, found)
    _strides(strides, found)
    _forms(forms, found)
    save(fig, path, force=force)


def _loads(ax: Any, found: Calibration) -> None:
    sizes = list(found.curve)
    ax.plot([s / 1024 for s in sizes], [found.curve[s] for s in sizes], ".-", color="#4c72b0")
    for key, name in (("l1d_kb", "L1D"), ("l2_kb", "L2"), ("l3_kb", "L3, usable")):
        if key in found.outcomes and (kb := found.outcomes[key].value):
            ax.axvline(kb, color="#c44e52", lw=1)
            ax.annotate(f" {name} {kb:,.0f} kB", (kb, ax.get_ylim()[1]), fontsize=7, va="top")
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_xlabel("kB walked through in random order")
    ax.set_ylabel("cycles a load")


def _strides(ax: Any, found: Calibration) -> None:
    there = [s for s in STRIDES if f"stride_{s}_cycles" in found.outcomes]
    at = range(len(there))
    ax.bar(at, [found.outcomes[f"stride_{s}_cycles"].value for s in there], color="#4c72b0")
    if "memory_cycles" in found.outcomes:
        ax.axhline(found.outcomes["memory_cycles"].value, color="#c44e52", lw=1, label="random")
        ax.legend(fontsize=7)
    ax.set_xticks(list(at), [f"{s:,}" for s in there], fontsize=7)
    ax.set_xlabel("bytes from one load to the next, memory that no cache holds")
    ax.set_ylabel("cycles a load")


def _forms(ax: Any, found: Calibration) -> None:
    both = [f for f in found.forms.latency if f in found.forms.throughput]
    x = [found.forms.throughput[f] for f in both]
    y = [found.forms.latency[f] for f in both]
    ax.plot(x, y, ".", color="#4c72b0", ms=4)
    slow = sorted(both, key=lambda f: -found.forms.latency[f])[:6]
    for f in slow:
        ax.annotate(f, (found.forms.throughput[f], found.forms.latency[f]), fontsize=6)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("cycles an instruction of independent copies")
    ax.set_ylabel("cycles of latency")
