"""The preset paper: resuming, early stopping, several processes, metrics.  Needs torch."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import synthetic
from test_sim import MACHINE

import tracekit
from tracekit.cli.main import main
from tracekit.dataset import load_manifest
from tracekit.dataset.joining import join
from tracekit.errors import FormatError, TracekitError, UsageError
from tracekit.train.perfvec import PaperOptions, train_paper
from tracekit.training_events import metrics

torch = pytest.importorskip("torch")
SMALL = PaperOptions(epochs=2, hidden=8, streams=4, step=64, seed=1, threads=1, device="cpu")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Four programs of four families on two machines: cycles that depend on the op class."""
    folder = tmp_path_factory.mktemp("paper")
    for k in range(4):
        (folder / f"p{k}.txt").write_text(synthetic.text(k, 1000, blocks=False))
        tracekit.extract(str(folder / f"p{k}.txt"), str(folder / f"p{k}.zst"))
        with tracekit.open(folder / f"p{k}.zst") as t:
            op = t["op"].astype(np.uint16)
        np.save(folder / f"p{k}.npy", np.stack([op % 7 + 1, op % 3 * 2 + 1]))
        targets = [f"a,b={folder / f'p{k}.npy'}"]
        join(str(folder / f"p{k}.zst"), targets, str(folder / f"d{k}.zst"))
    for name in "ab":
        (folder / f"{name}.json").write_text(json.dumps(MACHINE))
    _manifest(folder, "m.json")
    _manifest(folder, "v.json", validation=["p3"])
    return folder


def _manifest(folder, name: str, **more: object) -> None:
    programs = [{"name": f"p{k}", "data": f"d{k}.zst"} for k in range(4)]
    machines = {"a": "a.json", "b": "b.json"}
    (folder / name).write_text(json.dumps({"machines": machines, "programs": programs, **more}))


def weights(folder) -> bytes:
    return (folder / "model.safetensors").read_bytes()


def test_stopping_anywhere_changes_nothing(data, tmp_path):
    manifest = load_manifest(data / "m.json")
    train_paper(manifest, tmp_path / "whole", SMALL)
    events: list[dict] = []
    starts = 0
    while not (events and events[-1]["event"] == "epoch" and events[-1]["epoch"] == 2):
        # Over after one block of each start, which leaves passes in their middle.
        train_paper(manifest, tmp_path / "parts", replace(SMALL, minutes=0.0), events.append)
        starts += 1
        assert starts < 100
    assert starts > 10 and any(e["event"] == "resumed" and e["block"] > 0 for e in events)
    assert weights(tmp_path / "whole") == weights(tmp_path / "parts")
    with pytest.raises(UsageError, match="another run"):
        train_paper(manifest, tmp_path / "parts", replace(SMALL, seed=2))
    (tmp_path / "parts" / "checkpoint.pt").write_bytes(b"PK\3\4 cut short")
    with pytest.raises(FormatError, match="not a checkpoint"):
        train_paper(manifest, tmp_path / "parts", SMALL)


def run(data, out, *more: str) -> int:
    """The command, of a small network."""
    argv = ["train", "perfvec", str(data / "m.json"), "-o", str(out), "--quiet", *more]
    if "paper" in more:
        argv += ["--hidden", "8", "--streams", "4", "--step", "64", "--threads", "1"]
        argv += ["--device", "cpu"]
    return main(argv)


PAPER = ("--preset", "paper", "--epochs", "1")


def events_of(out) -> list[str]:
    return [json.loads(x)["event"] for x in (out / "metrics.jsonl").read_text().splitlines()]


def test_presets_do_not_replace_one_another(data, tmp_path, capsys):
    out = tmp_path / "model"
    assert run(data, out, *PAPER) == 0
    before = {p.name: p.read_bytes() for p in out.iterdir() if p.is_file()}
    assert run(data, out) == 1
    assert "holds a model already" in capsys.readouterr().err
    assert {p.name: p.read_bytes() for p in out.iterdir() if p.is_file()} == before
    assert run(data, out, "--force") == 0
    assert json.loads((out / "card.json").read_text())["preset"] == "default"
    assert not (out / "checkpoint.pt").exists()
    assert run(data, out, *PAPER) == 1
    (out / "checkpoint.pt").write_bytes(before["checkpoint.pt"])  # as older versions left it
    assert run(data, out, *PAPER) == 1
    (out / "card.json").unlink()
    capsys.readouterr()
    assert run(data, out) == 1
    assert "another preset's training" in capsys.readouterr().err


