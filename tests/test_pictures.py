"""What pictures show: their axes, bars and legends."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("matplotlib")

import tracekit.plotting
from tracekit import plotting, sim
from tracekit.exploration import pictures
from tracekit.exploration.dse import Space
from tracekit.neuroscalar import plotting as comparing

BASE = sim.machines()["u007"].to_dict()


@pytest.fixture
def drawn(monkeypatch) -> list[Any]:
    """The figures that would be saved."""
    out: list[Any] = []
    for module in (plotting, pictures, comparing):
        monkeypatch.setattr(module, "save", lambda fig, path, **_: out.append(fig))
    return out


def explored(vary: dict[str, list[int]]) -> tuple[dict[str, Any], Space]:
    """Designs whose cycles fall with every parameter."""
    space = Space(BASE, vary, "space.json")
    cycles = [1e6 / sum(p.values()) for p in space.points]
    return {"programs": {"one": {"cycles": cycles}, "two": {"cycles": cycles}}}, space


def texts(ax: Any) -> list[str]:
    return [t.get_text() for t in ax.get_legend().get_texts()]


def test_a_grid_of_two_parameters_is_a_heat_map(drawn):
    pictures.dse_plot(*explored({"rob": [32, 64, 128], "lq": [16, 32]}), None, "x.png")
    first, second = (ax for ax in drawn[0].axes if ax.images)
    assert first.images[0].get_array().shape == (3, 2)
    assert (first.get_ylabel(), first.get_xlabel()) == ("rob", "lq")
    assert first.images[0].get_array().argmin() == 5  # the largest of both is fastest
    assert len(second.texts) == 6 and second.get_title() == "two"


def test_pareto_designs_are_named(drawn):
    result, space = explored({"rob": [32, 64, 128], "lq": [16, 32]})
    pictures.dse_plot(result, space, "rob + lq", "x.png")
    (ax,) = drawn[0].axes
    found = texts(ax)
    assert "one: Pareto designs" in found and "  1: rob 32, lq 16" in found
    assert ax.get_xlabel() == "cost: rob + lq"


def test_other_grids(drawn):
    pictures.dse_plot(*explored({"rob": [32, 64, 128]}), None, "x.png")
    assert drawn[0].axes[0].get_xlabel() == "rob"
    pictures.dse_plot(*explored({"rob": [32, 64], "lq": [8, 16], "sq": [8, 16]}), None, "x.png")
    assert texts(drawn[1].axes[0])[0] == "one; fastest: rob 64, lq 16, sq 16"
    y = drawn[1].axes[0].lines[0].get_ydata()
    assert (y[1:] >= y[:-1]).all() and y[0] == 1


def test_no_bars_where_nothing_differs(drawn):
    pair = {"strict": 0.9, "strict_majority": 0.6}
    pairs = [{**pair, "pair": ("a", k), "differ": d} for k, d in (("b", 0.1), ("c", 0.0004))]
    programs = {"p": {"ab": {"kendall": 0.5, "program_kendall": 1.0}}}
    comparing.compare_plot({"ab": {"pairs": pairs}, "seen": True, "programs": programs}, "x.png")
    top = drawn[0].axes[0]
    assert sorted(b.get_height() for b in top.patches) == [60, 90]
    assert [t.get_text() for t in top.texts] == ["10.0%\ndiffer", "0.0%\ndiffer"]


@pytest.mark.parametrize(("largest", "scale"), [(0.05, "linear"), (3.0, "log")])
def test_outliers_rule_no_scale(drawn, largest, scale):
    means = [*(0.02 + 0.001 * k for k in range(8)), largest]
    programs = {f"p{k}": {"mean": m, "max": 1.2 * m} for k, m in enumerate(means)}
    of = {"mean": 0.03, "programs": programs}
    plotting.error_plot(
        {"unseen_programs_seen_machines": of, "seen_programs_seen_machines": of, "baselines": {}},
        "x.png",
    )
    assert drawn[0].axes[0].get_yscale() == scale


def test_time_is_drawn_fastest_first(drawn):
    machine = {"cpi_half_interval": 0.1, "cold_caches": 0.1, "ns_half_interval": 0.05}
    machines = [
        {**machine, "name": "fast", "cpi": 3.0, "ns_per_instruction": 0.5},
        {**machine, "name": "slow", "cpi": 1.0, "ns_per_instruction": 0.9},
        {**machine, "name": "unknown", "cpi": 0.7, "ns_per_instruction": None},
    ]
    tracekit.plotting.machines_plot({"machines": machines, "command": ["x"]}, "x.png")
    (ax,) = drawn[0].axes
    assert [b.get_height() for b in ax.patches] == [0.5, 0.9]
    assert ax.get_ylabel() == "ns an instruction"
    for m in machines:
        m["ns_per_instruction"] = None
    tracekit.plotting.machines_plot({"machines": machines, "command": ["x"]}, "x.png")
    assert [b.get_height() for b in drawn[1].axes[0].patches] == [3.0, 1.0, 0.7]
