"""Files written by older versions stay readable: the fixture of each format, against known
values."""

from __future__ import annotations

import json

import pytest
from make_feats_fixture import values

from tracekit.cli.main import main
from tracekit.store.writer import FORMAT


def test_every_format_has_a_fixture(golden):
    names = {p.name for p in golden.glob("feats-v*.zst")}
    assert {f"feats-v{version}.zst" for version in range(1, FORMAT + 1)} <= names


@pytest.mark.parametrize("name", ["feats-v1", "feats-v1-checksum"])
def test_fixture(golden, name):
    path = golden / f"{name}.zst"
    version = 1
    want = json.loads((golden / f"feats-v{version}.json").read_text())
    assert values(path) == want
    assert want["format"] == version and want["chunks"] > 2
    assert main(["verify", str(path)]) == 0


def test_the_specification_names_every_stream():
    """docs/feats-format.md cannot fall behind the columns and the static table."""
    from pathlib import Path

    from tracekit import schema
    from tracekit.store import statics

    text = (Path(__file__).parent.parent / "docs" / "feats-format.md").read_text()
    stages = set(schema.STAGES[1:-1])  # "`fetch` … `store`"
    names = {*schema.COLUMNS, *statics.ARRAYS, "disassembly", "bytes_length", "bytes"} - stages
    assert {n for n in names if f"`{n}`" not in text} == set()
