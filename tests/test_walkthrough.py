"""The commands of docs/walkthrough.md, as they stand there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import tracekit
from tests.docs_page import commands, run_in
from tests.test_record import _why_not
from tracekit.inputs.tks import summary


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.skipif(_why_not() is not None, reason=_why_not() or "")
@pytest.mark.skipif(shutil.which("gzip") is None, reason="needs gzip")
def test_the_walkthrough_runs(tmp_path: Path) -> None:
    blocks = commands("walkthrough.md")
    assert len(blocks) == 8
    out = run_in(tmp_path, *blocks)
    assert (tmp_path / "numbers.gz").exists()
    for said in ("mix ", "first touches", "gzip", "fetch_distance", "why epochs ended"):
        assert said in out, said
    assert summary(tmp_path / "gzip.tks")["instructions"] == 60_000
    with tracekit.open(tmp_path / "python.zst") as f:
        assert len(f) == summary(tmp_path / "python.tks")["instructions"] > 0
