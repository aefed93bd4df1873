"""Validation: the list and its halves, times, baselines and pairs against sums by hand, one run."""

from __future__ import annotations

import importlib.util
import json
import math
import shutil
import statistics
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit.cli.main import main
from tracekit.errors import FormatError, TracekitError
from tracekit.validation import Group, ListedProgram, draw, judge, load_list
from tracekit.validation.judging import Judged
from tracekit.validation.timing import Timed, clock_ghz, medians, read_times, time_once

BENCH = Path(__file__).parent.parent / "bench" / "hardware" / "list.json"


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
    ],
)
def test_lists_that_are_none(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    (tmp_path / "l.json").write_text(json.dumps({**SMALL, **change}))
    with pytest.raises(FormatError, match=said):
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
    file.write_text('{"program": "p", "user": 1, "clock": 3}\n{"program"\n')
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
    with pytest.raises(SystemExit):
        main(["validate", "l.json", "--half", "third"])
    assert main(["validate", "l.json", "--only", "nobody"]) != 0
    assert "no program 'nobody'" in capsys.readouterr().err
