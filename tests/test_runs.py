"""Runs over many traces: what is done is not done again, what fails fails alone, pieces give the
same numbers as the whole."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import synthetic

import tracekit
from tracekit.cli.main import main
from tracekit.cluster import run as run_module
from tracekit.cluster.kinds import KINDS
from tracekit.cluster.many import extract_many, predict_many, simulate_many
from tracekit.cluster.packing import from_text, to_text
from tracekit.cluster.perform import OTHER_VERSION, perform
from tracekit.cluster.run import Run, values
from tracekit.cluster.run_folder import RunFolder, locked
from tracekit.cluster.summary import state_of
from tracekit.cluster.task import Task
from tracekit.errors import FormatError, TracekitError, UsageError
from tracekit.mixture.model import load_model
from tracekit.sim import spread as spread_module
from tracekit.sim import totals
from tracekit.sim.spread import pieces, spread_totals
from tracekit.store.instruction_bounds import instruction_count
from tracekit.text import shown

TRACES = 4


@pytest.fixture(scope="module")
def traces(tmp_path_factory) -> list[Path]:
    folder = tmp_path_factory.mktemp("traces")
    out = []
    for k in range(TRACES):
        out.append(folder / f"t{k}.out")
        out[-1].write_text(synthetic.text(20 + k, 600 + 100 * k))
    return out


@pytest.fixture(scope="module")
def feats(traces, tmp_path_factory) -> list[Path]:
    folder = tmp_path_factory.mktemp("features")
    out = []
    for t in traces:
        out.append(folder / f"{t.stem}.zst")
        tracekit.extract(t, out[-1])
    return out


def extracted(traces, folder: Path, *more: str) -> int:
    return main(["extract", *map(str, traces), "-o", f"{folder}/", "--run", str(folder), *more])


def content(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(folder.glob("*.zst"))}


def counted(monkeypatch) -> list[str]:
    """Names of the tasks that are done from now on."""
    done: list[str] = []
    real = KINDS["extract"]

    def one(task, options, threads):
        done.append(task.name)
        return real(task, options, threads)

    monkeypatch.setitem(KINDS, "extract", one)
    return done


def test_a_second_run_does_only_what_is_missing(traces, tmp_path, monkeypatch, capsys):
    done = counted(monkeypatch)
    assert extracted(traces[:3], tmp_path) == 0 and len(done) == 3
    first = content(tmp_path)
    alone = tmp_path / "alone.feats"
    tracekit.extract(traces[0], alone)
    assert first["t0.feats.zst"] == alone.read_bytes()
    assert extracted(traces, tmp_path) == 0 and done[3:] == ["t3.out"]
    assert "3 of 4 were done before" in capsys.readouterr().err
    (tmp_path / "t1.feats.zst").unlink()
    assert extracted(traces, tmp_path) == 0 and done[4:] == ["t1.out"]
    damaged = tmp_path / "t1.feats.zst"
    damaged.write_bytes(bytes(damaged.stat().st_size))
    assert extracted(traces, tmp_path) == 0 and done[5:] == ["t1.out"]
    del done[5:]
    assert {k: v for k, v in content(tmp_path).items() if k in first} == first
    # Other options are other tasks, whose outputs are this run's but another request's.
    assert extracted(traces, tmp_path, "--count", "50") == 1
    assert "exists already" in capsys.readouterr().err
    assert extracted(traces, tmp_path, "--count", "50", "--force") == 0 and len(done) == 5 + TRACES


def test_content_counts_and_not_the_time_of_change(traces, tmp_path, monkeypatch):
    mine = tmp_path / "t.out"
    shutil.copy(traces[0], mine)
    done = counted(monkeypatch)
    out = tmp_path / "out"
    assert extracted([mine], out) == 0
    os.utime(mine, (1, 1))
    assert extracted([mine], out) == 0 and len(done) == 1
    shutil.copy(traces[1], mine)
    assert extracted([mine], out) == 0 and len(done) == 2
    with tracekit.open(out / "t.feats.zst") as f:
        assert len(f) == len(tracekit.open(_alone(traces[1], tmp_path)))


def _alone(trace: Path, folder: Path) -> Path:
    tracekit.extract(trace, folder / "alone.zst", force=True)
    return folder / "alone.zst"


def test_one_bad_input_loses_nothing_else(traces, tmp_path, capsys):
    bad, gone = tmp_path / "bad.out", tmp_path / "gone.out"
    bad.write_text("no trace\n" * 100)
    out = tmp_path / "out"
    assert extracted([traces[0], bad, gone, traces[1]], out) == 1
    err = capsys.readouterr().err
    assert "no trace that tracekit knows" in err and f"{gone}: cannot open" in err
    assert sorted(content(out)) == ["t0.feats.zst", "t1.feats.zst"]
    assert main(["runs", str(out)]) == 0
    said = capsys.readouterr().out
    assert "4 tasks (extract): 2 done, 2 failed, 0 missing" in said
    assert "failed: bad.out:" in said and "failed: gone.out:" in said
    # What failed is tried again, and only that.
    shutil.copy(traces[2], bad)
    assert extracted([traces[0], bad, traces[1]], out) == 0
    assert main(["runs", str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["done"] == 3 and found["failed"] == [] and found["missing"] == []
    assert found["rows"] == sum(t["rows"] for t in found["traces"])
    assert found["totals"]["traces"] == 3 and found["totals"]["rows"] == found["rows"]


def test_progress_tells_traces_rows_and_time_left(traces, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("tracekit.progress.PLAIN_EVERY", 0.0)
    bad = tmp_path / "bad.out"
    bad.write_text("no trace\n" * 100)
    assert extracted([*traces, bad], tmp_path / "out") == 1
    lines = [x for x in capsys.readouterr().err.splitlines() if x.startswith("extract, 5 tasks: ")]
    assert len(lines) == 5
    number = r"[\d.,]+ ?[kMG]?"
    for k, line in enumerate(lines, 1):
        assert re.search(rf"{number}B of {number}B \(\d+ %\), {number}B/s, .+ left", line), line
        assert re.search(rf", {k} of 5, {number} rows/s", line), line
    assert lines[-1].endswith(", 1 failed") and "(100 %)" in lines[-1]


def test_a_line_that_a_kill_cut_short_is_done_again(traces, tmp_path, monkeypatch):
    assert extracted(traces[:2], tmp_path) == 0
    log = tmp_path / "tasks.jsonl"
    whole = log.read_bytes()
    log.write_bytes(whole[:-30])
    assert len(state_of(tmp_path).missing) == 1
    done = counted(monkeypatch)
    assert extracted(traces[:2], tmp_path) == 0 and len(done) == 1
    assert len(state_of(tmp_path).done) == 2


def test_a_record_that_was_changed_is_no_result(traces, tmp_path, monkeypatch):
    """A number of it, or its shape: the task is done again."""
    assert extracted(traces[:2], tmp_path) == 0
    log = tmp_path / "tasks.jsonl"
    first, second = log.read_text().splitlines()
    for changed in (re.sub(r'"rows":\d', '"rows":9', first, count=1), '{"key":[],"state":"done"}'):
        log.write_text(f"{changed}\n{second}\n")
        assert len(state_of(tmp_path).missing) == 1
    done = counted(monkeypatch)
    assert extracted(traces[:2], tmp_path) == 0 and len(done) == 1
    assert len(state_of(tmp_path).done) == 2


@pytest.mark.parametrize("more", [{}, {"level": "macro", "chunk_rows": 256}, {"start": 100}])
def test_statistics_are_those_of_the_columns(traces, tmp_path, more):
    from tracekit import schema

    with Run() as run:
        (done,) = extract_many(run, [str(traces[0])], [str(tmp_path / "x.zst")], more)
    (told,) = done.value["summary"]
    columns = told.pop("columns")
    with tracekit.open(tmp_path / "x.zst") as f:
        statics = f.statics
        kinds = [k.endswith("conditional") for k in schema.BRANCH_KINDS]
        branch = np.array(kinds)[statics.branch[f["static_id"]]]
        masks = {"memory": f["is_mem"], "branch": branch}
        for name, column in columns.items():
            x = f[name]
            x = x[masks.get(schema.COLUMNS[name].domain, slice(None))]
            some = x[x != tracekit.NEVER].astype(float)
            assert column["rows"] == len(some) > 0 and column["never"] == len(x) - len(some)
            assert column["mean"] == pytest.approx(some.mean())
            assert column["deviation"] == pytest.approx(some.std(), rel=1e-6, abs=1e-9)
            assert (column["least"], column["most"]) == (some.min(), some.max())
        assert columns.keys() == {
            n
            for n, c in schema.COLUMNS.items()
            if c.domain != "timed" and n not in ("static_id", "addr", "bits")
        }
        cycles = f.targets("cycles").sum()
        instructions = instruction_count(f)
        assert told.pop("cycles") == pytest.approx(cycles) and cycles > 0
        assert told.pop("cpi") == pytest.approx(cycles / instructions)
        assert told == {
            "output": f.path,
            "rows": len(f),
            "instructions": instructions,
            "bytes": f.size,
            "level": f.level,
            "arch": f.arch,
            "cpu": f.cpu,
            "static_instructions": len(statics),
            "anomalies": {k: a["count"] for k, a in f.index["anomalies"].items()},
        }


def test_the_summary_is_parquet(traces, tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    assert extracted(traces[:2], tmp_path) == 0
    assert main(["runs", str(tmp_path), "--summary", str(tmp_path / "s.parquet")]) == 0
    a, b = (pq.read_table(tmp_path / n) for n in ("s.parquet", "summary.parquet"))
    assert a.equals(b) and a.num_rows == 2
    told = {t["trace"]: t for t in state_of(tmp_path).traces}
    for row in a.to_pylist():
        own = told[row["trace"]]
        assert row["rows"] == own["rows"] and row["cpi"] == own["cpi"]
        assert row["p_local.mean"] == own["columns"]["p_local"]["mean"]


def test_a_folder_that_is_no_run(tmp_path, capsys):
    assert main(["runs", str(tmp_path)]) == 1
    assert "is no run" in capsys.readouterr().err
    (tmp_path / "run.json").write_text('{"format": "other"}')
    assert main(["runs", str(tmp_path)]) == 1


def test_a_folder_of_runs_is_listed(traces, feats, tmp_path, capsys):
    runs = tmp_path / "runs"
    assert main(["simulate", "-q", str(feats[0]), "-m", "u007", "--run", str(runs / "b")]) == 0
    for run, some in (("a", traces[:2]), ("c", traces[:1])):
        words = ["extract", "-q", *map(str, some), "-o", f"{tmp_path / run}/"]
        assert main([*words, "--run", str(runs / run)]) == 0
    (runs / "no run").mkdir()
    capsys.readouterr()
    assert main(["runs", str(runs)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{runs}/a: 2 tasks (extract): 2 done, 0 failed, 0 missing",
        f"{runs}/b: 1 task (simulate): 1 done, 0 failed, 0 missing",
        f"{runs}/c: 1 task (extract): 1 done, 0 failed, 0 missing",
    ]
    assert main(["runs", str(runs), "--top", "1"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["(1 of 3 runs; --top shows more)"]
    assert main(["runs", str(runs), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(r["path"], r["done"]) for r in found["runs"]] == [
        (str(runs / name), done) for name, done in (("a", 2), ("b", 1), ("c", 1))
    ]
    assert main(["runs", str(runs), "--summary", str(tmp_path / "s.parquet")]) == 2
    assert "--summary is of one run" in capsys.readouterr().err
    (runs / "b" / "run.json").write_text("{")
    assert main(["runs", str(runs)]) == 1
    said = capsys.readouterr()
    assert said.out.count("\n") == 2 and f"{runs}/b/run.json" in said.err


def test_a_folder_that_may_not_be_looked_into_is_no_run(feats, tmp_path, monkeypatch, capsys):
    runs, stat = tmp_path / "runs", os.stat
    assert main(["simulate", "-q", str(feats[0]), "-m", "u007", "--run", str(runs / "mine")]) == 0
    (runs / "theirs").mkdir()

    def refused(path, *args, **options):
        if "theirs/" in str(path):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return stat(path, *args, **options)

    monkeypatch.setattr(os, "stat", refused)
    capsys.readouterr()
    assert main(["runs", str(runs)]) == 0
    assert capsys.readouterr().out.startswith(f"{runs}/mine: 1 task")


def test_one_process_at_a_time(tmp_path):
    with locked(tmp_path), pytest.raises(UsageError, match="another process"), Run(None, tmp_path):
        pass


def test_packing_keeps_every_bit():
    r = np.random.default_rng(1)
    value = {
        "a": r.random((3, 4)),
        "b": [np.float32([np.nan, -0.0, np.inf]), {"c": np.arange(5, dtype=np.uint16)}],
        "n": None,
        "x": 0.1 + 0.2,
    }
    back = from_text(to_text(value))
    assert back["a"].tobytes() == value["a"].tobytes() and back["x"] == value["x"]
    assert back["b"][0].tobytes() == value["b"][0].tobytes()
    assert back["b"][1]["c"].dtype == np.uint16
    for bad in ('{"array": ["|O", [1], ""]}', '{"array": ["<f8", [9], ""]}', "{"):
        with pytest.raises(FormatError):
            from_text(bad)
    with pytest.raises(TypeError):
        to_text({"a": object()})


def test_a_task_says_what_it_was_asked_by_another_version():
    assert perform("0.0", "extract", "{}", ["{}"], None)[0].startswith(OTHER_VERSION)


def test_an_unforeseen_failure_is_one_task_s_and_shows_no_secret(monkeypatch, feats):
    def fail(task, options, threads):
        raise RuntimeError("at https://user:secret@host/x?token=secret")

    monkeypatch.setitem(KINDS, "core_totals", fail)
    with Run() as run:
        (outcome,) = run.map("core_totals", [Task("t", (str(feats[0]),))])
    assert "RuntimeError" in str(outcome.error) and "secret" not in shown(outcome.error)


# ---- pieces


def test_pieces_cover_all_cores_once():
    for rows, cores in ((1, 1), (1, 7), (10**9, 7), (10**8, 46), (10**9, 1)):
        found = pieces(rows, cores)
        assert [k for a, b in found for k in range(a, b)] == list(range(cores))
        assert cores == 1 or all(b - a >= 2 for a, b in found)


@pytest.fixture
def small_pieces(monkeypatch):
    """Every trace is long."""
    real = pieces

    def small(rows, cores, most=1000):
        return real(rows, cores, most)

    for module in ("tracekit.cluster.many", "tracekit.sim.spread", "tracekit.mixture.program_sums"):
        monkeypatch.setattr(f"{module}.pieces", small)
    assert len(spread_module.pieces(600, 40)) == 20


def test_predictions_in_pieces_are_the_same(feats, small_pieces):
    model = load_model(None, "arm")
    options = {
        **dict.fromkeys(("model", "machines", "binary")),
        "machine_files": [],
        "by": "pc",
        "phases": 10,
        "own_machine": True,
    }
    with Run() as run:
        for own in (options, {**options, "machines": list(model.names[:5]), "by": None}):
            found = predict_many(run, [str(f) for f in feats[:2]], model, own)
            for path, r in zip(feats, found, strict=False):
                whole = tracekit.predict(path, model, machines=own["machines"], by=own["by"])
                assert isinstance(r, tracekit.PredictionResult)
                assert json.dumps(r.to_dict()) == json.dumps(whole.to_dict())


def test_simulations_in_pieces_are_the_same(feats, small_pieces, tmp_path):
    machines = list(tracekit.machines().values())[:6]
    bad = tmp_path / "bad.zst"
    bad.write_bytes(b"nothing")
    with Run() as run:
        paths = [str(feats[0]), str(bad), str(feats[1])]
        found = simulate_many(run, paths, machines, ranges=3, causes=True)
    assert isinstance(found[1], TracekitError)
    for path, r in ((feats[0], found[0]), (feats[1], found[2])):
        whole = tracekit.simulate(path, machines, ranges=3, causes=True)
        assert json.dumps(r.to_dict()) == json.dumps(whole.to_dict())


@pytest.mark.parametrize(
    "command", [["predict"], ["simulate", "-m", "u007", "o3_small", "u001", "u002"]]
)
def test_samples_of_many_are_the_same(command, feats, tmp_path, small_pieces, capsys):
    tasks = 2 * (len(load_model(None, "arm").cores) // 2) if command == ["predict"] else 4
    paths = [str(f) for f in feats[:2]]
    how = ["--every", "200", "--insts", "50", "--seed", "3", "--json"]
    assert main([command[0], *paths, *command[1:], *how]) == 0
    alone = capsys.readouterr().out
    assert '"samples": 3' in alone or '"samples": [' in alone
    for _ in range(2):
        assert main([command[0], *paths, *command[1:], *how, "--run", str(tmp_path)]) == 0
        assert capsys.readouterr().out == alone
    assert len(state_of(tmp_path).done) == tasks
    again = [command[0], *paths, *command[1:], *how[:-2], "4", "--json", "--run", str(tmp_path)]
    assert main(again) == 0
    assert capsys.readouterr().out != alone
    # Places that are drawn anew each time are those of one task.
    drawn = [*command, *how[:-3], "--json", "--run", str(tmp_path / "drawn")]
    assert main([drawn[0], *paths, *drawn[1:]]) == 0
    assert len(state_of(tmp_path / "drawn").done) == 2


def test_samples_by_phase_in_pieces_are_the_same(feats, tmp_path, small_pieces, capsys):
    pytest.importorskip("sklearn", reason="samples by phase need scikit-learn")
    how = ["--samples", "4", "--insts", "40", "--seed", "3", "--choose", "phase", "--json"]
    assert main(["predict", str(feats[0]), *how]) == 0
    alone = capsys.readouterr().out
    assert main(["predict", str(feats[0]), *how, "--run", str(tmp_path)]) == 0
    assert capsys.readouterr().out == alone
    assert len(state_of(tmp_path).done) > 2
    for more in ([], ["--run", str(tmp_path)]):
        assert main(["predict", str(feats[0]), *how, "--by", "pc", *more]) == 2
        assert "parts are of all rows" in capsys.readouterr().err


def test_a_trace_that_fails_costs_no_other_its_prediction(feats, tmp_path, capsys):
    for name in ("a", "b"):
        (tmp_path / f"{name}.zst").write_bytes(feats[0].read_bytes()[:-100])
    paths = [str(p) for p in (tmp_path / "a.zst", feats[0], tmp_path / "b.zst", feats[1])]
    how = ["predict", *paths, "--run", str(tmp_path / "run"), "--uarch", "u007"]
    assert main(how) == 1
    out, err = capsys.readouterr()
    assert out.count("u007") == 2 and "files" not in out
    assert [f"{tmp_path}/{n}.zst: file is cut short" in err for n in ("a", "b")] == [True] * 2
    assert main([*how, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [f["path"] for f in found["files"]] == [str(feats[0]), str(feats[1])]
    assert found["total"] is None


def test_weighted_traces_through_a_run(feats, tmp_path, capsys):
    (tmp_path / "w").write_text("0.25 0\n0.75 1\n")
    other = str(shutil.copy(feats[0], tmp_path / "other.zst"))
    command = ["predict", str(feats[0]), other, "--weights", str(tmp_path / "w"), "--json"]
    assert main(command) == 0
    alone = capsys.readouterr().out
    assert main([*command, "--run", str(tmp_path / "run")]) == 0
    assert capsys.readouterr().out == alone


def test_totals_in_pieces_are_the_same(feats, small_pieces):
    cores = load_model(None, "arm").cores[:9]
    opened = [tracekit.open(f) for f in feats]
    edges = [np.array([0, 100, len(t)]) for t in opened]
    with Run() as run:
        found = spread_totals(run.spread, opened, cores, edges)
    for t, e, x in zip(opened, edges, found, strict=True):
        assert x.tobytes() == totals(t, cores, e).tobytes()


def test_tuning_and_designs_are_the_same_through_a_run(feats, tmp_path, small_pieces):
    from dataclasses import replace

    from tracekit.calibration.machine_rows import tune
    from tracekit.calibration.search_settings import DEFAULT, Round
    from tracekit.exploration.dse import Space, explore

    few = replace(
        DEFAULT,
        rounds=(Round(400, 1, 0), Round(500, 1, 1)),
        population=6,
        admitted=4,
        survivors=3,
        last_generations=1,
        offers=1,
        combined=2,
        settling_rows=600,
    )
    model = load_model(None, "arm")
    model = model.only(model.names[:4])
    timed = [(t, t.targets("cycles").astype(float)) for t in map(tracekit.open, feats[:2])]
    how = {"designs": 4, "searched": 3, "seed": 5, "settings": few}
    alone = tune(model, timed, "new", **how)
    with Run(None, tmp_path) as run:
        assert tune(model, timed, "new", **how, spread=run.spread) == alone
    base = dict(model.cores[0])
    space = Space(base, {"rob": [32, 64, 128]}, "space")
    traces = {f.stem: tracekit.open(f) for f in feats[:2]}
    with Run(None, tmp_path) as run:
        assert explore(space, traces, "time", spread=run.spread) == explore(space, traces, "time")


def test_joins_of_many(feats, tmp_path, capsys):
    for f in feats[:2]:
        with tracekit.open(f) as t:
            np.save(tmp_path / f"{f.stem}.npy", np.arange(len(t), dtype=np.uint16)[None])
    out = tmp_path / "joined"
    command = ["join", *map(str, feats[:2]), "--target", f"m={tmp_path}/{{}}.npy", "-o", str(out)]
    assert main(command) == 2
    assert main([*command, "--run", str(tmp_path / "run")]) == 0
    for f in feats[:2]:
        single = tmp_path / "single.zst"
        target = f"m={tmp_path / f.stem}.npy"
        assert main(["join", str(f), "--target", target, "-o", str(single), "--force"]) == 0
        with tracekit.Dataset(single) as a, tracekit.Dataset(out / f.name) as b:
            assert a.cycles().tobytes() == b.cycles().tobytes() and a.machines == b.machines
    capsys.readouterr()


# ---- without Dask


def test_the_package_imports_none_of_it():
    code = (
        "import sys, tracekit, tracekit.cli.main as m; m.create_parser()\n"
        "names = 'dask', 'distributed', 'fsspec', 's3fs', 'pyarrow'\n"
        "print([n for n in names if n in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_without_dask_it_says_what_to_install(traces, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert extracted(traces[:1], tmp_path, "--cluster", "local:2") == 2
    err = capsys.readouterr().err
    assert "--cluster needs Dask" in err and "[cluster]" in err


@pytest.mark.parametrize(
    "line",
    [
        "extract T -o x --cluster local:0",
        *("extract T -o x --cluster local:-1", "extract T -o x --cluster local:x"),
        *("extract T -o x --cluster foo", "extract T -o x --cluster="),
        "extract T -o x/ --run r --jobs 2",
        "extract - -o x/ --run r",
        "extract T -o x/ --run s3://bucket/run",
        "simulate F -m u007 --run r -o x.npy",
        "predict --run r -- true",
        "predict --pid 1 --cluster local",
        "runs r --top -1",
    ],
)
def test_what_means_nothing_is_refused(line, traces, feats, capsys, monkeypatch, tmp_path):
    if "local" in line:
        pytest.importorskip("distributed")
    monkeypatch.chdir(tmp_path)
    places = {"T": str(traces[0]), "F": str(feats[0]), "G": str(feats[1])}
    assert main([places.get(a, a) for a in line.split()]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_values_raise_the_first_error(feats, tmp_path):
    bad = tmp_path / "bad.zst"
    bad.write_bytes(b"x" * 100)
    with Run() as run:
        outcomes = run.map("core_totals", [Task("bad", (str(bad),), {"cores": []})])
        with pytest.raises(FormatError):
            values(outcomes)
    assert run_module.Run is Run and RunFolder is not None and extract_many is not None


def test_one_trace_of_a_run_is_written_to_the_file(traces, tmp_path, capsys):
    run, out = tmp_path / "run", tmp_path / "one.zst"
    assert main(["extract", str(traces[0]), "-o", str(out), "--run", str(run)]) == 0
    tracekit.extract(traces[0], tmp_path / "alone.zst")
    assert out.read_bytes() == (tmp_path / "alone.zst").read_bytes()
    assert main(["runs", str(run)]) == 0
    assert "1 done" in capsys.readouterr().out


def test_two_inputs_of_one_name_are_named(traces, tmp_path, capsys):
    other = tmp_path / "b" / traces[0].name
    other.parent.mkdir()
    other.write_bytes(traces[0].read_bytes())
    assert main(["extract", str(traces[0]), str(other), "-o", str(tmp_path / "out/")]) == 2
    told = capsys.readouterr().err
    assert str(traces[0]) in told and str(other) in told and "an -o of its own" in told


def test_a_trace_that_cannot_be_opened_is_a_failed_task(traces, tmp_path, capsys):
    good, bad = tmp_path / "good.zst", tmp_path / "bad.zst"
    tracekit.extract(traces[0], good)
    bad.write_bytes(good.read_bytes()[:-500])
    for command in (["predict"], ["simulate", "-m", "u007"]):
        run = tmp_path / command[0]
        words = [command[0], str(bad), str(good), *command[1:], "--run", str(run)]
        assert main(words) == 1
        capsys.readouterr()
        assert main(["runs", str(run)]) == 0
        said = capsys.readouterr().out
        assert "1 failed, 0 missing" in said and " 0 done" not in said, said
        assert "failed: bad.zst" in said
    assert main(["runs", str(run), "--summary", str(tmp_path / "s.csv")]) == 2
    assert "a name in .parquet" in capsys.readouterr().err
