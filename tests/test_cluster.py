"""Runs on Dask's workers: the same bytes as in one process, whatever happens to the workers."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
import synthetic

import tracekit
from tracekit.cli.main import main
from tracekit.cluster import executors
from tracekit.cluster.joins import join_many
from tracekit.cluster.many import extract_many, predict_many
from tracekit.cluster.run import Run
from tracekit.cluster.task import Task
from tracekit.dataset.joining import join
from tracekit.errors import FormatError, TracekitError, UsageError
from tracekit.mixture.model import load_model
from tracekit.sim import SamplePlan
from tracekit.sim.spread import pieces

distributed = pytest.importorskip("distributed", reason="needs the extra cluster")
pytestmark = pytest.mark.filterwarnings("ignore")  # Dask's own, of sockets and loops at the end


@pytest.fixture(scope="module")
def traces(tmp_path_factory) -> list[str]:
    folder = tmp_path_factory.mktemp("traces")
    for k in range(6):
        (folder / f"t{k}.out").write_text(synthetic.text(40 + k, 500 + 50 * k))
    return [str(p) for p in sorted(folder.iterdir())]


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory) -> Iterator[str]:
    """The address of a cluster of two workers that somebody else started."""
    cluster = distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        local_directory=str(tmp_path_factory.mktemp("dask")),
        silence_logs=50,
    )
    yield cluster.scheduler_address
    cluster.close(timeout=20)


def outputs(paths: list[str], folder: Path) -> list[str]:
    folder.mkdir(exist_ok=True)
    return [str(folder / f"{Path(p).stem}.zst") for p in paths]


def alone(paths: list[str], folder: Path) -> dict[str, bytes]:
    for p, o in zip(paths, outputs(paths, folder), strict=True):
        tracekit.extract(p, o, force=True)
    return content(folder)


def content(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(folder.glob("*.zst"))}


def test_the_same_bytes_as_in_one_process(traces, scheduler, tmp_path):
    bad = tmp_path / "bad.out"
    bad.write_text("nothing\n" * 9)
    paths = [*traces, str(bad)]
    out = tmp_path / "out"
    with Run(scheduler, tmp_path / "run") as run:
        assert run.executor.workers == 2
        found = extract_many(run, paths, outputs(paths, out), {})
        assert [o.error is None for o in found] == [True] * len(traces) + [False]
        assert "no trace that tracekit knows" in str(found[-1].error)
        again = extract_many(run, traces, outputs(traces, out), {})
        assert all(o.again for o in again) and not any(o.again for o in found)
    assert content(out) == alone(traces, tmp_path / "alone")
    assert list(out.glob(".*")) == []


def test_the_commands_say_the_same(traces, scheduler, tmp_path, capsys):
    feats = outputs(traces, tmp_path / "f")
    alone(traces, tmp_path / "f")
    machines = ["u007", "o3_small", "u001"]
    for command in (
        ["simulate", *feats[:3], "-m", *machines, "--by-range", "2", "--causes"],
        ["predict", *feats[:3], "--by", "phase", "--phases", "3"],
    ):
        assert main([*command, "--json"]) == 0
        one = capsys.readouterr().out
        assert main([*command, "--json", "--cluster", scheduler]) == 0
        assert capsys.readouterr().out == one


def test_dask_shows_tasks_by_their_traces_names(traces, scheduler, tmp_path):
    from dask.utils import key_split

    with Run(scheduler) as run:
        client, keys = run.executor._client, []
        real = client.submit
        client.submit = lambda *a, key, **k: keys.append(key) or real(*a, key=key, **k)
        found = extract_many(run, traces, outputs(traces, tmp_path), {})
    assert all(o.error is None for o in found)
    shown = {key_split(k).split(" and ")[0] for k in keys}
    assert shown and shown <= {Path(t).name for t in traces}
    assert sum(int((re.search(r" and (\d+) more-", k) or [0, 0])[1]) + 1 for k in keys) == 6


def test_dask_is_told_no_password(traces, scheduler):
    """Keys stand in the logs of the scheduler and of the workers."""
    url = "http://user:secret@127.0.0.1:1/a/t-1.out?token=secret"
    with Run(scheduler) as run:
        client, keys = run.executor._client, []
        real = client.submit
        client.submit = lambda *a, key, **k: keys.append(key) or real(*a, key=key, **k)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tracekit.cluster.run.stamps_of", lambda paths: [[1, "x"] for _ in paths])
            extract_many(run, [url], ["memory://o/x.zst"], {"count": 1}, force=True)
    (key,) = keys
    assert "t_1.out" in key and "secret" not in key


def test_workers_of_another_version_are_refused_by_name(scheduler, monkeypatch):
    monkeypatch.setattr(executors, "__version__", "9.9")
    with pytest.raises(UsageError) as e, Run(scheduler):
        pass
    said = str(e.value)
    assert "another version of tracekit than 9.9" in said and "tcp://127.0.0.1" in said
    assert f"({tracekit.__version__})" in said


def test_a_worker_of_another_version_that_comes_later_is_refused(traces, scheduler, monkeypatch):
    with Run(scheduler) as run:
        monkeypatch.setattr(executors, "__version__", "9.9")
        with pytest.raises(UsageError, match=r"came later \(" + tracekit.__version__):
            run.map("core_totals", [Task("t", (traces[0],))])


def test_nobody_answers(tmp_path, monkeypatch):
    monkeypatch.setattr(executors, "ANSWER", 1)
    with pytest.raises(TracekitError, match="no scheduler answers"), Run("tcp://127.0.0.1:1"):
        pass
    with pytest.raises(TracekitError, match="cannot be read"), Run(str(tmp_path / "x.json")):
        pass
    (tmp_path / "y.json").write_text("{}")
    with pytest.raises(FormatError, match="it has no address"), Run(str(tmp_path / "y.json")):
        pass


DEADLY = """
import os, signal
from tracekit.cluster.kinds import KINDS