def test_force_replaces_a_run_that_has_ended(data, tmp_path, capsys):
    out = tmp_path / "model"
    assert run(data, out, *PAPER) == 0
    assert run(data, out, *PAPER) == 0
    assert events_of(out) == ["epoch", "resumed"]  # there was nothing left to do
    assert run(data, out, *PAPER, "--seed", "5") == 2
    assert "another run" in capsys.readouterr().err
    for more in ((), ("--seed", "5")):
        assert run(data, out, *PAPER, *more, "--force") == 0
        assert events_of(out)[-1] == "epoch"
    assert json.loads((out / "card.json").read_text())["training"]["seed"] == 5
    # One that is not over goes on, --force or not.
    assert run(data, out, *PAPER, "--minutes", "0", "--force") == 0
    assert run(data, out, *PAPER, "--force") == 0
    assert events_of(out)[-3:] == ["out of time", "resumed", "epoch"]


@pytest.mark.parametrize("what", ["targets", "machine", "validation"])
def test_other_data_is_another_run(data, tmp_path, what):
    for f in data.iterdir():
        if f.is_file():
            (tmp_path / f.name).write_bytes(f.read_bytes())
    train_paper(load_manifest(tmp_path / "v.json"), tmp_path / "model", replace(SMALL, epochs=1))
    if what == "targets":
        np.save(tmp_path / "p0.npy", 3 * np.load(tmp_path / "p0.npy"))
        targets = [f"a,b={tmp_path / 'p0.npy'}"]
        join(str(tmp_path / "p0.zst"), targets, str(tmp_path / "d0.zst"), force=True)
    elif what == "machine":
        (tmp_path / "b.json").write_text(json.dumps({**MACHINE, "rob": 48}))
    else:
        (tmp_path / "d3.zst").write_bytes((tmp_path / "d2.zst").read_bytes())
    with pytest.raises(UsageError, match="another run"):
        train_paper(load_manifest(tmp_path / "v.json"), tmp_path / "model", SMALL)


def test_a_network_says_what_reads_it(data, tmp_path):
    train_paper(load_manifest(data / "m.json"), tmp_path / "model", replace(SMALL, epochs=1))
    with pytest.raises(UsageError) as e:
        tracekit.predict(data / "p0.zst", tmp_path / "model")
    assert e.value.hint == "a network: tracekit.infer.load and tracekit evaluate read it"


def test_a_model_leaves_no_files_of_the_one_before(data, tmp_path):
    pytest.importorskip("numba")
    out, manifest = tmp_path / "model", load_manifest(data / "m.json")
    train_paper(manifest, out, replace(SMALL, epochs=1))
    assert main(["quantize", str(out), str(data / "d0.zst"), "--json"]) == 0
    assert (out / "int8.safetensors").exists() and (out / "corrections.safetensors").exists()
    train_paper(manifest, out, SMALL)
    assert {p.name for p in out.glob("*.safetensors")} == set(
        json.loads((out / "card.json").read_text())["files"]
    )


def test_a_killed_process_goes_on(data, tmp_path):
    """SIGKILL at the end of the first pass, from within; the command again; the same model."""
    script = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from tracekit.dataset import load_manifest\n"
        "from tracekit.train.perfvec import PaperOptions, train_paper\n"
        "def report(e):\n"
        "    if e['event'] == 'epoch': os.kill(os.getpid(), 9)\n"
        f"o = {SMALL!r}\n"
        "train_paper(load_manifest(sys.argv[1]), Path(sys.argv[2]), o, report)\n"
    )
    arguments = [sys.executable, "-c", script, str(data / "m.json"), str(tmp_path / "killed")]
    assert subprocess.run(arguments, check=False).returncode == -9
    events: list[dict] = []
    manifest = load_manifest(data / "m.json")
    train_paper(manifest, tmp_path / "killed", SMALL, events.append)
    assert events[0] == {"event": "resumed", "epoch": 1, "block": 0}
    train_paper(manifest, tmp_path / "whole", SMALL)
    assert weights(tmp_path / "whole") == weights(tmp_path / "killed")


