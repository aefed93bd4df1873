"""HardwareMachine: the file of a real processor, and what is refused."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import pytest

from tracekit import _core
from tracekit.cli.main import main
from tracekit.errors import FormatError, UsageError
from tracekit.hardware import HARDWARE_PARAMETERS, HardwareMachine, hardware_machines, measure
from tracekit.hardware.machine import is_hardware_file
from tracekit.hardware.parameters import hardware_errors

FEATS = Path(__file__).parent / "golden" / "feats-v1.zst"


def test_fields_and_the_core_s_numbers_are_the_table_s() -> None:
    names = {p.name for p in HARDWARE_PARAMETERS}
    assert names | {"predictor"} == {n for n, _, _ in _core.HARDWARE_PARAMETERS}
    fields = {f.name: f.default for f in dataclasses.fields(HardwareMachine)}
    assert names <= set(fields)
    for p in HARDWARE_PARAMETERS:
        given = fields[p.name]
        assert p.default == (None if given is dataclasses.MISSING else given), p.name


@pytest.mark.parametrize("name", hardware_machines())
def test_known_machines_come_back_from_their_files(name: str, tmp_path: Path) -> None:
    machine = hardware_machines()[name]
    assert machine.sources and machine.cpu and machine.checked_on_hardware == "never"
    path = tmp_path / "m.json"
    path.write_text(json.dumps(machine.to_dict()))
    assert is_hardware_file(path)
    again = HardwareMachine.load(path)
    assert again == machine and hash(again) == hash(machine)
    assert HardwareMachine.load(name) == machine


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    known = HardwareMachine.load("zen5").to_dict()
    del known["rob"]
    bad = {
        **known,
        "robb": 3,
        "width": 2.5,
        "clock_ghz": "fast",
        "isa": "mips",
        "schedulers": [{"entries": 0, "ports": "alu"}],
        "measured": {"add r64, r64": {"latency": -1}},
        "notes": "none",
    }
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(bad))
    with pytest.raises(FormatError) as told:
        HardwareMachine.load(path)
    for what in (
        *("robb is no parameter; did you mean rob?", "missing: rob", "width is 2.5", "clock_ghz"),
        *("isa is 'mips'; one of x86, arm", "schedulers[0].entries is 0", "schedulers[0].ports"),
        *("measured['add r64, r64'].latency is -1", "notes: a list of texts"),
    ):
        assert what in str(told.value)
    with pytest.raises(UsageError, match="rob is 4; a whole number from 8 to 4096"):
        HardwareMachine.load("zen5").replace(rob=4)
    with pytest.raises(UsageError, match="op_cache_more and op_cache_entry_cycles: what entries"):
        HardwareMachine.load("zen5").replace(op_cache_entry_cycles=1)
    with pytest.raises(UsageError, match="no real processor has this name"):
        HardwareMachine.load("zen9")
    text = tmp_path / "gem5.json"
    text.write_text("[1]")
    assert not is_hardware_file(text)
    with pytest.raises(FormatError, match="a JSON object"):
        HardwareMachine.load(text)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"table": "nosuch"}, "table is 'nosuch'; one of alderlake, "),
        ({"table": "neoverse-v2"}, "table is neoverse-v2, which is of arm; the machine is of x86"),
        ({"isa": "arm"}, "table is znver5, which is of x86; the machine is of arm"),
        ({"schedulers": [{"entries": 9, "ports": ["fp*"]}]}, "schedulers: none feeds alu0, "),
        ({"measured": {"movv m64, r64": {}}}, "measured['movv m64, r64']: no form"),
        ({"measured": {"mov m65, r64": {}}}, "measured['mov m65, r64']: no form"),
        ({"measured": {"": {}, "\x1b[31m": {}}}, "measured['\\x1b[31m']: no form"),
    ],
)
def test_a_file_is_checked_beside_its_table(
    changes: dict[str, object], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.json"
    path.write_text(json.dumps({**HardwareMachine.load("zen5").to_dict(), **changes}))
    assert main(["machines", str(path)]) == 1
    assert capsys.readouterr().err.startswith(f"tracekit: {path}: ")
    with pytest.raises(FormatError) as e:
        HardwareMachine.load(path)
    assert told in str(e.value)
    with pytest.raises(UsageError) as of_values:
        HardwareMachine.load("zen5").replace(**changes)
    assert told in str(of_values.value)


@pytest.mark.parametrize("name", hardware_machines())
def test_forms_that_a_table_has_not_may_be_measured(name: str, tmp_path: Path) -> None:
    """Calibration's, and others of the instruction set."""
    machine = hardware_machines()[name]
    folder = Path(measure.__file__).parent
    forms = (folder / f"forms_{machine.isa}.txt").read_text("utf-8").splitlines()
    more = "add m8, m64" if machine.isa == "x86" else "add v.16b, x, w"
    measured = {form: {"latency": 1.0} for form in (*forms, more)}
    path = tmp_path / "m.json"
    path.write_text(json.dumps({**machine.to_dict(), "measured": measured}))
    assert len(HardwareMachine.load(path).measured) == len(forms) + 1


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("rob", 10**400), ("clock_ghz", -(10**400)), ("width", True), ("clock_ghz", math.nan)),
        *(("name", "\x1b[31m"), ("cpu", "a\nb"), ("table", []), ("isa", "x" * 10**6)),
        *(("checked", {"mean": "x"}), ("checked", {"mean": []}), ("checked", {"mean": -1})),
        *(("measured", {"f" * 10**6: 1}), ("measured", {"add": {"latency": 10**400}})),
        ("k" * 10**6, 1),
    ],
    ids=lambda v: str(v)[:20].encode("unicode_escape").decode(),
)
def test_no_value_is_a_surprise(key: str, value: object) -> None:
    found = hardware_errors({**HardwareMachine.load("zen5").to_dict(), key: value})
    assert len(found) == 1 and len(found[0]) < 400


