"""Datasets, training, prediction, tuning and exploration on small synthetic programs."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import synthetic
from hypothesis import given, settings
from hypothesis import strategies as st
from test_sim import MACHINE

import tracekit
from tracekit.calibration.informative_programs import (
    ProgramInformation,
    choose_programs,
    machine_information,
    most_informative,
)
from tracekit.calibration.machine_rows import add_machines, tune, write_machine
from tracekit.calibration.random_designs import random_designs
from tracekit.calibration.search_settings import Round, SearchSettings
from tracekit.cli.main import main
from tracekit.cluster import state_of
from tracekit.dataset import load_manifest
from tracekit.dataset.joining import join
from tracekit.errors import FormatError, TracekitError, UsageError
from tracekit.evaluation.ablation import CORES
from tracekit.evaluation.ranks import kendall, spearman
from tracekit.evaluation.recipe import _Cores
from tracekit.exploration import dse
from tracekit.exploration.dse import Space, explore, pareto
from tracekit.exploration.objective import Expression
from tracekit.mixture import load_model
from tracekit.mixture.family_folds import folds
from tracekit.mixture.fit import Sums, mixture_row
from tracekit.mixture.least_squares import nnls
from tracekit.prediction.trace_times import predict
from tracekit.sim import core_row, totals, walk
from tracekit.store.arrow import pandas_of

A, B = {**MACHINE, "name": "a"}, {**MACHINE, "name": "b", "width": 1, "l1d_lat": 4, "bp": "LTAGE"}
NEW = {**MACHINE, "name": "new", "width": 2, "clock_ghz": 1.0}
ROWS = 1200


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Six programs of three families, whose true cycles are 1.1 x (core a) and 0.9 x (core b)."""
    folder = tmp_path_factory.mktemp("data")
    programs = []
    for k in range(6):
        (folder / f"p{k}.txt").write_text(synthetic.text(k, ROWS, blocks=False, size=20 + 10 * k))
        tracekit.extract(str(folder / f"p{k}.txt"), str(folder / f"p{k}.zst"))
        with tracekit.open(str(folder / f"p{k}.zst")) as t:
            cycles = np.concatenate([w.cycles for w in walk(t, [A, B])])
        np.save(folder / f"p{k}.npy", (cycles * [1.1, 0.9]).T.astype(np.float32))
        join(
            str(folder / f"p{k}.zst"),
            [f"a,b={folder / f'p{k}.npy'}"],
            str(folder / f"p{k}.data.zst"),
        )
        programs.append(
            {
                "name": f"p{k}",
                "family": f"f{k // 2}",
                "data": f"p{k}.data.zst",
            }
        )
    for m in (A, B):
        (folder / f"{m['name']}.json").write_text(json.dumps(m))
    manifest = {
        "machines": {"a": "a.json", "b": "b.json"},
        "programs": programs,
    }
    (folder / "m.json").write_text(json.dumps(manifest))
    return folder


@pytest.fixture(scope="module")
def model(data):
    assert (
        main(["train", "perfvec", str(data / "m.json"), "-o", str(data / "model"), "--quiet"]) == 0
    )
    return data / "model"


def test_training_finds_the_mixture(data, model):
    found = load_model(model)
    assert found.names == ("a", "b")
    with tracekit.open(str(data / "p3.zst")) as t:
        result = predict(t, found).to_dict()
        true = np.load(data / "p3.npy").sum(axis=1)
    assert [m["cycles"] for m in result["machines"]] == pytest.approx(true.tolist(), rel=0.02)
    assert (model / "metrics.jsonl").read_text().count("\n") == 8


@pytest.mark.parametrize(
    ("machines", "told"),
    [
        (["nosuch"], "no program has times on machine nosuch"),
        (["a", "a"], "machine a is named twice"),
    ],
)
def test_machines_that_cannot_be_chosen_are_told(data, tmp_path, capsys, machines, told):
    argv = ["train", "perfvec", str(data / "m.json"), "-o", str(tmp_path / "x")]
    assert main([*argv, "--machines", *machines]) == 2
    error = capsys.readouterr().err
    assert (told in error and str(data / "m.json") in error) or "twice" in told
    assert not (tmp_path / "x" / "sums").exists()


