"""Intervals of `dse`, `evaluate` and `compare`: of sampling and of the model, and which differences
of a ranking lie within them."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import synthetic

import tracekit
from tracekit.cli.main import main
from tracekit.dataset import join
from tracekit.errors import UsageError
from tracekit.evaluation.intervals import judged_intervals
from tracekit.exploration.intervals import tied_with_best
from tracekit.mixture import load_model
from tracekit.mixture.residuals import Residuals, joined
from tracekit.neuroscalar.evaluation import _check_pairs
from tracekit.neuroscalar.intervals import (
    known_residuals,
    program_intervals,
    residuals_of,
    save_residuals,
)
from tracekit.prediction.intervals import Intervals
from tracekit.sim import Machine, totals, walk


def residuals(logs, names=None, machines=None):
    n, m = np.shape(logs)
    return Residuals(
        tuple(machines or (f"m{j}" for j in range(m))),
        tuple(names or (f"p{i}" for i in range(n))),
        tuple(f"f{i}" for i in range(n)),
        np.zeros(n),
        np.array(logs, float),
    )


@pytest.fixture(scope="module")
def lua(tmp_path_factory, golden):
    path = tmp_path_factory.mktemp("lua") / "lua.zst"
    tracekit.extract(golden / "lua.arm.trace.xz", path)
    return path


@pytest.fixture(scope="module")
def space(tmp_path_factory):
    base = Machine.load("u007").to_dict()
    path = tmp_path_factory.mktemp("space") / "space.json"
    vary = {"rob": [24, 192, 193], "l1d_lat": [2, 200]}
    path.write_text(json.dumps({"base": base, "vary": vary}))
    return path


def test_two_machines_that_err_alike_have_a_narrow_ratio():
    shared = np.random.default_rng(3).normal(0, 0.1, (60, 1))
    own = np.random.default_rng(4).normal(0, 0.01, (60, 3))
    r = residuals(shared + own)
    pair = r.pair_half(["m0", "m1", "other", "m2"], 0, 0.0)
    assert pair[0] == 0.0
    assert np.isnan(pair[2])
    assert (pair[[1, 3]] < 0.3 * r.half(["m1", "m2"], 0.0)).all()
    ratios = np.abs(r.logs[:, 1:] - r.logs[:, :1])
    spread = ratios.mean(axis=0)
    multiples = np.sort((ratios / spread).ravel())
    assert pair[[1, 3]] == pytest.approx(spread * multiples[math.ceil(0.95 * 119)])
    assert np.isnan(r.pair_half(["other", "m1"], 0, 0.0)[1])
    assert 0.9 < r.coverage()["pairs_held"] <= 1.0


def test_residuals_of_models_are_joined_over_common_programs():
    a = residuals([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]], "xyz", ["a", "b"])
    b = residuals([[1.0, 2.0], [3.0, 4.0]], "zx", ["c", "a"])
    both = joined([a, b])
    assert both.machines == ("a", "b", "c")
    assert both.programs == ("x", "z")
    assert both.logs.tolist() == [[0.1, 0.2, 3.0], [0.5, 0.6, 1.0]]
    assert both.families == ("f0", "f2")
    assert joined([a, residuals([[1.0], [2.0]], "zw", ["c"])]) is None


def test_designs_tie_where_their_objective_could_be_the_best():
    cycles = np.array([100.0, 104.0, 130.0])
    none = np.zeros(3)
    known = Intervals(none + 10, none, 0, 0.0)
    assert tied_with_best(cycles, 0, lambda c: c, known, 0.05).tolist() == [True, True, False]
    # A cost that grows faster than the cycles tells more apart, one that falls turns them round.
    assert tied_with_best(cycles, 0, lambda c: c**2 + [0, 2000, 0], known, 0.05).tolist() == [
        *(True, False, False)
    ]
    assert tied_with_best(cycles, 2, lambda c: -c, known, 0.05).tolist() == [False, False, True]
    sampled = Intervals(none + 10, np.array([30.0, 0.0, 20.0]), 40, 0.0)
    assert tied_with_best(cycles, 0, lambda c: c, sampled, 0.05).all()
    assert tied_with_best(cycles, 1, lambda c: c, known, math.nan).tolist() == [False, True, False]


def test_dse_carries_both_parts(lua, space, capsys):
    argv = ["dse", str(space), str(lua), "--json", "-q"]
    assert main(argv) == 0
    whole = json.loads(capsys.readouterr().out)["programs"]["lua"]
    with tracekit.open(lua) as trace:
        designs = [Machine.load("u007").to_dict() | {"rob": r, "l1d_lat": x}
                   for r in (24, 192, 193) for x in (2, 200)]  # fmt: skip
        assert whole["cycles"] == totals(trace, designs)[0].tolist()
    assert whole["sampling_half_interval"] == [0.0] * 6
    assert whole["half_interval"] == whole["model_half_interval"]
    share = np.array(whole["model_half_interval"]) / whole["cycles"]
    of_two = load_model(None, "arm").residuals.design_half(whole["strange"])
    assert share == pytest.approx(np.expm1(of_two[0]))
    tied = np.array(whole["tied_with_best"])
    near = np.log(np.array(whole["cycles"]) / min(whole["cycles"])) <= of_two[1]
    assert tied.tolist() == near.tolist()
    assert 2 <= tied.sum() < 6
    assert (whole["samples"], whole["warnings"]) == (0, [])
    few = ["--samples", "5", "--insts", "200", "--seed", "3"]
    assert main([*argv, *few]) == 0
    some = json.loads(capsys.readouterr().out)["programs"]["lua"]
    assert some["samples"] == 5
    assert min(some["sampling_half_interval"]) > 0
    parts = some["model_half_interval"], some["sampling_half_interval"]
    assert some["half_interval"] == pytest.approx(np.hypot(*parts))
    assert "5 samples" in some["warnings"][0]
    assert main([*argv[:3], "-q", "--top", "6", *few]) == 0
    text = capsys.readouterr().out
    assert text.index("warning: 5 samples") < text.index("  1. ")
    numbers = [x.rpartition("#")[2] for x in text.splitlines() if x.startswith("  ") and "#" in x]
    assert [*map(int, numbers)] == some["ranking"]  # which --known asks for
    assert "of the model, and of 5 samples; ~: perhaps as good as the best" in text
    assert text.count("% ") + text.count("%~") >= 6
    assert main([*argv, "--insts", "200"]) == 2
    assert "--insts: means nothing without --every or --samples" in capsys.readouterr().err


def test_in_order_designs_have_no_interval_of_a_model_that_has_none(lua, tmp_path, capsys):
    base = Machine.load("io_1w").to_dict()
    (tmp_path / "space.json").write_text(
        json.dumps({"base": base, "vary": {"cpu": ["o3", "minor"]}})
    )
    argv = ["dse", str(tmp_path / "space.json"), str(lua), "-q"]
    assert main([*argv, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    kinds = [d["cpu"] for d in found["designs"]]
    halves = dict(zip(kinds, found["programs"]["lua"]["half_interval"], strict=True))
    assert halves["o3"] > 0 and halves["minor"] is None


def test_designs_of_an_unknown_instruction_set_have_no_model_interval(tmp_path, space, capsys):
    lines = [f"I  00{0x401000 + 4 * (k % 9):06x},4" for k in range(900)]
    (tmp_path / "t.lackey").write_text("\n".join(lines) + "\n")
    tracekit.extract(tmp_path / "t.lackey", tmp_path / "t.zst", level="macro")
    argv = ["dse", str(space), str(tmp_path / "t.zst"), "-q"]
    assert main([*argv, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["programs"]["t"]
    assert found["half_interval"] == [None] * 6
    assert sum(found["tied_with_best"]) == 1
    assert main(argv) == 0
    assert "never compared" in capsys.readouterr().out


def test_intervals_are_judged_beside_the_truth():
    found = np.array([[100.0, 200.0], [100.0, 101.0]])
    true = np.array([[105.0, 300.0], [100.0, 99.0]])
    narrow = np.full((2, 2), 0.1)
    each = [Intervals(found[k] * 0.1, found[k] * 0.0, 0, 0.0, pairs=narrow) for k in range(2)]
    out = judged_intervals(["p", "q"], ["a", "b"], np.ones(2), found, true, each)
    assert out["held"] == 0.75
    assert out["median_half_width"] == pytest.approx(0.1)
    assert (out["told"], out["told_right"]) == (0.5, 1.0)
    assert out["machines"] == {"a": 1.0, "b": 0.5}
    assert out["programs"]["p"]["held"] == 0.5
    assert judged_intervals(["p"], ["a"], np.ones(1), found[:1], true[:1], [None]) is None


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a mixture's model, whose machines are 1.1 and 0.9 times two cores, and a
    manifest of programs that it has not seen."""
    folder = tmp_path_factory.mktemp("trained")
    machines = [{**Machine.load(n).to_dict(), "name": n} for n in ("u007", "o3_small")]
    programs = []
    for k in range(4):
        (folder / f"p{k}.txt").write_text(synthetic.text(k, 9000, blocks=False, size=20 + 10 * k))
        tracekit.extract(folder / f"p{k}.txt", folder / f"p{k}.zst")
        with tracekit.open(folder / f"p{k}.zst") as t:
            cycles = np.concatenate([w.cycles for w in walk(t, machines)])
        np.save(folder / f"p{k}.npy", (cycles * [1.1, 0.9]).T.astype(np.float32))
        targets = [f"u007,o3_small={folder / f'p{k}.npy'}"]
        join(str(folder / f"p{k}.zst"), targets, str(folder / f"p{k}.data.zst"))
        programs.append({"name": f"p{k}", "family": f"f{k}", "data": f"p{k}.data.zst"})
    for m in machines:
        (folder / f"{m['name']}.json").write_text(json.dumps(m))
    manifest = {"machines": {m["name"]: f"{m['name']}.json" for m in machines},
                "programs": programs}  # fmt: skip
    (folder / "train.json").write_text(json.dumps({**manifest, "programs": programs[:2]}))
    (folder / "all.json").write_text(json.dumps(manifest))
    argv = ["train", "perfvec", str(folder / "train.json"), "-o", str(folder / "m"), "--quiet"]
    assert main(argv) == 0
    return folder