def test_a_real_processor_is_no_machine_of_gem5s_kind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "here.json"
    path.write_text(json.dumps(HardwareMachine.load("zen5").to_dict()))
    for machine in (str(path), "zen5"):
        assert main(["why", str(FEATS), "--machine", machine]) != 0
        told = capsys.readouterr().err
        assert "is a real processor; a machine of gem5's kind is needed" in told
        assert len(told) < 300


def test_a_measured_machine_is_shown_in_short_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forms = (Path(measure.__file__).parent / "forms_x86.txt").read_text("utf-8").splitlines()
    machine = HardwareMachine.load("zen5").replace(
        measured={form: {"latency": 1.0} for form in forms},
        calibration={f"value{k}": 0.1 * k for k in range(200)},
        fitted={"factor": 1.25, "programs": forms},
        checked={"mean": 0.12},
        l3_kb=1908,
        l2_latency=13.9 + 1e-13,
        notes=("one", "two"),
    )
    path = tmp_path / "m.json"
    path.write_text(json.dumps(machine.to_dict()))
    assert main(["machines", str(path)]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.endswith("L3 1.86 MB")
    told = {line.split()[0]: line.split(maxsplit=1)[1] for line in lines}
    assert told["measured"] == f"{len(forms)} forms; --json shows them"
    assert told["calibration"] == "200 values; --json shows them"
    assert told["fitted"] == "a factor of 1.25; --json shows the programs"
    assert told["checked"] == "yes, within 12 %" and told["notes"] == "one; two"
    assert told["l2_latency"] == "13.9" and told["l3_kb"] == "1908"
    assert told["schedulers"].startswith("88 for alu* br* div")
    assert max(map(len, lines)) < 400 and not any("{" in line for line in lines)
    assert main(["machines", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["measured"] == machine.to_dict()["measured"]


def test_what_was_checked() -> None:
    machine = HardwareMachine.load("zen5").replace(checked={"mean": 0.12, "median": 0.07})
    assert machine.checked_on_hardware == "yes, within 12 %"
    assert HardwareMachine.from_dict(machine.to_dict()) == machine


@pytest.mark.parametrize("fitted", [{"factor": 2.5}, {"factor": "1"}, {"factor": True}, {}, 1.1])
def test_factors_that_are_none(fitted: object) -> None:
    with pytest.raises(UsageError, match=r"fitted: an object with a factor from 0\.5 to 2"):
        HardwareMachine.load("zen5").replace(fitted=fitted)
    assert HardwareMachine.load("zen5").factor == 1
    assert HardwareMachine.load("zen5").replace(fitted={"factor": 1.25}).factor == 1.25