def die(task, options, threads):
    if task.options.get("die"):
        os.kill(os.getpid(), signal.SIGKILL)
    return {"rows": 1}

KINDS["deadly"] = die
"""


def test_a_killed_worker_is_replaced_and_a_deadly_task_fails_alone(traces, tmp_path, monkeypatch):
    import dask

    (tmp_path / "preloaded.py").write_text(DEADLY)
    monkeypatch.setattr(executors, "LOST", 1)
    monkeypatch.setattr(executors, "WAITING", 30.0)
    out = tmp_path / "out"
    out.mkdir()
    preload = {"distributed.worker.preload": [str(tmp_path / "preloaded.py")]}
    preload["distributed.deploy.lost-worker-timeout"] = "100ms"  # a new one takes longer
    with dask.config.set(preload), Run("local:1") as run:
        client = run.executor._client
        pids = list(client.run(os.getpid).values())
        killer = threading.Timer(0.3, os.kill, (pids[0], signal.SIGKILL))
        killer.start()
        many = [traces[i % len(traces)] for i in range(90)]
        found = extract_many(run, many, [str(out / f"{i}.zst") for i in range(len(many))], {})
        killer.join()
        assert all(o.error is None for o in found)
        assert list(client.run(os.getpid).values()) != pids
        assert len(content(out)) == len(many) and list(out.glob(".*")) == []

        tasks = [Task(f"t{i}", (traces[0],), {"die": i == 5}) for i in range(12)]
        found = run.map("deadly", tasks)
        assert [o.error is not None for o in found] == [i == 5 for i in range(12)]
        assert "t5: its worker ended 2 times" in str(found[5].error)


DYING = """
import os, signal
from tracekit.cluster.kinds import KINDS

def once(real):
    def do(task, options, threads):
        if {label!r} in task.label:
            try:
                os.close(os.open({marker!r}, os.O_CREAT | os.O_EXCL))
                os.kill(os.getpid(), signal.SIGKILL)
            except FileExistsError:
                pass
        return real(task, options, threads)
    return do

