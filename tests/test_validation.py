"""Validation: the list and its halves, times, baselines and pairs against sums by hand, one run."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import shutil
import statistics
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit.cli.main import main
from tracekit.errors import FormatError, TracekitError
from tracekit.hardware import HardwareMachine
from tracekit.hardware.measure.shared_core import SharedCore
from tracekit.validation import (
    Group,
    ListedProgram,
    Validation,
    draw,
    fitted_factor,
    judge,
    load_list,
)
from tracekit.validation.judging import Judged
from tracekit.validation.timing import Timed, clock_ghz, medians, read_times, time_once

BENCH = Path(__file__).parent.parent / "bench" / "hardware" / "list.json"


SHARES = SharedCore.shared


@pytest.fixture(autouse=True)
def own_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """No program stands still for what else the computer of the tests does."""
    monkeypatch.setattr(SharedCore, "shared", lambda self: False)


def listed(name: str, half: str = "development", work: float = 1) -> ListedProgram:
    return ListedProgram(name, "f", half, ("true",), None, work, True)


def judged(
    name: str, seconds: float, predicted: float, half: str = "development", **more: Any
) -> Judged:
    spread = more.pop("spread", 0.01)
    work = more.pop("work", 1)
    n = more.pop("instructions", 1_000_000)
    timed = Timed(seconds * 4e9, spread, seconds, 0.0, 10)
    return Judged(listed(name, half, work), timed, n, seconds, predicted, **more)


# --- the list


@given(st.sets(st.text(min_size=1), min_size=1), st.integers(0, 2**40))
def test_halves_are_halves(families: set[str], seed: int) -> None:
    found = draw(sorted(families), seed)
    assert found == draw(sorted(families, reverse=True), seed)
    chosen = [f for f, half in found.items() if half == "development"]
    assert len(chosen) == (len(families) + 1) // 2 and set(found) == families


def test_the_list_of_the_bench() -> None:
    found = load_list(BENCH)
    own = [p for p in found.programs if p.judged]
    assert len(own) >= 40 and len({p.family for p in own}) >= 15
    for half in ("development", "test"):
        assert sum(p.half == half for p in own) >= 20
    by_name = {p.name: p for p in found.programs}
    for g in found.groups:
        assert len({by_name[v].half for v in g.versions}) == 1, g.name
    assert sum(math.comb(len(g.versions), 2) for g in found.groups) >= 40
    for source in {w for c in found.builds.values() for w in c if "{list}" in w}:
        assert Path(source.replace("{list}", str(BENCH.parent))).exists()


SMALL: dict[str, Any] = {
    "seed": 1,
    "programs": [{"name": "a", "family": "f", "half": "development", "command": ["true"]}],
}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seed": "1"}, "seed: a whole number"),
        ({"more": 1}, "unknown keys: more"),
        ({"programs": []}, "programs: none"),
        ({"programs": [{**SMALL["programs"][0], "half": "test"}]}, "seed 1 draws f for dev"),
        ({"programs": [{**SMALL["programs"][0], "name": "../a"}]}, "name: a plain name"),
        ({"programs": [{**SMALL["programs"][0], "work": 0}]}, "work: a positive number"),
        ({"programs": [{**SMALL["programs"][0], "command": []}]}, "command: a list of words"),
        ({"programs": [{**SMALL["programs"][0], "command": ["{build:x}"]}]}, "no build 'x'"),
        ({"programs": [{**SMALL["programs"][0], "input": "x"}]}, "no input 'x'"),
        ({"groups": [{"name": "g", "versions": ["b"]}]}, "no program 'b'"),
        ({"environment": {"A": 1}}, "environment: an object of texts"),
        ({"cpu": 5}, "cpu: the name of a processor of QEMU"),
        ({"builds": {"../p": ["cc"]}}, "builds: '../p' is no plain name"),
        ({"fitting": {"seed": 1}}, "fitting: an object of seed and candidates"),
        ({"fitting": {"seed": 1, "candidates": ["a", "b"]}}, "2 candidates; at least 5"),
        ({"fitting": {"seed": 1, "candidates": list("bcdefgh")}}, "fitting: seed 1 draws "),
        ({"fitting": {"seed": "1", "candidates": list("bcdefgh")}}, "seed: a whole number"),
    ],
)
def test_lists_that_are_none(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    (tmp_path / "l.json").write_text(json.dumps({**SMALL, **change}))
    with pytest.raises(FormatError, match=said):
        load_list(tmp_path / "l.json")


def test_programs_to_fit_on_are_of_neither_half(tmp_path: Path) -> None:
    five = [{"name": n, "family": 2 * n, "half": "fitting", "command": ["true"]} for n in "bcdef"]
    made = {**SMALL, "fitting": {"seed": 3, "candidates": list("bcdef")}}
    made["programs"] = [*SMALL["programs"], *five]
    (tmp_path / "l.json").write_text(json.dumps(made))
    assert sum(p.half == "fitting" for p in load_list(tmp_path / "l.json").programs) == 5
    five[0]["family"] = "f"  # of program a, in the development half
    (tmp_path / "l.json").write_text(json.dumps(made))
    with pytest.raises(FormatError, match="fitting: family f is in a half, too"):
        load_list(tmp_path / "l.json")
    del made["programs"][1]
    (tmp_path / "l.json").write_text(json.dumps(made))
    with pytest.raises(FormatError, match="fitting: seed 3 draws b, c, d, e, f"):
        load_list(tmp_path / "l.json")


# --- times


def test_the_clock_is_a_clock() -> None:
    assert 0.5 < clock_ghz() < 8


def test_a_program_s_user_time_counts_its_children() -> None:
    words = ["sh", "-c", "i=0; (while [ $i -lt 60000 ]; do i=$((i+1)); done); :"]
    found = time_once("loop", words, None, {})
    assert 0.01 < found["user"] < 10 and found["clock"] > 0.5


def test_programs_that_fail_are_said() -> None:
    with pytest.raises(TracekitError, match="status 3"):
        time_once("bad", ["sh", "-c", "exit 3"], None, {})
    with pytest.raises(TracekitError, match="absent"):
        time_once("absent", ["/no/such/program"], None, {})


class Shared:
    """A core that is shared at these looks."""

    def __init__(self, *looks: bool) -> None:
        self.looks = list(looks)

    def shared(self) -> bool:
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]


def test_a_program_stands_still_while_the_core_is_shared() -> None:
    words = ["sh", "-c", "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done"]
    free = time_once("loop", words, None, {}, Shared(False))  # type: ignore[arg-type]
    looks = Shared(*[True] * 200, False)
    waits = time_once("loop", words, None, {}, looks)  # type: ignore[arg-type]
    assert free["still"] == 0 and waits["still"] > 0.05
    assert waits["wall"] > waits["still"] and len(looks.looks) == 1


def test_a_core_that_stays_shared_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracekit.validation.timing._PATIENCE", 0.05)
    with pytest.raises(TracekitError, match="another thread shares the core"):
        time_once("long", ["sleep", "60"], None, {}, Shared(True))  # type: ignore[arg-type]


def test_the_core_of_this_thread() -> None:
    core = SharedCore()
    assert core._least > 0
    core._least /= 4  # a moment in which it was four times as fast
    assert SHARES(core)
    core._least *= 400
    assert not SHARES(core)


@given(st.lists(st.tuples(st.floats(0.1, 9), st.floats(1, 5)), min_size=2, max_size=9))
def test_medians(times: list[tuple[float, float]]) -> None:
    told = [{"program": "p", "user": u, "system": 0.5, "clock": c} for u, c in times]
    found = medians(told)["p"]
    cycles = [u * c * 1e9 for u, c in times]
    low, middle, high = statistics.quantiles(cycles, n=4)
    assert found.cycles == pytest.approx(statistics.median(cycles))
    assert found.spread == pytest.approx((high - low) / middle)
    assert found.system == pytest.approx(
        0.5 * len(times) / (0.5 * len(times) + sum(u for u, _ in times))
    )


def test_what_spreads_is_measured_again() -> None:
    first = [(1.0 + 0.1 * (i % 3), 4.0) for i in range(6)]
    told = [
        {"program": "p", "user": u, "system": 0, "clock": c} for u, c in [*first, *[(2.0, 4.0)] * 6]
    ]
    found = medians(told)["p"]
    assert (found.rounds, found.cycles, found.spread) == (6, 8e9, 0.0)
    steady = medians([{**t, "user": 2.0} for t in told])["p"]
    assert (steady.rounds, steady.spread) == (12, 0.0)


def test_a_damaged_file_of_times(tmp_path: Path) -> None:
    file = tmp_path / "times.jsonl"
    file.write_text('{"program": "p", "user": 1, "system": 0, "clock": 3}\n{"program"\n')
    with pytest.raises(FormatError, match="line 2"):
        read_times(file)


# --- judging


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=8), st.floats(0.05, 20))
def test_no_constant_is_better(times: list[float], other: float) -> None:
    programs = [judged(str(i), t, t) for i, t in enumerate(times)]
    found = judge(programs, []).baselines["constant ns/instruction"]

    def error(c: float) -> float:
        return sum(abs(c / t - 1) for t in times)

    assert error(found["0"]) <= error(other) + 1e-9


def test_baselines_are_fitted_on_the_development_half_alone() -> None:
    def mix(fp: float) -> dict[str, float]:
        return {"int": 1 - fp, "fp": fp}

    # One ns for an integer instruction, three for the others.
    own = [
        judged(str(i), 1e-3 * (1 + 2 * f), 1e-3, mix=mix(f), others={"m": 1e-3, "n": 2e-3})
        for i, f in enumerate((0.0, 0.2, 0.9, 1.0))
    ]
    other = judged("t", 1.0, 2.0, "test", mix=mix(0.5), others={"m": 1e-3, "n": 2e-3})
    found = judge([*own, other], [])
    assert found.baselines["instruction mix"]["t"] == pytest.approx(2e-3)
    assert found.baselines["nearest machine (m)"]["t"] == 1e-3
    told = found.summary("test")
    assert told["prediction"]["mean"] == pytest.approx(1.0) and told["programs"] == 1
    assert told["constant ns/instruction"]["mean"] > 0.99


def test_a_factor_is_the_median_of_programs() -> None:
    ratios = {"a": 1.1, "b": 1.2, "c": 1.3, "d": 5.0, "e": 1.0}
    some = [judged(n, r, 1.0, "fitting") for n, r in ratios.items()]
    factor, others = fitted_factor(some)
    assert factor == 1.2
    assert others["b"] == pytest.approx((1.1 + 1.3) / 2 / 1.2 - 1)
    assert others["d"] == pytest.approx(1.15 / 5 - 1)
    found = judge(some, [])
    assert found.baselines == {} and found.summary("test")["programs"] == 0


def test_pairs() -> None:
    programs = [
        judged("a", 1.0, 1.0),
        judged("b", 2.0, 3.0, work=4),  # half of a second for a's work
        judged("c", 1.05, 0.9),
        judged("d", 1.3, 1.0, spread=0.2),
        judged("e", 1.02, 5.0),
    ]
    found = judge(programs, [Group("g", ("a", "b", "c", "d")), Group("h", ("a", "e"))]).pairs
    by = {tuple(p["versions"]): p for p in found}
    assert by["a", "b"]["scored"] and by["a", "b"]["right"]
    assert by["a", "b"]["measured_ratio"] == 2 and by["a", "b"]["predicted_ratio"] == 4 / 3
    assert not by["a", "c"]["scored"] and not by["a", "c"]["right"]
    assert not by["a", "d"]["scored"]  # its spread is larger
    assert ("a", "e") not in by  # under 3 %
    told = judge(programs, [Group("g", ("a", "b", "c"))]).summary("development")
    assert (told["pairs"], told["pairs_right"]) == (2, 2)


# --- builds


def test_a_build_that_a_kill_left_without_its_mode_runs(tmp_path: Path) -> None:
    """And what a command makes lies in a folder that nobody can guess, whatever else lies there."""
    made = {
        **SMALL,
        "builds": {"p": ["sh", "-c", "printf '#!/bin/sh\\n' > $0", "{out}"]},
        "programs": [{**SMALL["programs"][0], "command": ["{build:p}"]}],
    }
    (tmp_path / "l.json").write_text(json.dumps(made))
    folder = tmp_path / "v"
    folder.mkdir()
    (tmp_path / "mine").write_text("mine")
    (folder / ".build-p.made").symlink_to(tmp_path / "mine")
    steps = Validation(load_list(tmp_path / "l.json"), folder)
    steps.build()
    out = folder / "build-p"
    assert out.read_text() == "#!/bin/sh\n" and os.access(out, os.X_OK)
    assert (tmp_path / "mine").read_text() == "mine"
    out.chmod(0o644)  # killed between the file's name and its mode
    steps.build()
    assert os.access(out, os.X_OK) and steps.there(steps.programs[0])
    assert {p.name for p in folder.iterdir()} == {".build-p.made", "build-p", "made.json"}


def test_what_ran_under_a_name_before_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another command, source, input, environment or processor of QEMU: built, timed and recorded
    again, what it concerns alone."""
    script, source = tmp_path / "make", tmp_path / "in"
    script.write_text("first")
    source.write_text("text")
    made: dict[str, Any] = {
        **SMALL,
        "builds": {"p": ["sh", "-c", "echo '#!/bin/sh' > $0; cat $1 >> $0", "{out}", str(script)]},
        "inputs": {"i": ["cp", str(source), "{out}"]},
        "programs": [
            {**SMALL["programs"][0], "command": ["{build:p}", "1"], "input": "i"},
            {**SMALL["programs"][0], "name": "b"},
        ],
    }
    ran: list[tuple[str, str]] = []

    def time_once(name: str, *_: Any) -> dict[str, Any]:
        ran.append(("time", name))
        return {"program": name, "user": 1.0, "system": 0.0, "clock": 4.0}

    def sample(*told: Any) -> None:
        folder, name, digest = told[4:7]
        ran.append(("record", name))
        counts = {"instructions": 9, "every": 1, "samples": 1, "distance": 0.1, "foreign": None}
        (folder / f"{name}.counts.json").write_text(
            json.dumps({**counts, "seconds": 1.0, "digest": digest})
        )

    monkeypatch.setattr("tracekit.validation.steps.time_once", time_once)
    monkeypatch.setattr("tracekit.validation.steps.sample", sample)
    folder = tmp_path / "v"
    folder.mkdir()

    def runs() -> list[tuple[str, str]]:
        (tmp_path / "l.json").write_text(json.dumps(made))
        steps = Validation(load_list(tmp_path / "l.json"), folder)
        ran.clear()
        before = dict(steps.left_out())
        steps.build()
        steps.time(1)
        steps.record()
        assert steps.left_out() == {}
        assert bool(before) == bool(ran), before
        return list(ran)

    a, b = [("time", "a"), ("record", "a")], [("time", "b"), ("record", "b")]
    assert sorted(runs()) == sorted(a + b)
    assert runs() == []
    made["programs"][0]["command"] = ["{build:p}", "2"]
    assert runs() == a
    script.write_text("second")
    assert runs() == a and "second" in (folder / "build-p").read_text()
    made["builds"]["p"][2] += "; echo third >> $0"
    assert runs() == a and "third" in (folder / "build-p").read_text()
    source.write_text("another")
    assert runs() == a and (folder / "input-i").read_text() == "another"
    made["environment"] = {"A": "b"}
    assert sorted(runs()) == sorted(a + b)
    made["cpu"] = "max"
    assert runs() == [a[1], b[1]]
    assert runs() == []


