"""Whether a sample says enough, and how much longer one would have to be."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracekit.estimation.student import student
from tracekit.prediction.live import Usage
from tracekit.prediction.sampling import Estimate
from tracekit.text import counted

__all__ = ["advice"]

#: Half a 95 % interval, as a share, above which a warning comes first; and what is aimed at.
WIDE, AIM = 0.25, 0.1
#: Fewer epochs say nothing of how they differ.
FEW = 4
_MOST = 100_000


def advice(
    found: Estimate, instructions: int, usage: Usage | None, *, sampled: bool
) -> tuple[list[str], dict[str, Any] | None]:
    """Warnings that belong in front of the figures, and what would be enough: ``half_interval``
    (a share), ``epochs``, ``seconds`` (None where nothing says how long an epoch took to come)."""
    n = len(found.weights)
    if not sampled:
        return [], None
    with np.errstate(invalid="ignore"):
        half = float(np.median(found.half / found.cpi))
        by_epochs = float(np.median(found.sampling / found.cpi))
    if n >= FEW and half <= WIDE:
        return [], None
    what = f"{counted(n, 'epoch')} of {counted(instructions, 'instruction')} in all"
    if n < 2:
        said = f"{what}: how far the figures may be off cannot be told"
        need, floor = 2 * FEW, 0.0
    else:
        said = f"{what}: ± {half:.0%} (median of the machines), so that their order says little"
        floor = float(np.sqrt(max(0.0, half**2 - by_epochs**2)))
        need = _epochs_for(n, by_epochs, max(AIM, floor))
    if n >= 2 and need <= n:  # what more of them shrink is the smaller part
        return [
            f"{said}. What caches held before an epoch accounts for most of it: "
            "try longer epochs (--epoch)"
        ], None
    seconds = usage.wall * need / n if usage is not None and not usage.ended else None
    enough = {"half_interval": AIM, "epochs": need, "seconds": seconds}
    aim = "to know more" if n < 2 else f"for ± {max(AIM, float(np.hypot(floor, AIM))):.0%}"
    if seconds is not None:
        todo = f"--seconds {seconds:.0f} (some {need} epochs) {aim}"
    elif usage is not None:
        todo = f"some {need} epochs {aim}: a longer run, a shorter --period, or --full"
    else:
        todo = f"a recording of some {need} epochs {aim}"
    if floor > AIM:
        todo += (
            "; what caches held before an epoch accounts for much of it: longer epochs (--epoch)"
        )
    return [f"{said}. Try {todo}"], enough


def _epochs_for(n: int, half: float, aim: float) -> int:
    """How many epochs like these ``n`` bring half the interval from ``half`` to ``aim``."""
    one = half * np.sqrt(n) / student(n - 1)
    k = FEW
    while k < _MOST and student(k - 1) * one / np.sqrt(k) > aim:
        k += max(1, k // 20)
    return k
