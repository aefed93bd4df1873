"""Commands that read long files say how far they are, and how long still; --quiet says nothing."""

from __future__ import annotations

import re

import pytest
import synthetic
from test_sim import extract

from tracekit import progress
from tracekit.cli.main import main


@pytest.mark.parametrize(
    ("command", "lines"),
    [
        (["info"], 1),
        (["mrc"], 2),  # data and fetch
        (["simulate", "-m", "o3_small"], 1),
        (["predict", "--uarch", "o3_small"], 1),
    ],
    ids=lambda c: c[0] if isinstance(c, list) else None,
)
def test_how_long_still(command, lines, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(progress, "PLAIN_EVERY", 0.0)
    path = extract(tmp_path, synthetic.text(3, 300)).path
    name, *options = command
    for quiet in ([], ["--quiet"]):
        assert main([name, path, *options, *quiet, "--json"]) == 0
        said = capsys.readouterr().err.splitlines()
        told = [s for s in said if re.search(r": \d.* of .*rows \(100 %\), .*rows/s, 0 s left", s)]
        assert len(told) == (0 if quiet else lines), said