def test_a_manifest_takes_machines_by_name(data, tmp_path):
    text = json.loads((data / "m.json").read_text())
    text["machines"]["b"] = "o3_small"
    (data / "named.json").write_text(json.dumps(text))
    assert load_manifest(data / "named.json").machines["b"] == dict(
        tracekit.machines()["o3_small"].to_dict()
    )
    (data / "o3_small").write_text((data / "a.json").read_text())  # a file comes before the name
    assert load_manifest(data / "named.json").machines["b"]["width"] == A["width"]
    (data / "o3_small").unlink()
    text["machines"]["b"] = "o3_smal"
    (data / "named.json").write_text(json.dumps(text))
    with pytest.raises(
        TracekitError,
        match=r"machines\.b: o3_smal: no machine has.*mean o3_small",
    ):
        load_manifest(data / "named.json")
    for name, fits in (("n" * 150, True), ("n" * 151, False), ("é" * 76, False)):
        text["programs"][0]["name"], text["machines"]["b"] = name, None
        (data / "named.json").write_text(json.dumps(text))
        if fits:
            load_manifest(data / "named.json")
            continue
        with pytest.raises(FormatError, match=r"programs.0.: the name has more than 150 bytes"):
            load_manifest(data / "named.json")


def test_tune_takes_a_machine_by_name(data, model, tmp_path):
    out = tmp_path / "n.json"
    argv = ["tune", str(data / "p0.data.zst"), "--name", "n", "--column", "a", "-o", str(out)]
    assert main([*argv[:2], *argv[1:]]) == 2 and not out.exists()
    assert main([*argv, "--model", str(model), "--parameters", "o3_small"]) == 0
    cores = json.loads(out.read_text())["cores"]
    assert any(c.get("rob") == tracekit.machines()["o3_small"].rob for c in cores)


def test_prediction_takes_one_name_and_each_once(data, model):
    p0 = str(data / "p0.zst")
    assert tracekit.predict(p0, model, machines="b").machines == ("b",)
    assert tracekit.predict(p0, model, machines=["b", "b", "a"]).machines == ("b", "a")
    with pytest.raises(UsageError, match="samples is 10, no plan"):
        tracekit.predict(p0, model, samples=10)
    for wrong in (np.zeros(3), np.zeros((2, 3)), np.float64(1), np.zeros((1, 1, 2))):
        with pytest.raises(UsageError, match="a representation of shape"):
            load_model(model).cycles(wrong)
    assert load_model(model).cycles(np.zeros((4, 2))).shape == (4, 2)


def test_dataframes_that_are_not_installed_are_told():
    class Table:
        def to_pandas(self):
            raise ModuleNotFoundError("No module named 'pandas'", name="pandas")

    with pytest.raises(UsageError, match="pandas is not installed"):
        pandas_of(Table())


