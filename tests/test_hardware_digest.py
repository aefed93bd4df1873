"""What cached results of real processors hang on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracekit.cluster import many
from tracekit.hardware import HardwareMachine, digest
from tracekit.sim import Machine, cores_digest


def test_a_changed_table_is_another_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tables").mkdir()
    (tmp_path / "core.py").write_text("x = 1\n")
    (tmp_path / "tables" / "a.json").write_text("{}")
    monkeypatch.setattr(digest, "__file__", str(tmp_path / "digest.py"))
    found = []
    for name in (None, "core.py", "tables/a.json"):
        if name is not None:
            (tmp_path / name).write_text("2")
        digest.hardware_digest.cache_clear()
        found.append(digest.hardware_digest())
    digest.hardware_digest.cache_clear()
    assert len({*found, cores_digest()}) == 4


def test_a_run_hangs_on_it_where_a_machine_is_real(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    class Asked:
        def map(self, kind, tasks, common):
            seen.append(common["cores"])
            return []

    for machine in (Machine.load("u007"), HardwareMachine.load("zen5")):
        many.simulate_many(Asked(), [], [machine])
    assert seen == [cores_digest(), digest.hardware_digest()]
