"""The picture of ``tracekit compare``."""

from __future__ import annotations

from typing import Any

from tracekit.plotting import figure, save

__all__ = ["compare_plot"]


def _differ(pair: dict[str, Any]) -> bool:
    """Whether more than 0.0 % of the instructions do."""
    return bool(pair["differ"] >= 0.0005)


def compare_plot(result: dict[str, Any], path: str, *, force: bool = False) -> None:
    """Strict matches of each pair beside the majority's, and each program's Kendall."""
    pairs = result["ab"]["pairs"]
    programs = result["programs"]
    names = sorted(programs, key=lambda n: programs[n]["ab"]["kendall"])
    fig, axes = figure(max(9.0, 0.22 * len(names)), 7, rows=2)
    top, bottom = axes
    at = list(range(len(pairs)))
    for offset, key, color, label in (
        (-0.2, "strict", "#4c72b0", "model"),
        (0.2, "strict_majority", "#bbbbbb", "majority answer of the pair"),
    ):
        # Where no instruction's cycles differ there is nothing to be right about.
        drawn = [(x + offset, 100 * p[key]) for x, p in zip(at, pairs, strict=True) if _differ(p)]
        top.bar([x for x, _ in drawn], [y for _, y in drawn], 0.4, color=color, label=label)
    for x, p in zip(at, pairs, strict=True):
        place, color = (x - 0.2, "white") if _differ(p) else (x, "#666666")
        top.text(place, 2, f"{p['differ']:.1%}\ndiffer", ha="center", fontsize=6, color=color)
    top.set_xticks(at, [" : ".join(p["pair"]) for p in pairs], rotation=20, ha="right", fontsize=7)
    top.set_xlim(-0.6, len(pairs) - 0.4)
    top.set_ylim(0, 118)
    top.set_ylabel("right sign, % of instructions\nwhose cycles differ")
    kind = "seen programs, held-out blocks" if result["seen"] else "families that training left out"
    top.set_title(f"pairs of designs, instruction by instruction: {kind}", fontsize=9)
    top.legend(fontsize=7, loc="upper right", ncol=2)
    places = list(range(len(names)))
    values = [programs[n]["ab"] for n in names]
    bottom.plot(
        places,
        [v["kendall"] for v in values],
        "o",
        ms=4,
        color="#4c72b0",
        label="instructions (mean)",
    )
    bottom.plot(
        places,
        [v["program_kendall"] for v in values],
        "x",
        ms=5,
        color="#c44e52",
        label="total time",
    )
    bottom.set_xticks(places, names, rotation=90, fontsize=6)
    bottom.set_ylabel("Kendall's tau of the designs")
    bottom.legend(fontsize=7)
    bottom.grid(axis="y", lw=0.3)
    save(fig, path, force=force)
