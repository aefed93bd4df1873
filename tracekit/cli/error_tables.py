"""Errors of total time as tables: what ``cross-validate`` and ``evaluate`` print."""

from __future__ import annotations

import math
from typing import Any

__all__ = ["HEAD", "UNSAID", "line", "number", "print_intervals", "programs"]

UNSAID = "\N{EN DASH}"
HEAD = (
    f"{'total time':<34}{'mean':>7}{'median':>8}{'bias':>8}{'<25 %':>7}{'worst':>7}"
    f"{'rho':>7}{'min':>7}"
)


def number(value: float | None, form: str) -> str:
    """What could not be said is a dash."""
    return UNSAID if value is None else format(value, form)


def line(label: str, s: dict[str, Any] | None) -> None:
    """A row of the table: a summary of errors under a name."""
    if s is None:
        print(f"{label:<34}  needs scikit-learn")
        return
    print(
        f"{label:<34}{s['mean']:7.1%}{s['median']:8.1%}{s['bias']:+8.1%}"
        f"{s['programs_below_25']:7.0%}{s['worst_program']:7.1%}"
        f"{number(s['spearman_median'], '.3f'):>7}{number(s['spearman_min'], '.3f'):>7}"
    )


def programs(s: dict[str, Any]) -> None:
    """Each program's errors, the worst first."""
    for name, p in sorted(s["programs"].items(), key=lambda x: -x[1]["mean"]):
        print(
            f"  {name:<20}{p['mean']:7.1%} max {p['max']:6.1%} bias {p['bias']:+7.1%}"
            f" rho {number(p['spearman'], '.3f')}"
        )


def print_intervals(i: dict[str, Any] | None) -> None:
    """How intervals of programs' totals hold that come from the other unseen families."""
    if i is None:
        return
    told = f"95 % intervals of a program's total: {i['held']:.1%} hold, median half width "
    told += f"{i['median_half_width']:.1%}"
    if not math.isnan(i["pairs_held"]):
        told += f"; of the ratio of two designs' {i['pairs_held']:.1%} hold"
    print(told)