KINDS[{kind!r}] = once(KINDS[{kind!r}])
"""


@contextlib.contextmanager
def a_worker_dies(folder: Path, kind: str, label: str) -> Iterator[Run]:
    """A run on two workers, of which the first that begins a piece of that label is killed."""
    import dask

    marker = folder / "killed"
    said = DYING.format(kind=kind, label=label, marker=str(marker))
    (folder / "preloaded.py").write_text(said)
    preload = {"distributed.worker.preload": [str(folder / "preloaded.py")]}
    with dask.config.set(preload), Run("local:2") as run:
        yield run
    assert marker.exists()


def test_pieces_of_samples_outlive_a_worker(traces, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "tracekit.cluster.many.pieces", lambda rows, cores: pieces(rows, cores, 4000)
    )
    (path,) = outputs(traces[:1], tmp_path)
    tracekit.extract(traces[0], path)
    plan = SamplePlan(50, every=150, seed=5)
    model = load_model(None, "arm")
    names = ("model", "machines", "binary", "by")
    options = {**dict.fromkeys(names), "machine_files": [], "phases": 10, "own_machine": True}
    with a_worker_dies(tmp_path, "predict_samples", "cores 0:") as run:
        (found,) = predict_many(run, [path], model, {**options, "samples": asdict(plan)})
    alone = tracekit.predict(path, model, samples=plan)
    assert json.dumps(found.to_dict()) == json.dumps(alone.to_dict())


def test_pieces_of_a_join_outlive_a_worker(tmp_path, monkeypatch):
    (tmp_path / "x.out").write_text(synthetic.text(40, 2600))
    x = str(tmp_path / "x.zst")
    tracekit.extract(tmp_path / "x.out", x, chunk_rows=256)
    (tmp_path / "out").mkdir()
    for name in ("TRACES", "ROWS"):
        monkeypatch.setattr(f"tracekit.cluster.joins.{name}", 200)
    with a_worker_dies(tmp_path, "join_chunks", "chunks 4:") as run:
        (done,) = join_many(run, [x], [f"a={x}", f"b={x}"], str(tmp_path / "out"))
    assert done.error is None
    join(x, [f"a={x}", f"b={x}"], str(tmp_path / "one.zst"))
    assert content(tmp_path / "out") == {"x.zst": (tmp_path / "one.zst").read_bytes()}
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["x.zst"]


def test_tasks_are_sent_together_by_the_time_that_they_take():
    from collections import deque

    works = deque((i, "", "", 10.0) for i in range(100))
    assert len(executors._together(None, works, 100, 2)) == 1
    assert len(executors._together(0.02, works, 99, 2)) == 4  # of 0.2 s: below a second
    assert len(executors._together(1e-6, works, 95, 2)) == 24  # half of what is left, for two
    assert len(executors._together(9.0, works, 71, 2)) == 1
    assert len(works) == 70


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_worker_is_killed_every_ten_seconds(shared, tmp_path):
    paths = [str(p) for p in sorted((shared / "exec").glob("*.xz"))] * 6
    assert paths, f"no traces in {shared / 'exec'}"
    names = [f"{i:03d}.zst" for i in range(len(paths))]
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    firsts = {}
    for p, n in zip(paths, names, strict=True):
        if p in firsts:
            (one / n).write_bytes(firsts[p])
        else:
            tracekit.extract(p, one / n)
            firsts[p] = (one / n).read_bytes()
    killed, stop = [], threading.Event()
    with Run("local:2", tmp_path / "run") as run:
        client = run.executor._client

        def kill() -> None:
            while not stop.wait(10):
                pids = list(client.run(os.getpid).values())
                os.kill(pids[len(killed) % len(pids)], signal.SIGKILL)
                killed.append(time.monotonic())

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            found = extract_many(run, paths, [str(two / n) for n in names], {})
        finally:
            stop.set()
            killer.join()
    assert killed and all(o.error is None for o in found)
    assert content(one) == content(two)
    assert list(two.glob(".*")) == []
    longest = max(o.seconds for o in found)
    print(json.dumps({"killed": len(killed), "tasks": len(paths), "longest task s": longest}))
    assert longest <= 3
