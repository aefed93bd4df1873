"""The commands of docs/predict.md, as they stand there, and what they print."""

from __future__ import annotations

import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.docs_page import ROOT, commands, run_in
from tests.test_record import _why_not
from tracekit.calibration import host
from tracekit.cli.cmd_predict_program import _run_time
from tracekit.cli.main import main
from tracekit.errors import FormatError, TracekitError
from tracekit.mixture import load_model
from tracekit.mixture.distribution import Distribution, wide
from tracekit.record import procfs

RECORDS = pytest.mark.skipif(_why_not() is not None, reason=_why_not() or "")


@RECORDS
@pytest.mark.skipif(shutil.which("gzip") is None, reason="needs gzip")
@pytest.mark.slow
@pytest.mark.ci
def test_the_page_runs(tmp_path):
    blocks = commands("predict.md")
    assert len(blocks) == 4 and "--full" in blocks[-1]
    out = run_in(tmp_path, *blocks)
    assert out.count("x best") == 3 and "epochs, all of it" in out
    result = json.loads((tmp_path / "search.json").read_text())
    names = load_model(arch="x86").names
    assert sorted(m["name"] for m in result["machines"]) == sorted(names)
    ns = [m["ns_per_instruction"] for m in result["machines"]]
    assert ns == sorted(ns) and min(ns) > 0
    assert result["sampled"] and result["instructions"] > 0 and result["parts"]
    for name in names:
        total = sum(p["share"][name] for p in result["parts"])
        assert total == pytest.approx(1, abs=1e-6)
    assert {"outside", "wide", "threads"} <= result["out_of_distribution"].keys()


@RECORDS
def test_a_program_that_is_over_at_once(tmp_path, capsys):
    assert main(["predict", "--period", "30", "--", "true"]) != 0
    assert "--full" in capsys.readouterr().err


@RECORDS
def test_a_program_is_ended_with_us(tmp_path):
    """SIGTERM while it is sampled: it would run on for nobody."""
    number = tmp_path / "number"
    busy = f"import os; open({str(number)!r}, 'w').write(str(os.getpid()))\nwhile True: pass"
    command = [sys.executable, "-m", "tracekit", "predict", "-q", "--seconds", "600", "--"]
    with subprocess.Popen([*command, sys.executable, "-c", busy], stderr=subprocess.PIPE) as us:
        while not number.exists() or not number.read_text():
            assert us.poll() is None
            time.sleep(0.01)
        us.terminate()
        us.communicate()
    assert us.returncode == 128 + signal.SIGTERM
    assert procfs.state(int(number.read_text()), int(number.read_text())) in ("", "Z")


