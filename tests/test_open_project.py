"""tests/open_project.py: a project of at most 150 lines that is built on tracekit in six ways,
typed strictly."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from test_entry_points import csv, example, installed  # noqa: F401  # fixtures
from test_gem5_config import config, written
from test_sim import MACHINE

import tracekit

ROOT = Path(__file__).resolve().parent.parent
PROJECT = ROOT / "tests" / "open_project.py"


def test_it_is_short_and_typed(tmp_path):
    pytest.importorskip("mypy")
    assert len(PROJECT.read_text(encoding="utf-8").splitlines()) <= 150
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent",
         "--cache-dir", str(tmp_path / "cache"), str(PROJECT)],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_runs(example, tmp_path, golden):  # noqa: F811
    for needed in ("numba", "pyarrow", "pandas"):
        pytest.importorskip(needed)
    import open_project

    run = written(tmp_path / "m5out", config({**MACHINE, "l1d_kb": 4}), "ini")
    found = open_project.report(
        golden / "lua.arm.trace.xz", run, csv(tmp_path / "in.csv"), tmp_path
    )
    assert list(found.cycles) == ["m5out", "ours", "example-small"]
    assert len(set(found.cycles.values())) == 3
    with tracekit.open(tmp_path / "a.zst") as trace:
        plain = tracekit.simulate(trace, run)
        ops = [trace.statics.op_name(i) for i in trace["static_id"].tolist()]
        assert found.hottest == max(set(ops), key=ops.count)
    assert found.cycles["m5out"] == float(plain.cycles[0])
    assert found.weights.shape == (52,) and np.isfinite(found.weights).all()
    assert all(name in found.html for name in ("a.zst", "ours", "example-small"))
    assert found.foreign_rows == 1200 and found.foreign_features == (1200, 2)
