"""Model intervals: quantiles of residuals on families that were not seen, and how results carry
them."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

import tracekit
from tracekit.errors import FormatError, UsageError
from tracekit.mixture import load_model
from tracekit.mixture.distribution import Distribution
from tracekit.mixture.model import default_model_path
from tracekit.mixture.residuals import RESIDUALS, WIDER, Residuals, strangeness
from tracekit.prediction.intervals import Intervals, added_intervals, tied_with_fastest
from tracekit.sim.microcode_loops import mean_turns
from tracekit.sim.sample_plan import FEW, SampledCycles, SamplePlan


def residuals(logs, strange=None, families=None):
    n, m = np.shape(logs)
    return Residuals(
        tuple(f"m{j}" for j in range(m)),
        tuple(f"p{i}" for i in range(n)),
        families or tuple(f"f{i}" for i in range(n)),
        np.zeros(n) if strange is None else np.array(strange),
        np.array(logs, float),
    )


def test_the_half_width_is_the_rank_that_conformal_prediction_names():
    # 39 programs: the 38th smallest of 40 places; of 10 programs no rank is high enough: the last.
    values = np.linspace(0.01, 0.39, 39)
    signs = np.where(np.arange(39) % 2, 1, -1)
    found = residuals((values * signs)[:, None]).half(["m0"], 0.0)
    assert found == pytest.approx(values[37])
    few = residuals((values[:10])[:, None])
    assert few.half(["m0"], 0.0) == pytest.approx(values[9])
    assert np.isnan(few.half(["other"], 0.0)).all()


def test_machines_share_a_quantile_in_multiples_of_their_own_spread():
    """Of 20 programs each has one outlier in 40 residuals; the second largest multiple counts."""
    logs = np.full((20, 2), 0.01)
    logs[3, 0], logs[7, 1] = 0.2, 0.02
    logs[:, 1] *= -2
    r = residuals(logs)
    spread = np.abs(logs).mean(axis=0)
    assert r.half(["m0", "m1"], 0.0) == pytest.approx(spread * 0.04 / spread[1])
    silent = residuals(np.zeros((20, 2)))
    assert (silent.half(["m0", "m1"], 0.0) == 0.0).all()


def test_unsigned_divisions_of_x86_are_strange():
    """Their micro-ops are as many as the values say: 10, and 5 for each turn, beside 100 here."""
    seen = Distribution(1000.0, {"mov": 900.0, "div": 100.0})
    parts = 10 + 5 * mean_turns("div")
    assert strangeness(Distribution(101.0, {"mov": 100.0, "div": 1.0}), seen) == pytest.approx(
        parts / (100 + parts)
    )
    assert strangeness(Distribution(101.0, {"mov": 100.0, "idiv": 1.0}), seen) > 0  # not seen
    assert strangeness(Distribution(10.0, {"mov": 10.0}), seen) == 0.0


def test_it_is_wider_outside_and_scaled_by_what_was_outside_itself():
    r = residuals(np.full((40, 2), 0.1), strange=[0.5] * 40)
    assert r.half(["m0"], 0.5) == pytest.approx(0.1)
    assert r.half(["m1"], 0.0) == pytest.approx(0.1 / (1 + 0.5 * WIDER))
    both = replace(r, cores=r.logs).design_half(0.5)
    assert both == pytest.approx((0.1, 0.0))


def test_intervals_of_exchangeable_families_hold_as_often_as_they_say():
    logs = np.random.default_rng(1).standard_t(3, (300, 8)) * 0.03
    found = residuals(logs).coverage()
    assert 0.93 < found["held"] < 0.97
    # A program of a family is not judged by its siblings.
    twins = residuals(
        np.repeat(logs[:40], 2, axis=0), families=tuple(f"f{i // 2}" for i in range(80))
    )
    assert twins.coverage()["held"] < 1


def test_moments_are_means_over_families_of_scaled_products():
    r = residuals([[0.1, 0.2], [0.3, -0.1], [0.5, 0.5]], [0.0, 0.0, 0.25], ["f", "f", "g"])
    scaled = np.array([[0.1, 0.2], [0.3, -0.1], [0.25, 0.25]])  # 1 + 4 * 0.25
    each = scaled[:, :, None] * scaled[:, None, :]
    names = r.machines
    assert r.moments(names) == pytest.approx(((each[0] + each[1]) / 2 + each[2]) / 2)
    assert r.moments(names, ["g"]) == pytest.approx((each[0] + each[1]) / 2)
    assert r.moments(names[::-1]) == pytest.approx(r.moments(names)[::-1, ::-1])
    assert r.moments([names[0], "nobody's"]) is None
    assert Residuals.wider([0.0, 0.25, 7.0]).tolist() == [1.0, 2.0, 5.0]


def test_a_file_comes_back_and_damaged_ones_are_refused(tmp_path):
    r = residuals([[0.1, -0.25], [0.5, 0.0]], strange=[0.0, 0.125])
    place = tmp_path / RESIDUALS
    place.write_text(json.dumps(r.as_dict()))
    again = Residuals.load(place)
    assert (again.logs == r.logs).all()
    assert again.cores is None
    assert again.design_half(0.0) is None
    with_cores = replace(r, cores=np.array([[0.25, -0.5], [0.125, 0.0]]))
    place.write_text(json.dumps(with_cores.as_dict()))
    assert (Residuals.load(place).cores == with_cores.cores).all()
    one, two = Residuals.load(place).design_half(0.0)
    assert (one, two) == pytest.approx((0.5 / 1.0, 0.75), rel=0.35)
    short = with_cores.as_dict()
    del short["programs"][0]["cores"]
    place.write_text(json.dumps(short))
    with pytest.raises(FormatError, match="residuals"):
        Residuals.load(place)
    assert again.families == r.families
    for wrong in ({}, [], {"machines": ["a"], "programs": []}, {**r.as_dict(), "machines": ["a"]}):
        place.write_text(json.dumps(wrong))
        with pytest.raises(FormatError, match="residuals"):
            Residuals.load(place)


@pytest.mark.parametrize(
    ("arch", "level"), [("arm", "micro"), ("x86", "macro"), ("x86", "micro"), ("riscv", "micro")]
)
def test_shipped_models_have_residuals_of_their_programs_and_machines(arch, level):
    model = load_model(None, arch, level)
    assert model.residuals is not None
    assert model.residuals.machines == model.names
    told = model.training["programs"]
    assert list(model.residuals.families) == [p["family"] for p in told]
    found = model.residuals.coverage()
    assert 0.90 <= found["held"] <= 0.97
    assert model.only(model.names[:2]).residuals is not None
    assert (default_model_path(arch, level) / RESIDUALS).stat().st_size < 100_000


def test_sums_of_results_add_the_models_errors_and_spread_the_samples():
    a = Intervals(np.array([3.0, 4.0]), np.array([4.0, 3.0]), 5, 0.1, ("few",))
    assert a.half.tolist() == [5.0, 5.0]
    both = added_intervals([a, a], [1.0, 2.0])
    assert both.model.tolist() == [9.0, 12.0]
    assert both.sampling == pytest.approx(np.array([4.0, 3.0]) * np.sqrt(5))
    assert (both.samples, both.warnings) == (10, ("few",))
    assert added_intervals([a, None], [1.0, 1.0]) is None


def test_ties_are_differences_within_both_intervals():
    seconds = np.array([1.0, 1.05, 1.2, np.nan])
    model = np.array([0.03, 0.05, 0.05, 0.1])
    none = np.zeros(4)
    assert tied_with_fastest(seconds, model, none).tolist() == [True, True, False, False]
    assert tied_with_fastest(seconds, none, model * 4).tolist() == [True, True, True, False]
    assert not tied_with_fastest(np.array([np.nan]), model[:1], none[:1]).any()
    # What is known of two machines together counts, where it is known.
    pairs = np.tile([0.0, 0.01, 0.3, np.nan], (4, 1))
    together = tied_with_fastest(seconds, model, none, pairs).tolist()
    assert together == [True, False, True, False]


def test_a_prediction_carries_both_parts(tmp_path):
    lines = []
    for k in range(9000):
        lines += ["I  00401000,4", f" L {0x10000000 + 64 * (k * 37 % 500):08x},8", "I  00401004,2"]
    (tmp_path / "t.lackey").write_text("\n".join(lines) + "\n")
    path = tmp_path / "t.zst"
    tracekit.extract(tmp_path / "t.lackey", path, level="macro")
    model = load_model(None, "x86")
    model.arch = ""  # lackey does not tell
    names = ["u007", "io_1w"]
    whole = tracekit.predict(path, model, machines=names)
    assert whole.intervals.samples == 0
    assert (whole.intervals.model > 0).all()
    plan = tracekit.sim.SamplePlan(length=300, count=12, seed=4)
    some = tracekit.predict(path, model, machines=names, samples=plan)
    # The first misses of its 500 lines are in the first stretches alone, which cost the most.
    assert some.cycles == pytest.approx(whole.cycles, rel=0.01)
    assert (some.intervals.sampling > 0).all()
    told = some.to_dict()
    assert told["samples"] in (11, 12, 13)
    assert "--samples 31" in told["warnings"][0]
    for entry, half in zip(told["machines"], some.intervals.half, strict=True):
        assert entry["half_interval"] == half
        parts = entry["model_half_interval"], entry["sampling_half_interval"]
        assert np.hypot(*parts) == pytest.approx(half)
    text = str(some)
    assert text.index("warning: ") < text.index("± 95 %") < text.index("of the model, and of")
    # Machines that the model was never compared with have no interval, and say so.
    other = model.with_machine({**tracekit.Machine.load("u008").to_dict(), "name": "mine"})
    found = tracekit.predict(path, other.only(["mine", "u007"]))
    assert np.isnan(found.intervals.model[0])
    assert found.to_dict()["machines"][0]["half_interval"] is None
    assert "?" in str(found)


@pytest.mark.parametrize(("rows", "length"), [(591_763, 10_000), (10_000_000, 10_000), (700, 50)])
def test_what_is_said_of_too_few_samples_makes_enough(rows, length):
    few = SampledCycles(
        np.ones(1), np.ones(1), [(k * 100, k * 100 + length) for k in range(5)], rows
    )
    options = few.warning().split("Try ")[1].split(", ")[0].split()
    told = dict(zip(options[::2], map(int, options[1::2]), strict=True))
    for seed in range(30):
        plan = SamplePlan(told.get("--insts", length), count=told["--samples"], seed=seed)
        ranges = plan.draw(rows, lambda most: np.zeros(0, np.intp), np.ones_like).ranges
        assert len(ranges) >= FEW
        assert replace(few, samples=ranges).warning() is None


def test_a_level_that_is_none():
    with pytest.raises(UsageError, match="level is 'nonsense'; macro or micro"):
        load_model(level="nonsense")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c["microarchitectures"][0]["parameters"].update(clock_ghz="3"), "not a number"),
        (lambda c: c["microarchitectures"][0]["parameters"].update(rob=-1), "rob is -1; from 1"),
        (lambda c: c["microarchitectures"].reverse(), "microarchitectures are not target_names"),
        (lambda c: c["features"].update(level="nano"), "level is 'nano'; micro or macro"),
    ],
)
def test_a_card_with_values_that_are_none(tmp_path, change, message):
    folder = tmp_path / "model"
    shutil.copytree(default_model_path("arm"), folder)
    card = json.loads((folder / "card.json").read_text())
    change(card)
    (folder / "card.json").write_text(json.dumps(card))
    with pytest.raises(FormatError, match=message):
        load_model(folder)