def test_evaluate_carries_both_parts(trained, capsys):
    argv = ["evaluate", str(trained / "all.json"), "--model", str(trained / "m")]
    assert main([*argv, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)[0]
    assert found["unseen"]["intervals"] is None and found["unseen"]["warnings"] == {}
    few = ["--samples", "8", "--insts", "300", "--seed", "1"]
    assert main([*argv, "--json", *few]) == 0  # the samples are too few, whatever the model knows
    found = json.loads(capsys.readouterr().out)[0]["unseen"]
    assert found["intervals"] is None and set(found["warnings"]) == {"p2", "p3"}
    assert main([*argv, *few]) == 0
    assert "warning: p2: 8 samples" in capsys.readouterr().out
    known = residuals(
        np.random.default_rng(5).normal(0, 0.05, (30, 2)), machines=["u007", "o3_small"]
    )
    (trained / "m" / "residuals.json").write_text(json.dumps(known.as_dict()))
    assert main([*argv, "--json"]) == 0
    whole = json.loads(capsys.readouterr().out)[0]["unseen"]["intervals"]
    assert whole["held"] == 1.0
    assert set(whole["programs"]) == {"p2", "p3"}
    assert whole["sampling_median_half_width"] == 0.0
    assert main([*argv, "--json", *few]) == 0
    some = json.loads(capsys.readouterr().out)[0]["unseen"]["intervals"]
    assert some["sampling_median_half_width"] > 0
    assert some["programs"]["p2"]["samples"] == 8
    assert main([*argv, *few]) == 0
    text = capsys.readouterr().out
    assert text.index("warning: p2: 8 samples") < text.index("95 % intervals: ")
    assert main([*argv, *few, "--rows", "500"]) == 2
    assert "--rows: means nothing of samples" in capsys.readouterr().err


def single(totals_of, seen=False):
    """What `neuroscalar.evaluate` tells of programs."""
    machines = {"a": {}, "b": {}}
    programs = {
        f"p{k}": {
            "family": f"f{k}",
            "machines": {m: {"model": {"total": t}} for m, t in zip(machines, own, strict=True)},
        }
        for k, own in enumerate(totals_of)
    }
    return {"seen": seen, "machines": machines, "programs": programs}


def test_pairs_that_are_none_are_left_out_of_nothing():
    _check_pairs(["a0", "b0"], [("b0", "a0")])
    for pair, told in ((("a0", "nosuch"), "no machine nosuch"), (("a0", "a0"), "are no pair")):
        with pytest.raises(UsageError, match=told):
            _check_pairs(["a0", "b0"], [pair])


def test_a_sample_drawn_without_a_seed_can_be_drawn_again(lua, space, capsys):
    for argv in (["predict", str(lua)], ["simulate", str(lua), "-m", "u007"], ["dse", str(space),
                 str(lua)]):  # fmt: skip
        argv += ["-q", "--samples", "5", "--insts", "200"]
        assert main(argv) == 0
        text = capsys.readouterr().out
        seed = text.splitlines()[-1].removeprefix("samples drawn with --seed ")
        assert main([*argv, "--seed", seed]) == 0
        assert capsys.readouterr().out == text
        assert main([*argv, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found[0] if isinstance(found, list) else found)["seed"] != int(seed)


def test_what_a_model_of_instructions_is_off_by_is_kept_for_compare(tmp_path):
    errors = [[0.1, 0.12], [-0.2, -0.19], [0.05, 0.04]]
    found = residuals_of(single(errors))
    assert found.logs == pytest.approx(np.log1p(errors))
    assert residuals_of(single(errors, seen=True)) is None
    assert residuals_of(single(errors[:1])) is None
    with pytest.raises(UsageError, match="two unseen families"):
        save_residuals(single(errors[:1]), tmp_path)
    assert known_residuals([tmp_path]) is None
    save_residuals(single(errors), tmp_path)
    known = known_residuals([tmp_path, tmp_path])
    told = program_intervals(["a", "b", "c"], {"a": 100.0, "b": 101.0, "c": 100.5}, known)
    assert told["model_half_interval"]["a"] == pytest.approx(100 * (1 / 0.8 - 1), rel=1e-3)
    assert told["half_interval"]["c"] is None
    assert told["tied_with_fastest"] == {"a": True, "b": True, "c": False}
    apart = program_intervals(["a", "b"], {"a": 100.0, "b": 103.0}, known)
    assert apart["tied_with_fastest"] == {"a": True, "b": False}
    unknown = program_intervals(["a", "b"], {"a": 100.0, "b": 100.0}, None)
    assert unknown["half_interval"] == {"a": None, "b": None}
    assert unknown["tied_with_fastest"] == {"a": True, "b": False}
