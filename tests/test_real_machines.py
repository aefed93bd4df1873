"""This computer's kept machine, and real processors in `tracekit predict`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.test_record import _why_not
from tracekit.cli.main import main
from tracekit.hardware import HardwareMachine, hardware_machines
from tracekit.hardware.kept import keep_machine, kept_machine, kept_path

RECORDS = pytest.mark.skipif(_why_not() is not None, reason=_why_not() or "")


def test_a_machine_is_kept_by_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert kept_machine() is None
    here = HardwareMachine.load("zen4").replace(name="here")
    place = keep_machine(here)
    assert place == kept_path() and place.is_relative_to(tmp_path / "tracekit" / "machines")
    assert kept_machine() == (here, place)
    monkeypatch.setattr("tracekit.hardware.kept.cpu_name", lambda: "Another (family 1)")
    assert kept_path().name == "another-family-1.json" and kept_machine() is None


@RECORDS
def test_predict_shows_this_computer_and_real_processors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: str, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    words = ["predict", "--full", "--epoch", "1000", "--json", "--", tiny]
    assert main(words) == 0
    known = [m.name for m in hardware_machines().values() if m.isa == "x86"]
    found = json.loads(capsys.readouterr().out.removeprefix("it speaks\n"))["real_machines"]
    assert [m["name"] for m in found] == known and not any(m["here"] for m in found)
    assert all(m["seconds"] is None for m in found)  # nobody knows what this computer is
    here = HardwareMachine.load("zen4").replace(name="mine", checked={"mean": 0.1})
    keep_machine(here)
    assert main(words) == 0
    told = capsys.readouterr()
    assert str(kept_path()) in told.err
    again = json.loads(told.out.removeprefix("it speaks\n"))["real_machines"]
    assert [m["name"] for m in again] == ["mine", *known] and again[0]["here"]
    assert again[0]["checked_on_hardware"] == "yes, within 10 %"
    assert again[1]["checked_on_hardware"] == "never"
    zen4 = next(m for m in again if m["name"] == "zen4")
    assert zen4["cpi"] == pytest.approx(again[0]["cpi"])
    # The kept machine is of another instruction set: it is left out.
    keep_machine(hardware_machines()["neoverse_n1"].replace(name="arm"))
    assert main(words) == 0
    last = json.loads(capsys.readouterr().out.removeprefix("it speaks\n"))["real_machines"]
    assert [m["name"] for m in last] == known
