"""Epochs and their signatures against the definition, on random traces."""

from __future__ import annotations

import hashlib
import json
import struct
from types import SimpleNamespace

import numpy as np
import pytest
import synthetic
from hypothesis import given, settings
from hypothesis import strategies as st

import tracekit
from tracekit.analysis.epoch_hashes import Epoch, coverage, epochs
from tracekit.cli.main import main
from tracekit.errors import UsageError


def fake(pcs: list[int], source: dict | None = None, start: int = 0) -> SimpleNamespace:
    """What ``epochs`` needs of a TraceFile."""
    values = np.array(pcs, np.uint64)

    class Fake(SimpleNamespace):
        def __len__(self) -> int:
            return len(values)

    return Fake(
        path="x",
        level="macro",
        cpu="1.2",
        index={"source": source or {}, "options": {"start": start}},
        column=lambda name, rows: values[slice(*rows)],
    )


def oracle(pcs: list[int]) -> str:
    return hashlib.sha256(b"".join(struct.pack("<Q", p) for p in pcs)).hexdigest()


@settings(max_examples=60)
@given(st.lists(st.integers(0, 2), max_size=40), st.integers(1, 9))
def test_epochs_are_the_rows_in_order(pcs: list[int], length: int) -> None:
    found = epochs(fake(pcs), length)
    parts = [pcs[k : k + length] for k in range(0, len(pcs), length)]
    assert [(e.begin, e.rows, e.signature) for e in found] == [
        (k * length, len(p), oracle(p)) for k, p in enumerate(parts)
    ]
    for e in found:
        assert e.first == next(k for k, p in enumerate(parts) if p == parts[e.number])
    distinct = coverage(found)
    assert {c.signature for c in distinct} == {oracle(p) for p in parts}
    assert sum(c.rows for c in distinct) == len(pcs)
    assert sum(c.epochs for c in distinct) == len(parts)
    if pcs:
        assert distinct[-1].together == pytest.approx(1)
        assert [c.rows for c in distinct] == sorted((c.rows for c in distinct), reverse=True)


def test_an_epoch_does_not_cross_a_recordings_gap() -> None:
    source = {"epoch_lengths": {"1.1": [3], "1.2": [5, 2, 3]}}
    found = epochs(fake(list(range(10)), source), 4)
    assert [(e.begin, e.rows) for e in found] == [(0, 4), (4, 1), (5, 2), (7, 3)]
    later = epochs(fake(list(range(8)), source, start=2), 4)
    assert [(e.begin, e.rows) for e in later] == [(0, 3), (3, 2), (5, 3)]


def test_coverage_adds_up() -> None:
    listed = [Epoch(k, 4 * k, 4 if k < 3 else 1, "aab"[k % 3], 0) for k in range(4)]
    distinct = coverage(listed)
    assert [(c.signature, c.epochs, c.rows) for c in distinct] == [("a", 3, 9), ("b", 1, 4)]
    assert distinct[0].share == pytest.approx(9 / 13)


def test_command(tmp_path, capsys) -> None:
    (tmp_path / "t.txt").write_text(synthetic.text(3, 900, blocks=False))
    for level in ("micro", "macro"):
        tracekit.extract(str(tmp_path / "t.txt"), str(tmp_path / f"{level}.zst"), level=level)
    with tracekit.open(str(tmp_path / "macro.zst")) as t:
        pcs = t["pc"].tolist()
    assert main(["epochs", str(tmp_path / "macro.zst"), "--length", "100", "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert out["rows"] == len(pcs) and out["length"] == 100
    assert [e["signature"] for e in out["epochs"]] == [
        oracle(pcs[k : k + 100]) for k in range(0, len(pcs), 100)
    ]
    assert main(["epochs", str(tmp_path / "macro.zst")]) == 0
    assert "1 epoch, 1 distinct signature\n" in capsys.readouterr().out
    assert main(["epochs", str(tmp_path / "micro.zst"), "--length", "100", "--json"]) == 0
    assert {**json.loads(capsys.readouterr().out), "path": ""} == {**out, "path": ""}
    with tracekit.open(tmp_path / "micro.zst") as t, pytest.raises(UsageError, match="micro-ops"):
        epochs(t)
    with pytest.raises(UsageError, match="at least 1"):
        epochs(fake([1]), 0)
