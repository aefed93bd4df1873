"""The picture of a validation: predicted over measured, and errors by program."""

from __future__ import annotations

import numpy as np

from tracekit.plotting import figure, save
from tracekit.validation.judging import Judgement

__all__ = ["plot"]

_COLOURS = {"development": "tab:blue", "test": "tab:orange", "fitting": "tab:grey"}


def plot(found: Judgement, path: str, machine: str, *, force: bool = False) -> None:
    """Writes a picture of every judged program: times an instruction, and errors below."""
    some = sorted((j for j in found.programs if j.program.judged), key=lambda j: j.error)
    fig, (top, bottom) = figure(max(8.0, 0.2 * len(some)), 9, rows=2)
    for half, colour in _COLOURS.items():
        own = [j for j in some if j.program.half == half]
        if not own:
            continue
        x = [1e9 * j.seconds / j.instructions for j in own]
        y = [1e9 * j.predicted / j.instructions for j in own]
        e = found.summary(half)["prediction"]
        label = f"{half}: mean {e['mean']:.0%}, median {e['median']:.0%}"
        top.scatter(x, y, s=14, color=colour, label=label)
    low = min(1e9 * min(j.seconds, j.predicted) / j.instructions for j in some)
    high = max(1e9 * max(j.seconds, j.predicted) / j.instructions for j in some)
    line = np.array([low / 1.2, high * 1.2])
    top.plot(line, line, color="grey", linewidth=0.8)
    top.fill_between(line, line / 1.2, line * 1.2, color="grey", alpha=0.15, label="within 20 %")
    top.set(
        xscale="log", yscale="log", title=machine,
        xlabel="measured, ns an instruction", ylabel="predicted",
    )  # fmt: skip
    top.legend()
    at = np.arange(len(some))
    bottom.bar(at, [100 * j.error for j in some], color=[_COLOURS[j.program.half] for j in some])
    bottom.set(ylabel="error, %", xlim=(-1, len(some)))
    bottom.set_xticks(at, [j.program.name for j in some], rotation=90, fontsize=6)
    save(fig, path, force=force)