def test_two_processes_learn_what_one_does(data, tmp_path):
    """torchrun's protocol (gloo, CPU): gradients are averages over all streams."""
    manifest = load_manifest(data / "v.json")
    events: list[dict] = []
    train_paper(manifest, tmp_path / "one", SMALL, events.append)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    command = [sys.executable, "-m", "tracekit", "train", "perfvec", str(data / "v.json")]
    command += ["-o", str(tmp_path / "two"), "--preset", "paper", "--epochs", "2", "--streams", "4"]
    command += ["--step", "64", "--seed", "1", "--threads", "1", "--device", "cpu", "--quiet"]
    command += ["--hidden", "8"]
    group = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    running = [
        subprocess.Popen(command, env={**os.environ, **group, "RANK": str(r)}) for r in range(2)
    ]
    assert [p.wait(timeout=300) for p in running] == [0, 0]
    from tracekit.model import read_safetensors

    one, two = (read_safetensors(tmp_path / n / "model.safetensors") for n in ("one", "two"))
    for name, values in one.items():
        np.testing.assert_allclose(values, two[name], rtol=1e-3, atol=1e-5)
    lines = (tmp_path / "two" / "metrics.jsonl").read_text().splitlines()
    found = [e for e in map(json.loads, lines) if e["event"] == "epoch"]
    want = [e for e in events if e["event"] == "epoch"]
    for a, b in zip(found, want, strict=True):
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-3)
        assert a["validation_mean_error"] == pytest.approx(b["validation_mean_error"], rel=1e-2)


def test_it_stops_when_unseen_programs_gain_nothing(data, tmp_path, monkeypatch):
    from tracekit.train import perfvec

    scores = iter([0.5, 0.4, 0.45, 0.41, 0.1])
    monkeypatch.setattr(perfvec._Run, "validation_error", lambda _: next(scores))
    events: list[dict] = []
    options = replace(SMALL, epochs=9, patience=2)
    train_paper(load_manifest(data / "v.json"), tmp_path, options, events.append)
    assert [e["event"] for e in events if e["event"] != "progress"] == [
        *["epoch"] * 4,
        "stopped early",
    ]
    card = json.loads((tmp_path / "card.json").read_text())
    assert card["training"]["epoch"] == 2 and card["training"]["programs"] == ["p0", "p1", "p2"]


def test_the_engine_and_evaluate_run_it(data, tmp_path, capsys):
    pytest.importorskip("numba")
    from tracekit import infer

    model = tmp_path / "model"
    train_paper(load_manifest(data / "v.json"), model, SMALL)
    engine = infer.load(model, dtype="f32", verify=True)
    with tracekit.open(data / "p0.zst") as t:
        assert engine.predict(t.features("perfvec")).shape == (len(t), 2)
    assert main(["evaluate", str(data / "v.json"), "--model", str(model), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert set(found["unseen"]["programs"]) == {"p3"}
    assert set(found["seen"]["programs"]) == {"p0", "p1", "p2"}
    # The same error as training's own, but for the rows that do not fill its blocks.
    trained = json.loads((model / "card.json").read_text())["training"]["validation_mean_error"]
    assert found["unseen"]["mean"] == pytest.approx(trained, abs=0.1)


def test_metrics_are_lines_and_tensorboard(tmp_path, monkeypatch):
    import types

    written = []

    class Writer:
        def __init__(self, folder: str) -> None:
            written.append(folder)

        def add_scalar(self, *what: object) -> None:
            written.append(what)

        def flush(self) -> None: ...

    module = types.ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = Writer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    report = metrics(tmp_path)
    report({"event": "resumed"})
    assert written == []
    report({"event": "progress", "step": 3, "loss": 0.5})
    assert written == [str(tmp_path / "tensorboard"), ("loss", 0.5, 3)]
    lines = [json.loads(x) for x in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [e["event"] for e in lines] == ["resumed", "progress"] and "time" in lines[0]


def test_what_cannot_be_trained_is_said_at_once(data, tmp_path):
    manifest = load_manifest(data / "m.json")
    with pytest.raises(UsageError, match="too few"):
        train_paper(manifest, tmp_path, replace(SMALL, streams=4096))
    for device in ("foo", "cuda:x", "", "meta"):
        with pytest.raises(UsageError, match=f"device {device}: cpu, cuda or cuda:N"):
            train_paper(manifest, tmp_path, replace(SMALL, device=device))
    with pytest.raises(UsageError, match="no GPU"):
        if torch.cuda.is_available():
            pytest.skip("there is one")
        train_paper(manifest, tmp_path, replace(SMALL, device="cuda"))
    _manifest(data, "clockless.json")
    text = json.loads((data / "clockless.json").read_text())
    (data / "clockless.json").write_text(json.dumps({**text, "machines": {"a": None, "b": None}}))
    with pytest.raises(UsageError, match="clock_ghz"):
        train_paper(load_manifest(data / "clockless.json"), tmp_path, SMALL)
    (data / "clockless.json").write_text(json.dumps({**text, "machines": {"a": None}}))
    with pytest.raises(UsageError, match="machine b is not in machines"):
        train_paper(load_manifest(data / "clockless.json"), tmp_path, SMALL)
    _manifest(data, "none.json", test=["p0", "p1", "p2", "p3"])
    with pytest.raises(TracekitError, match="no programs to train on"):
        train_paper(load_manifest(data / "none.json"), tmp_path, SMALL)
