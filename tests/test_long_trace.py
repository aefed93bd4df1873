"""The bench of long traces: its files are what their chunks say, and it goes on where it was
stopped."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
from docs_page import ROOT

import tracekit

BENCH = ROOT / "bench" / "long_trace.py"


def run(*args: object) -> list[str]:
    command = [sys.executable, str(BENCH), *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_commands_on_a_long_trace(golden, tmp_path):
    short, work = tmp_path / "short.zst", tmp_path / "work"
    tracekit.extract(golden / "lua.x86.trace.xz", short, level="macro", chunk_rows=500)
    options = ("--rows", 5000, "--work", work, "--keep")
    first = run(short, *options, "--only", "decode", "info")
    # It has done two; the third alone is measured now, and the table has all.
    done = (work / "results.jsonl").read_text()
    again = run(short, *options, "--only", "decode", "info", "simulate")
    assert [line.split(":")[0] for line in first[:2]] == ["5,000 rows, decode", "5,000 rows, info"]
    assert [line for line in again if ": " in line] == [again[0]] and "simulate" in again[0]
    assert (work / "results.jsonl").read_text().startswith(done)
    assert [line.split("|")[2].strip() for line in again[3:]] == ["decode", "info", "simulate"]
    with tracekit.open(short) as one, tracekit.open(work / "5000.zst") as many:
        times = -(-5000 // len(one))
        assert len(many) == times * len(one)
        for name in ("pc", "addr", "bits", "data_distance"):
            assert (many[name] == np.tile(one[name], times)).all()
        assert int(many.statics.count.sum()) == len(many)
        assert many.index["bits"] == [n * times for n in one.index["bits"]]


def test_a_command_that_fails_is_told(golden, tmp_path):
    command = [sys.executable, str(BENCH), "--rows", "100", "--work", str(tmp_path), "--only"]
    done = subprocess.run(
        [*command, "hot", "--binary", str(BENCH)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and "not an ELF file" in done.stderr
    assert not (tmp_path / "results.jsonl").exists()