@RECORDS
def test_a_process_that_runs(capsys):
    busy = "print('ready', flush=True)\nwhile True: sum(range(100))"
    with subprocess.Popen([sys.executable, "-c", busy], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        sampling = ["--count", "3", "--epoch", "2000", "--period", "0", "--seconds", "600"]
        assert main(["predict", "--pid", str(child.pid), *sampling, "--json"]) == 0
        assert child.poll() is None  # it goes on
        child.kill()
    result = json.loads(capsys.readouterr().out)
    assert result["sampled"] and 1 <= result["epochs"] <= 3  # too short ones do not count
    assert 0 < result["instructions"] <= 6000
    assert result["command"][1:] == ["-c", busy] and not result["usage"]["ended"]
    assert all(m["cpi"] > 0 for m in result["machines"])


@pytest.mark.parametrize("command", [["predict"], ["record", "-o", "x.tks"]])
def test_another_architecture_is_told(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert main([*command, "--", "true"]) != 0
    err = capsys.readouterr().err
    assert "x86-64" in err and "aarch64" in err and "drmemtrace" in err
    assert not list(tmp_path.iterdir())


def test_what_is_given_must_make_sense(tmp_path, capsys):
    assert main(["predict"]) != 0
    assert main(["predict", "--pid", "1", "x.zst"]) != 0
    assert "--pid takes no program" in capsys.readouterr().err


def test_the_shipped_x86_model():
    model = load_model(arch="x86")
    assert model.arch == "x86" and model.level == "macro" and len(model.machines) == 22
    folder = ROOT / "tracekit" / "mixture" / "default_x86"
    assert sum(f.stat().st_size for f in folder.iterdir()) <= 4 << 20
    seen = Distribution.parse(model.training["distribution"])
    assert seen.names["mov"] > 0 and seen.lines > 0
    other = Distribution(10, {"mov": 9.0, "vpermb": 1.0}, {64: 10.0})
    assert other.outside(seen)["names"] == pytest.approx(0.1)
    assert other.outside(seen)["sizes"] == 1
    assert other.unseen_names(seen) == ["vpermb"]
    with pytest.raises(FormatError, match="distribution"):
        Distribution.parse({"names": {}})


def test_vector_extensions_are_told():
    assert wide("vaddps ymm0, ymm1, ymm2") == "AVX"
    assert wide("vpaddd zmm0, zmm1, zmm2") == "AVX-512"
    assert wide("vmovdqu8 xmm17, xmmword ptr [rax]") == "AVX-512"
    assert wide("addps xmm0, xmm1") is None and wide("ADDPS_XMM_XMM") is None


def measured(seed: int, count: int = 24) -> list[host.Measured]:
    """Programs whose times are a mix of two machines and a start."""
    model, rng = load_model(arch="x86"), np.random.default_rng(seed)
    out = []
    for k in range(count):
        n = int(rng.integers(1e5, 1e6))
        r = n * rng.uniform(0.5, 3, len(model.cores))
        periods = np.array([host.period(m) for m in model.machines])
        seconds = 4e-4 + (model.cycles(r) * periods)[[2, 8]] @ [0.7, 0.6]
        out.append(host.Measured(f"p{k}", f"f{k}", n, float(seconds), 0.0, r))
    return out


def test_a_mix_is_found_from_totals(tmp_path):
    model = load_model(arch="x86")
    found = host.machine_of(model, measured(0), "here")
    errors = found["leave_one_out"]
    assert errors["mix"]["mean"] < 0.5 * errors["constant ns/instruction"]["mean"]
    assert errors["mix"]["mean"] < errors["nearest known machine"]["mean"]
    assert min(found["row"]) >= 0 and len(found["row"]) == len(model.cores)
    from tracekit.calibration.machine_rows import add_machines, write_machine

    write_machine(tmp_path / "here.json", found)
    more = add_machines(model, [tmp_path / "here.json"])
    assert more.names[-1] == "here" and more.machines[-1]["measured"]
    p = measured(0)[0]
    assert more.seconds(p.representation)[-1] == pytest.approx(p.seconds - 4e-4, rel=0.2)


def test_lists_of_programs_are_checked(tmp_path):
    good = {"name": "a", "command": ["true"]}
    for bad in (
        {},
        {"programs": [good]},
        {"programs": [good, good, {"name": "b", "command": ["true"]}]},
        {
            "programs": [
                good,
                {"name": "../b", "command": ["true"]},
                {"name": "c", "command": ["c"]},
            ]
        },
        {"programs": [good, {"name": "b", "command": "true"}, {"name": "c", "command": ["c"]}]},
    ):
        path = tmp_path / "m.json"
        path.write_text(json.dumps(bad))
        with pytest.raises(FormatError):
            host.load_natives(path)


@pytest.mark.parametrize(
    ("seconds", "said"), [(2.58e-5, "   0.0258 ms"), (0.0857, "    0.0857 s"), (75, "     75.00 s")]
)
def test_the_time_of_a_short_run_has_digits(seconds, said):
    assert _run_time(seconds) == said


def test_a_program_that_fails_has_no_time(tmp_path):
    """Before anything is stepped, and when it fails later."""
    programs = [host.Native("a", "a", ("true",)), host.Native("b", "b", ("false",))]
    with pytest.raises(TracekitError, match="false: b ended with exit status 1"):
        host.measure(load_model(arch="x86"), programs, tmp_path, tmp_path / "work")
    assert not (tmp_path / "work").exists()
    cpu = min(os.sched_getaffinity(0))
    with pytest.raises(TracekitError, match="sh: c ended with signal 9"):
        host.run_times(host.Native("c", "c", ("sh", "-c", "kill -9 $$")), tmp_path, 1, cpu)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--runs", "0"], "--runs: 0: a whole number, 1 or more"),
        (["--runs", "-1"], "--runs: -1: a whole number, 1 or more"),
        (["--cpu", "9999"], "--cpu: processor 9999 is not among those of this process: ["),
        ([], "false: b ended with exit status 1"),
    ],
)
def test_what_cannot_be_measured_is_told(words, told, tmp_path, monkeypatch, capsys):
    """Before anything is stepped or timed."""
    monkeypatch.chdir(tmp_path)
    named = {"a": "true", "b": "false", "c": "true"}
    programs = [{"name": name, "command": [command]} for name, command in named.items()]
    Path("m.json").write_text(json.dumps({"programs": programs}))
    try:
        code = main(["measure", "m.json", "--name", "here", "-o", "h.json", *words])
    except SystemExit as e:  # argparse's
        code = e.code
    assert code not in (0, None)
    assert told in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["m.json"]


@RECORDS
def test_this_computer_is_measured(tmp_path, monkeypatch, capsys, tiny):
    monkeypatch.chdir(tmp_path)
    programs = [{"name": n, "command": [tiny, n]} for n in "abc"]
    Path("m.json").write_text(json.dumps({"programs": programs}))
    assert main(["measure", "m.json", "--name", "here", "-o", "h.json", "--runs", "2"]) == 0
    out = capsys.readouterr().out
    assert "3 programs" in out and "nearest known machine" in out
    assert json.loads(Path("h.json").read_text())["machine"]["measured"]