def test_what_names_no_file_is_told(data, model, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    p0 = str(data / "p0.zst")
    for argv, told in (
        (["predict", p0, "--save", "."], "names no file"),
        (["predict", ""], "an empty name"),
        (["predict", "folder"], "folder: is a folder"),
        (["predict", "lua.feats"], "lua.feats: no such file, and no program of this name"),
        (["predict", "./lua"], "./lua: no such file, and no program of this name"),
        (
            ["simulate", p0, "-m", "u000", "--every", "100", "--samples", "9"],
            "--every and --samples",
        ),
        (["quantize", str(model), p0], "no network"),
    ):
        assert main(argv) == 2, argv
        error = capsys.readouterr().err
        assert told in error and error.count("\n") == 1, error


def test_training_again_gives_the_same_bytes(data, model):
    again = data / "again"
    again.mkdir()
    (again / "sums").mkdir()
    kept = sorted((model / "sums").glob("*.npz"))
    for f in kept[:3]:
        (again / "sums" / f.name).write_bytes(f.read_bytes())  # as if it had been killed half-way
    (again / "sums" / kept[3].name).write_bytes(kept[3].read_bytes()[:100])
    assert main(["train", "perfvec", str(data / "m.json"), "-o", str(again), "--quiet"]) == 0
    assert (again / "model.safetensors").read_bytes() == (model / "model.safetensors").read_bytes()


def test_sums_of_other_cores_are_made_again(data, tmp_path, monkeypatch):
    from tracekit.mixture import program_sums as module

    programs = load_manifest(data / "m.json").programs[:1]

    def sums():
        return module.collect(programs, [A, B], ["a", "b"], tmp_path, threads=1)[0]

    made = sums()
    (kept,) = tmp_path.glob("*.npz")
    np.savez(kept, x=made.x + 1, y=made.y, rows=np.array(made.rows))
    np.testing.assert_array_equal(sums().x, made.x + 1)  # as they lie there
    monkeypatch.setattr(module, "cores_digest", lambda: "other cores")
    np.testing.assert_array_equal(sums().x, made.x)


def test_parts_add_up(data, model, capsys):
    found = load_model(model)
    with tracekit.open(str(data / "p1.zst")) as t:
        whole = predict(t, found).to_dict()
        for by in ("phase", "pc"):
            parts = predict(t, found, by=by, phases=7).to_dict()["parts"]
            assert sum(p["rows"] for p in parts) == len(t)
            for m in whole["machines"]:
                assert sum(p["cycles"][m["name"]] for p in parts) == pytest.approx(
                    m["cycles"], rel=1e-6
                )
    assert (
        main(["predict", str(data / "p1.zst"), "--model", str(model), "--uarch", "b", "--json"])
        == 0
    )
    shown = json.loads(capsys.readouterr().out)
    assert shown["machines"][0]["cycles"] == pytest.approx(whole["machines"][1]["cycles"], rel=1e-6)
    assert main(["predict", str(data / "p1.zst"), "--model", str(model), "--uarch", "c"]) == 2


def test_the_engine_runs_the_model(data, model):
    infer = pytest.importorskip("tracekit.infer")
    with tracekit.open(str(data / "p0.zst")) as t:
        found = load_model(model)
        x = np.concatenate([w.cycles for w in walk(t, found.cores)])
    y = infer.load(model).predict(x)
    assert y.sum(axis=0) == pytest.approx(found.cycles(x.sum(axis=0, dtype=float)), rel=1e-3)


def test_the_shipped_model_is_whole():
    shipped = load_model()
    assert len(shipped.names) == 46 and shipped.arch == "arm"
    assert sum(f.stat().st_size for f in load_path().iterdir()) <= 4 << 20
    assert shipped.training["rows"] > 20_000_000


def load_path():
    from tracekit.mixture import default_model_path

    return default_model_path()


def test_a_damaged_model_is_refused(model, tmp_path):
    import shutil

    broken = tmp_path / "broken"
    shutil.copytree(model, broken)
    card = json.loads((broken / "card.json").read_text())
    card["simulated_cores"].reverse()
    (broken / "card.json").write_text(json.dumps(card))
    with pytest.raises(FormatError, match="column 0 is 'a', its core is 'b'"):
        load_model(broken)
    (broken / "model.safetensors").write_bytes(b"x" * 100)
    with pytest.raises(TracekitError):
        load_model(broken)


@pytest.mark.parametrize("known", [True, False])
def test_tuning_a_new_machine(data, model, tmp_path, known):
    small = SearchSettings(rounds=(Round(2000, 3, 0),), population=24, offers=2)
    found = load_model(model)
    traces = []
    for k in (0, 2):
        t = tracekit.open(str(data / f"p{k}.zst"))
        traces.append((t, np.concatenate([w.cycles for w in walk(t, [NEW])])[:, 0].astype(float)))
    tuned = tune(found, traces, "new", parameters=NEW if known else None, settings=small)
    write_machine(tmp_path / "new.json", tuned)
    wider = add_machines(found, [tmp_path / "new.json"])
    with tracekit.open(str(data / "p5.zst")) as t:
        cycles = dict(zip(wider.names, wider.cycles(wider.represent(t))[0], strict=True))
        before = found.cycles(found.represent(t))[0]
        true = float(totals(t, [NEW])[0, 0])
    assert [cycles["a"], cycles["b"]] == pytest.approx(before.tolist())
    assert cycles["new"] == pytest.approx(true, rel=0.01 if known else 0.15)
    with pytest.raises(UsageError, match="already knows"):
        add_machines(wider, [tmp_path / "new.json"])


def test_tuning_keeps_the_parameters_that_are_known(data, model, tmp_path):
    small = SearchSettings(rounds=(Round(1000, 2, 0),), population=24, offers=2)
    found = load_model(model)
    with tracekit.open(str(data / "p0.zst")) as t:
        traces = [(t, np.concatenate([w.cycles for w in walk(t, [NEW])])[:, 0].astype(float))]
        known = {"clock_ghz": 1.75, "l1d_kb": 16, "mem": "LPDDR3_1600_1x32"}
        tuned = tune(found, traces, "new", known=known, settings=small)
        assert tuned["machine"] == {**known, "name": "new"} and not tuned["parameters_known"]
        own = [c for c in tuned["cores"] if c["name"] in tuned["survivors"]]
        assert own and all(known.items() <= c.items() for c in own)
        write_machine(tmp_path / "new.json", tuned)
        assert add_machines(found, [tmp_path / "new.json"]).machines[-1]["clock_ghz"] == 1.75
        for wrong, message in (
            ({"widht": 3}, "no parameter .did you mean width"),
            ({"width": 0, "bp": "Best"}, "width is 0.*; bp is 'Best'"),
            ({"name": "n"}, "the name is no parameter"),
        ):
            with pytest.raises(UsageError, match=message):
                tune(found, traces, "new", known=wrong)
        for without in ({"parameters": NEW}, {"searched": 0}):
            with pytest.raises(UsageError, match="for a search"):
                tune(found, traces, "new", known=known, **without)


@pytest.mark.parametrize(
    ("known", "message"),
    [
        (["width"], "'width': NAME=VALUE"),
        (["width=2,"], "'': NAME=VALUE"),
        (["width=2", "width=3"], "width is given twice"),
        (["width=1.5"], "width is 1.5, no whole number"),
        (["width=nan"], "width is nan"),
        (["mem=SRAM,l9_kb=3"], "mem is 'SRAM'"),
    ],
)
def test_known_parameters_that_are_wrong_are_told(data, model, tmp_path, capsys, known, message):
    options = [x for k in known for x in ("--known", k)]
    arguments = ["tune", str(data / "p0.data.zst"), "--name", "n", "--column", "a", *options]
    assert main([*arguments, "-o", str(tmp_path / "n.json"), "--model", str(model)]) == 2
    told = capsys.readouterr().err
    assert message in told and "Traceback" not in told and not (tmp_path / "n.json").exists()
    both = [*arguments, "--parameters", str(data / "a.json"), "-o", str(tmp_path / "n.json")]
    assert main(both) == 2 and "--known: means nothing" in capsys.readouterr().err


def test_tune_reads_joined_files_and_arrays(data, model, tmp_path, capsys):
    cycles = np.load(data / "p0.npy")
    np.save(tmp_path / "one.npy", cycles[0])
    rows = []
    for source in (
        [str(data / "p0.data.zst"), "--column", "a"],
        [f"{data}/p0.zst={tmp_path}/one.npy"],
    ):
        out = [
            "--name",
            "x",
            "--parameters",
            str(data / "a.json"),
            "-o",
            str(tmp_path / "x.json"),
            "--force",
        ]
        assert main(["tune", *source, *out, "--model", str(model), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert abs(found["tuned_on"][0]["error"]) < 0.02 and found["parameters_known"]
        rows.append(found["row"])
    assert rows[0] == rows[1]
    arguments = ["tune", str(data / "p0.data.zst"), "--name", "zzz", "-o", str(tmp_path / "z.json")]
    assert main([*arguments, "--model", str(model)]) == 2
    assert "no targets of machine zzz" in capsys.readouterr().err


def test_exploring_ranks_by_the_objective(data, monkeypatch):
    space = Space(A, {"width": [1, 2, 4], "l1d_lat": [1, 4]}, "here")
    with tracekit.open(str(data / "p0.zst")) as t:
        result = explore(space, {"p0": t}, "(10 + width) * cycles / 2")
        monkeypatch.setattr(dse, "_TOGETHER", 4)  # in two turns
        assert explore(space, {"p0": t}, "(10 + width) * cycles / 2") == result
        true = (
            totals(t, space.machines)[0] * (10 + np.array([p["width"] for p in space.points])) / 2
        )
    assert result["programs"]["p0"]["ranking"] == np.argsort(true, kind="stable").tolist()
    # Known times of a few designs are taken over: half of what the cores say wherever width is 1.
    with tracekit.open(str(data / "p1.zst")) as t:
        raw = totals(t, space.machines)[0]
        truth = raw * np.array([0.5 if p["width"] == 1 else 1.0 for p in space.points])
        known = {"p1": {k: truth[k] for k in range(6)}}
        corrected = explore(space, {"p1": t}, "cycles", known)["programs"]["p1"]["cycles"]
        few = explore(space, {"p1": t}, "cycles", {"p1": {0: truth[0], 5: truth[5]}})
        (note,) = few["notes"]
        assert "known cycles of 2 designs correct nothing" in note
        assert few["programs"]["p1"]["cycles"] == raw.tolist()
        words = Space(A, {"bp": ["LocalBP", "LTAGE"]}, "here")
        many = {"p1": {0: 1e4, 1: 1e4}, "p0": {0: 1e4}}
        with tracekit.open(str(data / "p0.zst")) as other:
            found = explore(words, {"p1": t, "p0": other}, "cycles", many)
        assert found["notes"] == ["known cycles correct nothing: no number above 0 varies"]
    assert np.std(np.log(corrected / truth)) < 0.5 * np.std(np.log(raw / truth))
    assert pareto(np.array([1.0, 2, 3]), np.array([3.0, 3, 1])).tolist() == [True, False, True]


def test_evaluation_runs(data, tmp_path, capsys):
    args = ["cross-validate", str(data / "m.json"), "--work", str(tmp_path)]
    args += ["--folds", "3", "--json"]
    assert main(args) == 0
    out, err = capsys.readouterr()
    result = json.loads(out)
    assert "folds" not in err
    unseen = result["unseen_programs_seen_machines"]
    assert unseen["mean"] < 0.03 < result["baselines"]["constant CPI"]["mean"]
    names = {n for part in result["folds"] for n in part}
    assert names == {f"p{k}" for k in range(6)}
    for part in result["folds"]:
        assert len(part) == 2 and len({int(n[1:]) // 2 for n in part}) == 1
    assert main([*args[:4], "--folds", "100"]) == 0
    assert "tracekit: 3 families: 3 folds instead of 100\n" in capsys.readouterr().err


def test_programs_of_one_name_and_other_data_keep_their_own_aggregates(data, tmp_path):
    manifest = json.loads((data / "m.json").read_text())
    one, other = (dict(p) for p in manifest["programs"][:2])
    one["data"], other["data"] = other["data"], one["data"]
    swapped = {**manifest, "programs": [one, other, *manifest["programs"][2:]]}
    (data / "swapped.json").write_text(json.dumps(swapped))
    (tmp_path / "sums").mkdir()
    tables = [
        _Cores(load_manifest(data / name), tmp_path, None, 1, print, None).tables()
        for name in ("m.json", "swapped.json", "m.json")
    ]
    for a, b in ((0, 1), (2, 1)):
        np.testing.assert_array_equal(tables[a]["p0"], tables[b]["p1"])
        np.testing.assert_array_equal(tables[a]["p1"], tables[b]["p0"])


def test_evaluation_takes_parts_away(data, tmp_path, capsys):
    args = ["cross-validate", str(data / "m.json"), "--work", str(tmp_path), "--rows", "600"]
    assert main([*args, "--ablate", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert set(CORES) < set(result)
    # The cycles are 1.1 and 0.9 times those of the cores: without their widths they cannot be had.
    assert result["all of the cores"] < 0.03
    assert result["one width and one set of units for all"] > 1.4 * result["all of the cores"]
    assert result["nothing fitted: a machine is its own core"] == pytest.approx(0.1, abs=0.02)
    assert main([*args, "--folds", "3", "--random-designs", "3", "--tuning", "2"]) == 0
    shown = capsys.readouterr().out
    assert "2 programs each, 3 random designs" in shown and "parameters not known" in shown


def test_trained_models_are_evaluated_on_what_they_have_not_seen(data, tmp_path, capsys):
    manifest = json.loads((data / "m.json").read_text())
    (data / "held.json").write_text(json.dumps({**manifest, "test": ["f1"]}))
    model = str(tmp_path / "model")
    assert main(["train", "perfvec", str(data / "held.json"), "-o", model, "--quiet"]) == 0
    arguments = ["evaluate", str(data / "held.json"), "--model", model]
    assert main([*arguments, "--split", "families"]) == 2
    assert "--split: means nothing without a model of single" in capsys.readouterr().err
    assert main([*arguments, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert set(found["unseen"]["programs"]) == {"p2", "p3"}
    assert set(found["seen"]["programs"]) == {"p0", "p1", "p4", "p5"}
    assert found["unseen"]["mean"] < 0.03
    run = str(tmp_path / "run")
    for done in (0, 6):  # as tasks, and then from what they wrote down
        assert main([*arguments, "--json", "--run", run]) == 0
        assert json.loads(capsys.readouterr().out) == [found]
        assert len(state_of(run).done) == 6, done
    assert main([*arguments, "--json", "--run", run, "--rows", "1000"]) == 0
    assert json.loads(capsys.readouterr().out) != [found]


def test_the_program_that_tells_cores_apart_is_chosen():
    def program(name: str, a: float, b: float) -> Sums:
        x = np.full((20, 2), [a, b])
        return Sums(name, name, 20, x, x.copy())  # machine 0 is core 0, machine 1 core 1

    programs = [program("p0", 9, 9), program("p1", 5, 5), program("p2", 9, 1), program("p3", 7, 7)]
    assert choose_programs(programs, [-1, -1], [0, 1], 2)[0] == 2
    assert len(set(choose_programs(programs, [-1, -1], [0, 1], 9))) == 3
    row = mixture_row([programs[2]], 1)
    assert programs[3].x.sum(axis=0) @ row == pytest.approx(140, rel=0.2)


def test_programs_are_suggested_from_features_alone(data, model, capsys, monkeypatch, tmp_path):
    from tracekit.calibration.informative_programs import core_information, most_informative

    monkeypatch.setattr("tracekit.calibration.random_designs.RANDOM_DESIGNS", 3)
    paths = [str(data / f"p{i}.zst") for i in range(4)]
    named = tmp_path / "opt=2.zst"  # a name is taken whole
    named.write_bytes((data / "p0.zst").read_bytes())
    paths = [str(named), *paths[1:]]
    arguments = ["suggest", *paths, "--model", str(model), "--count"]
    assert main([*arguments, "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["suggested"]
    assert len(set(found)) == 2 and set(found) <= set(paths)
    assert main([*arguments, "2"]) == 0
    assert capsys.readouterr().out.split() == found
    assert main([*arguments, "2", "--run", str(tmp_path / "run")]) == 0
    assert capsys.readouterr().out.split() == found
    assert len(state_of(tmp_path / "run").done) == 4
    assert main([*arguments, "4"]) == 2
    capsys.readouterr()
    assert main([*arguments[:2], paths[0], *arguments[2:], "2"]) == 2
    assert f"{paths[0]} is given twice" in capsys.readouterr().err
    programs = []
    for path in paths:
        with tracekit.open(path) as trace:
            programs.append(core_information(trace, [A, B], 3))
            assert (programs[-1].x == programs[-1].y).all()
            cycles = np.concatenate([w.cycles for w in walk(trace, [A])]).astype(float)
            machine = machine_information(
                trace, [A, B], cycles
            )  # its bias is what good cores are off by
            assert machine.time_y == pytest.approx(machine.time_x[:1])
    assert most_informative(programs, 2) == most_informative(programs, 2)
    assert most_informative(programs, 3)[:2] == most_informative(programs, 2)


def test_programs_that_show_how_cores_differ_tell_most():
    """Time is a + b on some programs, a alone on others: both are needed, and enough."""
    r = np.random.default_rng(0)
    a, b = r.uniform(0, 3, (2, 24))
    programs = []
    for k in range(8):
        numbers = 30 * np.stack([a, a] if k % 2 else [b, b]) if k in (4, 5) else np.zeros((2, 24))
        time = np.exp(a + b * (k % 2))
        programs.append(ProgramInformation(numbers, numbers, time, time))
    assert set(most_informative(programs, 2)) == {4, 5}
    assert set(most_informative(programs, 2, [-1] * 24, range(24))) == {4, 5}
    assert len(most_informative(programs, 99)) == 7


def test_the_worst_program_counts_and_not_the_mean():
    """All programs take a, two of 24 take b too: what tells a alone leaves a small mean, and those
    two far off."""
    r = np.random.default_rng(1)
    a, b = 0.3 * r.normal(size=24), 0.3 * r.normal(size=24)
    told = [a, *[0 * a] * 22, b]
    programs = []
    for k, numbers in enumerate(told):
        time = np.exp(a + (2 * b if k in (5, 6) else 0.0))
        shown = 60 * np.stack([numbers, numbers])
        programs.append(ProgramInformation(shown, shown, time, time))
    assert most_informative(programs, 1) == [23]
    assert set(most_informative(programs, 2)) == {0, 23}


@pytest.mark.parametrize("own", [None, [2, -1, 0]])
def test_a_machine_is_foretold_without_its_own_core(own):
    """As many solutions as machines, each of the other cores alone, choose the same programs."""
    r = np.random.default_rng(5)
    time = np.exp(r.normal(0, 0.4, (6, 9)))
    x = r.normal(0, 20, (6, 4, 9))
    machines = 9 if own is None else 3
    programs = [
        ProgramInformation(v, v[:, :machines], t, t[:machines])
        for v, t in zip(x, time, strict=True)
    ]

    def error(chosen):
        errors = np.zeros((6 - len(chosen), machines))
        rest = [k for k in range(6) if k not in chosen]
        told = np.vstack([x[k] - x[k].mean(axis=1, keepdims=True) for k in chosen])
        for j in range(machines):
            others = [c for c in range(9) if c != (j if own is None else own[j])]
            a, b = told[:, others], told[:, j]
            parts = np.linalg.solve(a.T @ a + 300 * np.eye(len(others)), a.T @ b)
            parts += (1 - parts.sum()) / len(others)
            errors[:, j] = np.log(time[rest])[:, others] @ parts - np.log(time[rest, j])
        return (np.abs(errors).mean(axis=1) ** 3).mean()

    want = []
    for _ in range(3):
        want.append(min({*range(6)} - {*want}, key=lambda i: error([*want, i])))
    assert most_informative(programs, 3, own) == want


def test_random_designs_are_possible_and_the_same_again():
    drawn = random_designs([A, B], 9, seed=3)
    assert drawn == random_designs([A, B], 9, seed=3) != random_designs([A, B], 9, seed=4)
    assert len({c["name"] for c in drawn}) == 9
    for c in drawn:
        core_row(c)


def test_bad_manifests_say_what_is_wrong(data, tmp_path):
    good = json.loads((data / "m.json").read_text())
    path = tmp_path / "m.json"

    def refuse(match: str, **changes: object) -> None:
        for f in data.glob("*.json"):
            if f.name != "m.json":
                (tmp_path / f.name).write_text(f.read_text())
        path.write_text(json.dumps({**good, **changes}))
        with pytest.raises(TracekitError, match=match):
            load_manifest(path)

    refuse("unknown surprise", surprise=1)
    refuse("at least one program", programs=[])
    refuse("there twice", programs=[good["programs"][0]] * 2)
    refuse("unknown targets", programs=[{**good["programs"][0], "targets": "p0.npy"}])
    refuse("data is missing", programs=[{"name": "p0"}])
    refuse("no program is of family nope", test=["nope"])
    refuse("in validation and in test", test=["f0"], validation=["f0"])
    path.write_text("[" * 100_000)
    with pytest.raises(FormatError):
        load_manifest(path)


def test_one_family_is_too_few(data, tmp_path):
    m = json.loads((data / "m.json").read_text())
    m["programs"] = m["programs"][:2]
    (data / "one.json").write_text(json.dumps(m))
    with pytest.raises(UsageError, match="at least two families"):
        from tracekit.mixture.training import train_default

        train_default(load_manifest(data / "one.json"), tmp_path / "x")


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(1, 20))
def test_nnls_is_optimal(seed, columns, rows):
    r = np.random.default_rng(seed)
    a, b = r.normal(size=(rows + columns, columns)), r.normal(size=rows + columns)
    x = nnls(a, b)
    slope = a.T @ (a @ x - b)
    assert (x >= 0).all()
    assert (slope > -1e-7).all() and np.abs(slope[x > 0]).max(initial=0) < 1e-7


@given(
    st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=40),
    st.integers(2, 6),
    st.integers(0, 9),
)
def test_families_stay_together(families, count, seed):
    parts = folds(families, count, seed)
    assert sorted(i for p in parts for i in p) == list(range(len(families)))
    for f in set(families):
        assert sum(any(families[i] == f for i in p) for p in parts) == 1


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=25))
def test_rank_correlations(pairs):
    a, b = (np.array(x, float) for x in zip(*pairs, strict=True))
    n = len(pairs)
    signs = [
        (np.sign(a[i] - a[j]), np.sign(b[i] - b[j])) for i in range(n) for j in range(n) if i != j
    ]
    scale = math.sqrt(sum(x * x for x, _ in signs) * sum(y * y for _, y in signs))
    rank = lambda v: [sum(x < y for x in v) + sum(x == y for x in v) / 2 for y in v]  # noqa: E731
    if scale == 0:
        assert math.isnan(kendall(a, b)) and math.isnan(spearman(a, b))
    else:
        assert kendall(a, b) == pytest.approx(sum(x * y for x, y in signs) / scale)
        assert spearman(a, b) == pytest.approx(np.corrcoef(rank(a), rank(b))[0, 1])


numbers = st.floats(0.5, 9, allow_nan=False).map(lambda x: str(round(x, 3)))
trees = st.recursive(
    st.one_of(numbers, st.sampled_from(["x", "y"])),
    lambda t: st.one_of(
        st.tuples(t, st.sampled_from(["+", "-", "*", "/"]), t).map(
            lambda p: f"({p[0]} {p[1]} {p[2]})"
        ),
        t.map(lambda s: f"-{s}"),
        st.tuples(t, t).map(lambda p: f"max({p[0]},{p[1]})"),
        t.map(lambda s: f"({s}) ** 2"),
    ),
    max_leaves=12,
)


@given(trees)
def test_expressions_are_arithmetic(text):
    """Python itself is the oracle, in the tests only, on text that the test made."""
    try:
        expected = eval(text, {"__builtins__": {}}, {"x": 2.5, "y": 4.0, "max": max})
    except (ZeroDivisionError, OverflowError):
        return
    if not math.isfinite(expected) or abs(expected) > 1e200:
        return
    assert float(Expression(text)({"x": 2.5, "y": 4.0})) == pytest.approx(expected, rel=1e-9)


@given(st.text(max_size=40))
def test_no_text_crashes_the_parser(text):
    try:
        e = Expression(text)
        e(dict.fromkeys(e.names, 1.0))
    except UsageError:
        pass


def test_what_is_no_expression_is_refused():
    for text in (
        "",
        "1 +",
        "__import__('os')",
        "x.y",
        "(" * 500,
        "x[0]",
        "1 2",
        "log(1, 2)",
        "f(x)",
        "1 / 0",
    ):
        with pytest.raises(UsageError):
            Expression(text)({"x": 1.0})