def test_the_processor_is_the_one_that_was_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wherever the results are looked at; times of two processors are told apart."""
    (tmp_path / "l.json").write_text(json.dumps(SMALL))
    times = tmp_path / "v" / "times.jsonl"

    def time_once(name: str, *_: Any) -> dict[str, Any]:
        return {"program": name, "user": 1.0, "system": 0.0, "clock": 4.0}

    def sample(*told: Any) -> None:
        folder, name, digest = told[4:7]
        counts = {"instructions": 9, "every": 1, "samples": 1, "distance": 0.1, "foreign": None}
        counts |= {"seconds": 1.0, "digest": digest}
        (folder / f"{name}.counts.json").write_text(json.dumps(counts))

    monkeypatch.setattr("tracekit.validation.steps.time_once", time_once)
    monkeypatch.setattr("tracekit.validation.steps.sample", sample)
    monkeypatch.setattr(Validation, "_simulated", lambda *_: ([1e9], {"IntAlu": 1.0}))
    words = ["validate", "-q", str(tmp_path / "l.json"), "-o", str(tmp_path / "v"), "--json"]
    for processor in ("here", "elsewhere"):
        monkeypatch.setattr("tracekit.validation.steps.cpu_name", lambda name=processor: name)
        assert main([*words, "--rounds", "2"]) == 0
        assert json.loads(capsys.readouterr().out)["host"] == "here"
    before = times.read_bytes()
    assert main([*words, "--rounds", "3"]) == 1
    said = capsys.readouterr().err
    assert f"{times}: times of several processors: elsewhere, here" in said
    assert times.read_bytes() == before
    mixed = before.decode().replace('"here"', '"elsewhere"', 1)
    times.write_text(mixed)
    assert main([*words, "--steps", "predict"]) == 1
    assert "several processors" in capsys.readouterr().err
    times.write_text(before.decode().replace(', "host": "here"', ""))
    assert main([*words, "--steps", "predict"]) == 0
    assert json.loads(capsys.readouterr().out)["host"] is None
    assert main([*words[:-1], "--steps", "predict"]) == 0
    assert "zen5 against a processor that the times do not tell" in capsys.readouterr().out


def test_two_machines_of_one_name_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "l.json").write_text(json.dumps(SMALL))
    words = ["validate", str(tmp_path / "l.json"), "-o", str(tmp_path / "v"), "--steps", "predict"]
    assert main([*words, "--machine", "zen5", "--others", "zen4", "zen5"]) != 0
    assert "two machines are called zen5" in capsys.readouterr().err


def test_cycles_of_other_samples_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = Validation(load_list(BENCH), tmp_path)
    monkeypatch.setattr(Validation, "there", lambda self, p: True)
    monkeypatch.setattr("tracekit.validation.steps.sample", lambda *_: None)
    first, second = (tmp_path / f"{p.name}.simulated.json" for p in steps.programs[:2])
    counts = {"instructions": 9, "every": 1, "samples": 1, "distance": 0.1, "foreign": None}
    counts |= {"seconds": 1.0, "digest": steps._counted(steps.programs[1])}
    (tmp_path / f"{steps.programs[1].name}.counts.json").write_text(json.dumps(counts))
    for kept in (first, second):
        kept.write_text("{}")
    steps.record()
    assert not first.exists() and second.exists(), "the second's samples are there already"


# --- all of it


def test_a_validation_from_the_list_to_the_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if shutil.which("qemu-x86_64") is None or shutil.which("gcc") is None:
        pytest.skip("needs qemu-user and gcc")
    monkeypatch.chdir(tmp_path)
    Path("p.c").write_text(
        "#include <stdio.h>\n#include <stdlib.h>\n"
        "int main(int c, char** v) { volatile long s = 0, n = atol(v[1]);"
        ' for (long i = 0; i < n; ++i) s += i; printf("%ld\\n", s); return 0; }\n'
    )
    programs = [
        {"name": n, "family": n, "half": draw("ab", 5)[n], "command": ["{build:p}", times]}
        for n, times in (("a", "15000000"), ("b", "40000000"))
    ]
    programs.append({**programs[0], "name": "absent", "command": ["no-such-program"]})
    made = {
        "seed": 5,
        "environment": {"LC_ALL": "C"},
        "builds": {"p": ["gcc", "-O1", "{list}/p.c", "-o", "{out}"]},
        "groups": [{"name": "g", "versions": ["a", "b"]}],
        "programs": programs,
    }
    Path("l.json").write_text(json.dumps(made))
    drawn = importlib.util.find_spec("matplotlib") is not None
    words = ["validate", "l.json", "--rounds", "3", "--others", "zen4", "--json"]
    picture = ["--plot", "p.png"] if drawn else []
    monkeypatch.setattr("tracekit.validation.steps.SPREAD", 9.0)
    monkeypatch.setattr("tracekit.validation.sampling.ENOUGH", 5)  # samples, so that it is quick
    assert main([*words, *picture]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["left_out"] == {"absent": "no-such-program is not installed"}
    assert {p["name"] for p in found["programs"]} == {"a", "b"}
    for p in found["programs"]:
        assert p["instructions"] > 2_000_000
        assert 0.05 < p["predicted_seconds"] / p["measured_seconds"] < 20
        assert set(p["baselines"]) >= {"constant ns/instruction", "nearest machine (zen4)"}
    assert not drawn or Path("p.png").stat().st_size > 1000
    # Again: nothing is timed or recorded a second time, and the text says the same.
    stamp = Path("l.validation/times.jsonl").read_bytes()
    assert main([*words[:6], "--steps", "build", "time", "record", "predict"]) == 0
    assert Path("l.validation/times.jsonl").read_bytes() == stamp
    told = capsys.readouterr().out
    assert "left out: absent" in told and "constant ns/instruction" in told
    # What came out goes into the machine's file.
    assert main(["validate", "l.json", "--machine", "zen5", "--write"]) != 0
    assert "zen5 is no file" in capsys.readouterr().err
    Path("here.json").write_text(json.dumps(HardwareMachine.load("zen5").to_dict()))
    assert main(["validate", "l.json", "--machine", "here.json", "--half", "test", "--write"]) != 0
    assert "both halves" in capsys.readouterr().err
    write = ["validate", "l.json", "--machine", "here.json", "--rounds", "3", "--write", "--json"]
    assert main(write) == 0
    test = json.loads(capsys.readouterr().out)["halves"]["test"]["prediction"]
    checked = HardwareMachine.load("here.json").checked
    assert checked is not None and checked["mean"] == test["mean"] and checked["half"] == "test"
    monkeypatch.setattr("tracekit.cli.cmd_validate._MOST_LEFT_OUT", 0)
    assert main(write) != 0
    assert "left out: 1 judged program, over 0" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["validate", "l.json", "--half", "third"])
    assert main(["validate", "l.json", "--only", "nobody"]) != 0
    assert "no program 'nobody'" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.ci
def test_a_factor_is_fitted_on_the_programs_of_neither_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Loops under QEMU, whose times are made up."""
    if shutil.which("qemu-x86_64") is None or shutil.which("gcc") is None:
        pytest.skip("needs qemu-user and gcc")
    monkeypatch.chdir(tmp_path)
    Path("p.c").write_text(
        "#include <stdlib.h>\nint main(int c, char** v) { volatile long s = 0, n = atol(v[1]);"
        " for (long i = 0; i < n; ++i) s += i; return 0; }\n"
    )
    names = ["m", "n", "o", "p", "q"]
    programs = [
        {"name": n, "family": n, "half": "fitting", "command": ["{build:p}", str(10**6 + k)]}
        for k, n in enumerate(names)
    ]
    made = {
        **SMALL,
        "builds": {"p": ["gcc", "-O1", "{list}/p.c", "-o", "{out}"]},
        "fitting": {"seed": 1, "candidates": names},
        "programs": [*SMALL["programs"], *programs],
    }
    Path("l.json").write_text(json.dumps(made))
    Path("here.json").write_text(json.dumps(HardwareMachine.load("zen5").to_dict()))
    both = Validation(load_list("l.json"), tmp_path).programs
    assert both and not {p.name for p in both} & set(names)
    one = Validation(load_list("l.json"), tmp_path, only=["m"]).programs
    assert [p.name for p in one] == ["m"]
    fit = ["validate", "l.json", "--machine", "here.json", "--rounds", "2", "--fit", "f.json"]

    def time_once(name: str, *_: Any) -> dict[str, Any]:
        user = 4e-4 * slower * (1 + 0.1 * names.index(name))
        return {"program": name, "user": user, "system": 0.0, "clock": 4.1}

    slower = 1.0
    monkeypatch.setattr("tracekit.validation.steps.time_once", time_once)
    assert main([*fit, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["programs"]) == set(names)
    machine = HardwareMachine.load("f.json")
    assert machine.fitted is not None and machine.factor == pytest.approx(found["factor"], abs=1e-4)
    ratios = sorted(1 / (1 + e["error"]) for e in found["programs"].values())
    assert machine.factor == pytest.approx(ratios[2], abs=1e-4)
    # Predictions with the factor are so many times as long, and a second fit is the same.
    again = ["validate", "l.json", "--half", "fitting", "--steps", "predict", "--json"]
    assert main([*again, "--machine", "f.json"]) == 0
    for p in json.loads(capsys.readouterr().out)["programs"]:
        before = found["programs"][p["name"]]["error"]
        assert 1 + p["error"] == pytest.approx(machine.factor * (1 + before), rel=1e-3)
    assert main([*fit, "--force", "--machine", "f.json"]) == 0
    assert HardwareMachine.load("f.json").factor == machine.factor
    assert "with the factor of the others" in capsys.readouterr().out
    assert main(fit) != 0 and "f.json" in capsys.readouterr().err
    assert main([*fit[:-1], "g.json", "--half", "test"]) != 0
    assert "nothing is judged" in capsys.readouterr().err
    slower = 100.0
    Path("l.validation/times.jsonl").unlink()
    assert main([*fit[:-1], "g.json"]) != 0
    assert "of those predicted: too far for a factor" in capsys.readouterr().err
    monkeypatch.setattr("tracekit.validation.steps.SPREAD", -1.0)
    assert main([*fit[:-1], "g.json"]) != 0 and not Path("g.json").exists()
