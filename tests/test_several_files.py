"""Commands on several files, on recordings in the place of a feats.zst, and on typing errors."""

from __future__ import annotations

import copy
import json
import lzma
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from docs_page import ROOT

import tracekit
from tracekit import dataset
from tracekit.cli.main import main
from tracekit.errors import FormatError

GOLDEN = ROOT / "tests" / "golden"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Two traces of ARM."""
    out = tmp_path_factory.mktemp("several")
    tracekit.extract(GOLDEN / "lua.arm.trace.xz", out / "a.zst")
    tracekit.extract(GOLDEN / "lua.arm.trace.xz", out / "b.zst", count=2000)
    return out


@pytest.fixture(scope="module")
def recording(folder, tiny) -> Path:
    """A few epochs of a program, where this computer can record."""
    path = folder / "tiny.tks"
    if sys.platform != "linux" or main(["record", "-o", str(path), "--full", "-q", "--", tiny]):
        pytest.skip("this computer cannot record")
    return path


def said(capsys, *args: object) -> tuple[int, str, str]:
    try:
        code = main([str(a) for a in args])
    except SystemExit as e:
        code = int(e.code or 0)
    out = capsys.readouterr()
    return code, out.out, out.err


def test_predict_of_several_files_and_their_total(folder, capsys, tmp_path):
    files = (folder / "a.zst", folder / "b.zst")
    save = tmp_path / "r.npy"
    code, text, _ = said(capsys, "predict", *files, "--uarch", "u007", "--json", "--save", save)
    found = json.loads(text)
    one, two, total = (f["machines"][0] for f in (*found["files"], found["total"]))
    assert code == 0 and total["cycles"] == one["cycles"] + two["cycles"]
    assert total["seconds"] == one["seconds"] + two["seconds"]
    assert found["total"]["instructions"] == sum(f["instructions"] for f in found["files"])
    parts = np.array([f["representation"] for f in found["files"]])
    assert (np.load(save) == parts.sum(axis=0)).all()
    code, text, _ = said(capsys, "predict", *files, "--uarch", "u007")
    assert code == 0 and "2 files: " in text and text.count("ROB 192") == 3


def test_a_trace_is_never_started(folder, capsys):
    code, _, error = said(capsys, "predict", folder / "a.zst", "ls")
    assert code == 2 and "ls is no feats.zst" in error and error.count("\n") == 1


def test_a_machine_that_the_model_does_not_know(folder, capsys):
    code, _, error = said(capsys, "predict", folder / "a.zst", "--uarch", "u0007")
    assert code == 2 and "machine u0007 (did you mean u007?) is not in the model" in error


def test_info_and_mrc_of_several_files(folder, capsys, tmp_path):
    files = [str(folder / n) for n in ("a.zst", "b.zst")]
    for command in ("info", "mrc"):
        code, text, _ = said(capsys, command, *files, "--json")
        both = json.loads(text)["files"]
        assert code == 0 and [f["path"] for f in both] == files
        _, text, _ = said(capsys, command, files[1], "--json")
        alone = json.loads(text)
        alone.pop("schema")
        assert alone == both[1]
        code, text, _ = said(capsys, command, *files)
        assert code == 0 and all(f in text for f in files)
    pytest.importorskip("matplotlib")
    for suffix in ("png", "svg", "pdf"):
        picture = tmp_path / f"curve.{suffix}"
        assert said(capsys, "mrc", *files, "--plot", picture)[0] == 0
        assert picture.stat().st_size > 1000


def test_a_recording_stands_for_its_features(folder, recording, capsys, tmp_path):
    features = folder / "recorded.zst"
    tracekit.extract(recording, features, level="macro", threads="interleaved")
    for command in (("mrc", "--stream", "data"), ("epochs",), ("dump", "--rows", "0:5")):
        results = []
        for path in (recording, features):
            code, text, _ = said(capsys, command[0], path, *command[1:], "--json")
            assert code == 0
            results.append(text.replace(str(path), "PATH"))
        assert results[0] == results[1]
    code, text, _ = said(capsys, "diff", recording, features, "--json")
    assert code == 0 and json.loads(text)["matched"] == json.loads(text)["rows_a"] > 0
    code, text, _ = said(capsys, "verify", recording)
    assert (code, text) == (0, f"{recording}: ok\n")
    code, _, _ = said(capsys, "export", recording, "--to", "npy", "-o", tmp_path / "columns")
    assert code == 0
    with tracekit.open(features) as f:
        assert (np.load(tmp_path / "columns" / "addr.npy") == f["addr"]).all()
    with tracekit.open(recording) as f:
        assert f.path == str(recording) and f.level == "macro"
        again = copy.copy(f)  # as a worker process gets it
        assert (again["pc"] == f["pc"]).all()
    code, text, _ = said(capsys, "simulate", recording, "--machine", "u007", "--json")
    assert code == 0 and json.loads(text)[0]["rows"] == len(again)


def test_a_damaged_recording_is_no_good_one(recording, capsys, tmp_path):
    data = bytearray(recording.read_bytes())
    data[len(data) // 2] ^= 0x10
    bad = tmp_path / "bad.tks"
    bad.write_bytes(data)
    code, _, error = said(capsys, "verify", bad)
    assert code == 1 and str(bad) in error


@pytest.mark.parametrize(
    ("args", "meant"),
    [
        (("extrct", "x"), "did you mean extract?"),
        (("info", "--jsn", "x"), "did you mean --json?"),
        (("predict", "--plt=x.png", "y"), "did you mean --plot?"),
        (("train", "perfvc"), "did you mean perfvec?"),
        (("machines", "u0007"), "did you mean u007?"),
    ],
)
def test_what_was_meant(args, meant, capsys):
    code, _, error = said(capsys, *args)
    assert code == 2 and meant in error.splitlines()[-1]


def test_completion_knows_commands_and_options(capsys):
    pytest.importorskip("shtab")
    code, text, _ = said(capsys, "completion", "bash")
    assert code == 0 and "--by-range" in text and "what-if" in text


def test_a_bar_on_a_terminal_only(capsys, monkeypatch):
    from tracekit import progress

    moment = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: moment[0])
    with progress.Progress("work", 4_000_000, quiet=False) as p:
        for k in range(5):
            moment[0] = 6.0 * k
            p.update(1_000_000 * k, "fine")
    error = capsys.readouterr().err
    assert "\r" not in error
    assert error.splitlines() == [
        "work: 2 Mrows of 4 Mrows (50 %), 167 krows/s, 12 s left, fine",
        "work: 4 Mrows of 4 Mrows (100 %), 167 krows/s, 0 s left, fine",
    ]


def test_progress_counts_what_was_used_of_a_compressed_input():
    from tracekit.inputs.blocks import Input

    with Input(GOLDEN / "lua.arm.trace.xz") as source:
        done, seen = 0, []
        for block in source:
            done += len(block)
            seen.append(source.consumed(done))
        assert seen == sorted(seen) and seen[0] < source.size / 2
        assert source.consumed(done) == source.size


def test_a_training_is_told_in_words_on_a_terminal_only(capsys, monkeypatch):
    from tracekit.cli import events

    event = {"event": "program", "name": "lua", "rows": 1234, "done": 3, "of": 9}
    line = json.dumps({"time": 1.0, **event})
    events.echo(line)
    assert capsys.readouterr().err == line + "\n"
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    events.echo(line)
    events.echo(json.dumps({"event": "fitted", "train_error": 0.0125, "ok": True}))
    assert capsys.readouterr().err.splitlines() == [
        "program 3 of 9: lua, rows 1,234",
        "fitted: train error 0.0125, ok yes",
    ]


def test_programs_that_are_done_leave_no_carriage_return(capsys, monkeypatch):
    from tracekit import progress
    from tracekit.cli.events import Events

    moment = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: moment[0])
    with Events("evaluate") as report:
        for k in range(3):
            moment[0] = 20.0 * k
            report({"event": "program", "name": f"p{k}", "done": k + 1, "of": 3})
    error = capsys.readouterr().err
    assert "\r" not in error and error.count("\n") == 2
    assert error.splitlines()[-1].startswith("evaluate: 3 programs of 3 programs (100 %)")


def test_a_next_part_of_the_work_is_counted_anew(capsys, monkeypatch):
    from tracekit import progress
    from tracekit.cli.events import Events

    moment = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: moment[0])
    with Events("time") as report:
        for of in (2, 5):
            for k in range(of):
                moment[0] += 20.0
                report({"name": f"p{k}", "done": k + 1, "of": of})
    shown = re.findall(r"(\d+) programs of (\d+) programs", capsys.readouterr().err)
    assert {int(of) for _, of in shown} == {2, 5}
    assert all(int(done) <= int(of) for done, of in shown)


def test_padding_between_the_streams_of_an_xz_file(tmp_path):
    """The format allows it in multiples of four bytes; blocks of a file cut it anywhere."""
    text = lzma.decompress((GOLDEN / "lua.arm.trace.xz").read_bytes())
    half = text.index(b"\n", len(text) // 2) + 1
    parts = [lzma.compress(x) for x in (text[:half], text[half:])]
    for padding in (4, 1 << 18):
        zeros = bytes(padding)
        (tmp_path / "t.xz").write_bytes(parts[0] + zeros + parts[1] + zeros)
        tracekit.extract(tmp_path / "t.xz", tmp_path / "f.zst", force=True)
        with tracekit.open(tmp_path / "f.zst") as f:
            assert len(f) == 6134
    (tmp_path / "t.xz").write_bytes(parts[0] + b"\0\0\0\0x" + parts[1])
    with pytest.raises(FormatError, match="what follows the xz data"):
        tracekit.extract(tmp_path / "t.xz", tmp_path / "f.zst", force=True)


def test_no_output_replaces_what_is_read_beside_its_input(folder, tmp_path, capsys):
    """Not with --force either: the authors' second file, a file of a folder, a join's targets."""
    authors = GOLDEN / "perfvec_authors"
    for name in ("trace.txt", "trace.sq.txt"):
        (tmp_path / name).write_bytes(lzma.decompress((authors / f"{name}.xz").read_bytes()))
    shutil.copytree(GOLDEN / "drmemtrace", tmp_path / "drm")
    thread = next(p for p in sorted((tmp_path / "drm").rglob("*.zip")))
    shutil.copy(folder / "a.zst", tmp_path / "a.zst")
    shutil.copy(folder / "a.zst", tmp_path / "t.zst")
    with tracekit.open(tmp_path / "a.zst") as trace:
        np.save(tmp_path / "c.npy", np.ones((1, len(trace)), np.uint32))
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    x, t = str(tmp_path / "trace.txt"), str(tmp_path)
    for args in (
        ["extract", x, "-o", f"{t}/trace.sq.txt"],
        ["extract", f"{t}/drm", "--threads", "interleaved", "-o", str(thread)],
        ["join", f"{t}/a.zst", "--target", f"v={t}/c.npy", "-o", f"{t}/c.npy"],
        ["join", f"{t}/a.zst", "--target", f"u={t}/t.zst", "-o", f"{t}/t.zst"],
    ):
        assert main([*args, "--force"]) == 1, args
        assert "is the input, too" in capsys.readouterr().err
        assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before
    with pytest.raises(tracekit.TracekitError, match="is the input, too"):
        dataset.join(f"{t}/a.zst", [f"v={t}/c.npy"], f"{t}/c.npy", force=True)
    assert main(["extract", f"{t}/trace.txt", "-o", ""]) == 2
    assert "--output: an empty name" in capsys.readouterr().err
    assert main(["extract", x, "-o", f"{t}/n.zst", "--json-file", f"{t}/no/x.json"]) == 1
    assert not (tmp_path / "n.zst").exists()


def test_a_target_of_another_level_is_no_target(folder, tmp_path, capsys):
    tracekit.extract(GOLDEN / "lua.arm.trace.xz", tmp_path / "macro.zst", level="macro")
    args = ["join", str(folder / "a.zst"), "--target", f"u={tmp_path}/macro.zst"]
    assert main([*args, "-o", str(tmp_path / "j.zst")]) == 2
    assert "is of level macro, the features of level micro" in capsys.readouterr().err
