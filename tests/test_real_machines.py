"""This computer's kept machine, and real processors in `tracekit predict`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.test_record import _why_not
from tracekit.cli.main import main
from tracekit.hardware import HardwareMachine, hardware_machines
from tracekit.hardware.kept import keep_machine, kept_machine, kept_path
from tracekit.record import RecordOptions, record_command

RECORDS = pytest.mark.skipif(_why_not() is not None, reason=_why_not() or "")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This computer's machine is kept in the test's folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_a_machine_is_kept_by_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kept_machine() is None
    here = HardwareMachine.load("zen4").replace(name="here")
    place = keep_machine(here)
    assert place == kept_path() and place.is_relative_to(tmp_path / "tracekit" / "machines")
    assert kept_machine() == (here, place)
    monkeypatch.setattr("tracekit.hardware.kept.cpu_name", lambda: "Another (family 1)")
    assert kept_path().name == "another-family-1.json" and kept_machine() is None


@RECORDS
def test_predict_shows_this_computer_and_real_processors(
    tiny: str, capsys: pytest.CaptureFixture[str]
) -> None:
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


@pytest.fixture(scope="module")
def recording(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("recorded") / "tiny.tks"
    record_command([tiny], path, RecordOptions(epoch=1000, full=True))
    return str(path)


def predicted(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[list[str], list[str]]:
    """The names of real processors, and of machines of the model."""
    assert main(["predict", "-q", "--json", *words]) == 0
    found = json.loads(capsys.readouterr().out)
    return tuple([m["name"] for m in found[key]] for key in ("real_machines", "machines"))  # type: ignore[return-value]


@RECORDS
def test_predict_shows_the_machines_that_were_named(
    recording: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert predicted(capsys, recording, "--uarch", "zen3") == (["zen3"], [])
    assert predicted(capsys, recording, "--uarch", "u006") == ([], ["u006"])
    assert predicted(capsys, recording, "--uarch", "zen3", "u006") == (["zen3"], ["u006"])
    real, _ = predicted(capsys, recording, "--here", "zen4")
    assert real[0] == "zen4" and real.count("zen4") == 1 and "zen3" in real
    assert main(["predict", "-q", recording, "--uarch", "zen3"]) == 0
    table = capsys.readouterr().out
    assert "zen3 " in table and "skylake" not in table and "x best" not in table
    assert main(["predict", "-q", recording, "--uarch", "u006", "--by", "pc"]) == 0
    (title,) = (x for x in capsys.readouterr().out.splitlines() if x.startswith("share of"))
    assert title.split()[-2:] == ["pc", "u006"]


@RECORDS
def test_machines_that_predict_does_not_know(
    recording: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = tmp_path / "here.json"
    here.write_text(json.dumps(HardwareMachine.load("zen4").to_dict()))
    for words, *told in (
        (["--uarch", "zen9"], "--uarch: zen9: neither", "real processors: icelake, ", "u006"),
        (["--uarch", "neoverse_n1"], "nor a real processor that runs the program"),
        (["--uarch", "zen3", "--by", "pc"], "--by: of machines of the model, and --uarch"),
        (["--here", "zen9"], "--here: zen9 is no machine's name", "icelake, neoverse_n1", "u006"),
        (["-m", "zen4"], "--machine: zen4 is no file", "--uarch zen4"),
        (["--machine", "u006"], "--machine: u006 is no file", "--uarch u006"),
        (["--machine", str(here)], "is a real processor's, and no row", f"--here {here}"),
    ):
        assert main(["predict", "-q", recording, *words]) == 2
        err = capsys.readouterr().err
        assert all(text in err for text in told), err
