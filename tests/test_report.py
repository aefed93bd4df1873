"""--json and --json-file, and that standard output then holds JSON and nothing else."""

from __future__ import annotations

import argparse
import json
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.test_record import TIMEOUT, _why_not
from tracekit.cli.commands import COMMANDS
from tracekit.cli.main import create_parser, main

FEATS = Path(__file__).parent / "golden" / "feats-v1.zst"
RECORDS = pytest.mark.skipif(_why_not() is not None, reason=_why_not() or "")
TRACEKIT = [sys.executable, "-m", "tracekit"]


def options_of(command: str) -> set[str]:
    (sub,) = [
        a for a in create_parser(command)._actions if isinstance(a, argparse._SubParsersAction)
    ]
    parser = sub.choices[command]
    inner = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    parsers = [parser, *(p for a in inner for p in a.choices.values())]
    return {o for p in parsers for a in p._actions for o in a.option_strings}


def test_every_command_with_json_has_the_file() -> None:
    both = {c for c in COMMANDS if "--json" in options_of(c)}
    assert both == {c for c in COMMANDS if "--json-file" in options_of(c)}
    assert COMMANDS.keys() - both == {"completion", "export", "plugin", "train"}


@pytest.mark.parametrize("command", ["info", "verify", "epochs", "mrc", "predict"])
def test_the_file_holds_what_is_printed(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    feats, out = tmp_path / "feats.zst", tmp_path / "out.json"
    trace = FEATS.parent / "lua.arm.trace.xz"
    level = "micro" if command == "predict" else "macro"
    assert main(["extract", "--quiet", "--level", level, str(trace), "-o", str(feats)]) == 0
    assert main([command, str(feats)]) == 0
    text = capsys.readouterr().out
    out.write_text("old")
    assert main([command, str(feats), "--json-file", str(out)]) == 0
    assert capsys.readouterr().out == text and text
    assert main([command, str(feats), "--json"]) == 0
    assert json.loads(out.read_text()) == json.loads(capsys.readouterr().out)


def test_rows_go_into_the_file_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "rows.jsonl"
    args = ["dump", str(FEATS), "--rows", "1:4"]
    assert main([*args, "--json-file", str(out)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4  # a header and three rows, as CSV
    assert main([*args, "--json"]) == 0
    assert out.read_text() == capsys.readouterr().out
    assert [json.loads(line)["row"] for line in out.read_text().splitlines()] == [1, 2, 3]


def test_a_place_that_cannot_be_written_is_told_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["info", str(FEATS), "--json-file", str(tmp_path)]) == 1
    told = capsys.readouterr()
    assert told.out == "" and str(tmp_path) in told.err


@RECORDS
@pytest.mark.parametrize(
    "how",
    [["--full"], ["--count", "1", "--epoch", "2000", "--period", "0", "--seconds", "600"]],
)
def test_a_programs_output_is_not_in_the_json(how: list[str], tiny: str) -> None:
    endless = ["sh", "-c", "printf 'it speaks\\n'; while :; do :; done"]
    program = [tiny] if how[0] == "--full" else endless
    done = subprocess.run(
        [*TRACEKIT, "predict", "--json", *how, "--", *program],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    assert result["instructions"] > 0 and "it speaks" in done.stderr


@RECORDS
def test_totals_of_a_recording_go_into_a_file(tmp_path: Path, tiny: str) -> None:
    out = tmp_path / "totals.json"
    done = subprocess.run(
        [*TRACEKIT, *f"record -q --full -o {tmp_path}/x.tks --json-file {out} -- {tiny}".split()],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert (done.returncode, done.stdout) == (0, "it speaks\n")
    assert json.loads(out.read_text())["instructions"] > 1000


@pytest.mark.parametrize("second", [[], ["b.zst"]])
def test_a_trace_is_never_started(
    second: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not even one that may be executed, or one that is not there."""
    monkeypatch.chdir(tmp_path)
    a = tmp_path / "a.zst"
    shutil.copy(FEATS, a)
    a.chmod(a.stat().st_mode | stat.S_IXUSR)
    (tmp_path / "b.tks").write_bytes((0x184D2A5B).to_bytes(4, "little") + b"\x10\0\0\0TKSTREAM")
    (tmp_path / "trace.out").write_text("1000: system.cpu: T0 : 0x1 : nop\n")
    for first in ("./a.zst", str(a), "b.tks", "gone.zst", "gone.tks", "trace.out"):
        if not second and first.endswith("a.zst"):
            continue  # that is how a trace is predicted
        assert main(["predict", first, *second]) != 0
        told = capsys.readouterr().err
        assert "cannot start" not in told and told.count("\n") == 1, told
        if first.endswith(".zst"):  # several files are predicted, one by one
            assert "cannot open" in told or "no program" in told, told
        else:
            assert not second or "no program" in told, told
