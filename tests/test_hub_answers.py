"""What the hub answers: right numbers, of nobody in particular; A/B that may be looked at."""

from __future__ import annotations

import json
import math
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("sqlalchemy", reason="needs the extra hub")
pytest.importorskip("alembic", reason="needs the extra hub")
pytest.importorskip("starlette", reason="needs the extra hub")
pytest.importorskip("uvicorn", reason="needs the extra hub")
pytest.importorskip("jinja2", reason="needs the extra hub")

import sqlalchemy as sa

from tracekit.errors import UsageError
from tracekit.fleet import Aggregate, Batch, Forget, Observed, Token
from tracekit.hub import Answering, ModelErrors, Question, issue_agent, open_database, prune
from tracekit.hub.fleet_rows import Release
from tracekit.hub.intake import Intake
from tracekit.hub.privacy import (
    Shown,
    agents_of,
    cells_of,
    may_be_shown,
    pack,
    shown_groups,
    unpack,
)
from tracekit.hub.sequential import LEAST, compare_sequentially, half_widths
from tracekit.hub.tables import aggregates, answers, series
from tracekit.hub.tokens import Tokens, Who
from tracekit.mixture.residuals import RESIDUALS

TODAY = int(time.time() // 86_400)


class Fleet:
    """Computers that report what they are told to, and a clock that stands."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.engine = open_database(str(folder / "h.db"))
        self.now = time.time()
        self.intake = Intake(self.engine, clock=lambda: self.now)
        self.who: list[Who] = []
        self.sent: list[int] = []
        self.options = {"interval": 0.0, **options}
        self.answering = self.fresh()

    def fresh(self) -> Answering:
        return Answering(self.engine, clock=lambda: self.now, **self.options)

    def join(self, count: int) -> list[int]:
        known = Tokens(self.engine)
        for _ in range(count):
            with self.engine.begin() as connection:
                token = Token(issue_agent(connection))
            who = known.who(token.reveal(), self.now)
            assert who is not None
            self.who.append(who)
            self.sent.append(0)
        return list(range(len(self.who) - count, len(self.who)))

    def report(
        self,
        number: int,
        times: dict[str, list[float]],
        *,
        weight: float = 10.0,
        group: str | None = None,
        label: str | None = None,
        day: int = TODAY - 2,
        version: str = "1",
    ) -> None:
        """Epochs of 100,000 instructions with these ns an instruction."""
        self.sent[number] += 1
        who = self.who[number]
        name = f"{number:08x}{self.sent[number]:024x}"
        hour = day * 24 + 12
        aggregates = tuple(
            Aggregate(
                design,
                "m",
                version,
                f"{name}{i:032x}",
                hour,
                100_000,
                value * 100_000 * 2.0,
                value * 2_000.0,
                weight,
                2.0,
                0.5 if i == 0 else 0.0,
                label,
            )
            for design, values in times.items()
            for i, value in enumerate(values)
        )
        seen = (Observed(hour, 2 * weight * len(next(iter(times.values())))),)
        batch = Batch(who.pseudonym, name, self.sent[number], self.now, aggregates, seen, group)
        self.intake.put(batch, who, batch.to_bytes()).result(30)

    def forget(self, number: int) -> None:
        self.sent[number] += 1
        who = self.who[number]
        request = Forget(
            who.pseudonym, f"{number:032x}", self.sent[number], self.now, everything=True
        )
        self.intake.put(request, who, request.to_bytes()).result(30)
        self.answering.changed()

    def close(self) -> None:
        self.intake.close()
        self.engine.dispose()


@pytest.fixture
def fleet(tmp_path: Path):
    made = Fleet(tmp_path)
    yield made
    made.close()


def times(rng: np.random.Generator, slow: float = 1.1, count: int = 6) -> dict[str, list[float]]:
    base = rng.uniform(0.3, 0.9, count)
    return {"a": base.tolist(), "b": (base * slow * rng.uniform(0.98, 1.02, count)).tolist()}


def test_the_answer_is_the_ratio_of_totals(fleet: Fleet) -> None:
    rng = np.random.default_rng(1)
    sums = np.zeros(2)
    for number in fleet.join(8):
        told = times(rng)
        weight = float(rng.uniform(1, 50))
        fleet.report(number, told, weight=weight)
        both = np.array([told["a"], told["b"]])
        sums += (weight * both / both.mean(axis=0)).sum(axis=1)  # by hand: seconds spent as now
    answer = fleet.answering.ask(Question())
    assert answer["best"] == "a" and answer["agents"] == 8 and answer["epochs"] == 48
    second = answer["designs"][1]
    assert second["ratio"] == pytest.approx(sums[1] / sums[0], rel=1e-12)
    assert 0 < second["half"] < 0.02 and second["certain"]
    assert answer["covered"] == pytest.approx(0.5)
    assert second["prediction_half"] == pytest.approx(0.01)
    assert second["outside_training"] == pytest.approx(1 / 6)
    json.dumps(answer, allow_nan=False)


def test_the_sums_by_design_are_asked_for_once(fleet: Fleet, monkeypatch: Any) -> None:
    rng, asked = np.random.default_rng(1), []
    by_design = Release.by_design
    monkeypatch.setattr(Release, "by_design", lambda *a: asked.append(a) or by_design(*a))
    for number in fleet.join(8):
        fleet.report(number, times(rng))
    assert fleet.answering.ask(Question())["best"] == "a"
    assert len(asked) == 1
    fleet.answering.ask(Question())
    assert fleet.answering.ask(Question("ab", designs=("a", "b")))["agents"] == 8
    assert len(asked) == 1


def test_the_newest_model_of_a_design_counts(fleet: Fleet) -> None:
    rng = np.random.default_rng(2)
    for number in fleet.join(6):
        told = times(rng)
        fleet.report(number, told, version="f9c2")
        fleet.report(number, {**told, "b": [0.1] * 6}, version="03ab")
    for number in range(4):  # of a version that four alone have
        fleet.report(number, {**told, "b": [9.0] * 6}, version="zz")
    for number in range(6):  # an old one in a group of its own
        fleet.report(number, times(rng), version="f9c2", group="late")
    answer = fleet.answering.ask(Question())
    assert answer["best"] == "b" and answer["epochs"] == 36


def test_small_groups_are_not_shown(fleet: Fleet) -> None:
    rng = np.random.default_rng(3)
    for number in fleet.join(4):
        fleet.report(number, times(rng), group="few")
    assert "hidden" in fleet.answering.ask(Question())
    for number in fleet.join(7):
        fleet.report(number, times(rng), group="many")
    found = fleet.answering.overview()
    assert found["fleet"]["agents"] == 11
    assert "few" not in found["groups"], "a name tells something, too"
    assert "hidden" in found["groups"]["many"], "the whole less it would be the four"
    assert "hidden" in fleet.answering.ask(Question(group="few"))
    assert "hidden" in fleet.answering.ask(Question(group="many"))
    assert "hidden" in fleet.answering.ask(Question(group="nobody"))


def test_few_computers_labels_and_groups_are_not_named(fleet: Fleet) -> None:
    rng = np.random.default_rng(3)
    for number in fleet.join(10):
        fleet.report(number, times(rng), group="lab", label="web")
    fleet.answering.overview()
    (lone,) = fleet.join(1)
    fleet.report(lone, times(rng), group="board", label="merger-tool")
    for answering in (fleet.answering, fleet.fresh()):
        found = answering.overview()
        assert (list(found["groups"]), list(found["labels"])) == (["lab"], ["web"])
        assert "board" not in json.dumps(found) and "merger" not in json.dumps(found)


def test_designs_of_few_computers_are_not_named(fleet: Fleet) -> None:
    """Nor do they take the fleet's answer away, whatever weight these computers report."""
    rng = np.random.default_rng(3)
    for number in fleet.join(10):
        fleet.report(number, times(rng))
    for number in fleet.join(4):
        fleet.report(number, {"secret": [1.0] * 6}, weight=1e6)
    found = fleet.answering.overview()
    assert found["fleet"]["agents"] == 10
    assert found["designs"] == ["a", "b"] and "secret" not in json.dumps(found)


def test_a_release_of_the_future_does_not_hold_up_others(tmp_path: Path) -> None:
    """The hub's clock was a year ahead when it made one."""
    fleet = Fleet(tmp_path, interval=86_400.0)
    rng = np.random.default_rng(3)
    for number in fleet.join(6):
        fleet.report(number, times(rng))
    fleet.now += 365 * 86_400
    assert fleet.answering.ask(Question())["release"] == 1
    fleet.now -= 365 * 86_400
    for number in range(6):
        fleet.report(number, times(rng))
    assert fleet.answering.ask(Question())["release"] == 2
    assert fleet.answering.release() == 2, "the next one waits for its day"


def test_designs_that_nobody_predicts_together(fleet: Fleet) -> None:
    """That is said, and not that few computers would be told apart."""
    for k, number in enumerate(fleet.join(20)):
        names = ("a", "b") if k < 10 else ("c", "d")
        fleet.report(number, {n: [1.0, 2.0, 3.0] for n in names})
    answer = fleet.answering.ask(Question())
    assert answer["hidden"].endswith("on all designs that would be compared: a, b, c, d")
    assert fleet.answering.ask(Question("ab", designs=("a", "b")))["agents"] == 10


def test_a_deleted_series_moves_no_other_ones_number(fleet: Fleet) -> None:
    """What an answer was about is told by numbers of groups; they outlast those of old groups."""
    rng = np.random.default_rng(4)
    crowd = fleet.join(12)
    for number in crowd[:6]:
        fleet.report(number, times(rng), group="old", day=TODAY - 39)
    for number in crowd[6:]:
        fleet.report(number, times(rng), group="new", day=TODAY - 1)
    assert fleet.answering.ask(Question(group="new"))["agents"] == 6
    assert prune(fleet.engine, 38, now=fleet.now)["series"] == 2
    fleet.answering.changed()
    fleet.forget(crowd[6])
    fleet.answering.changed()
    later = fleet.answering.ask(Question(group="new", since=TODAY - 2))
    assert "hidden" in later, "beside the first answer it would tell of one"
    fleet.report(crowd[0], times(rng), group="newest")
    with fleet.engine.connect() as connection:
        found = connection.execute(sa.select(series.c.machine_group, series.c.kind).distinct())
        assert sorted(tuple(r) for r in found) == [("new", 1), ("newest", 2)]


def test_residuals_are_of_that_model_alone(tmp_path: Path) -> None:
    (tmp_path / "targets").mkdir()
    place = tmp_path / "targets" / f"{'0' * 64}.web.x~1~{RESIDUALS}"
    place.write_text("{}")
    errors = ModelErrors(tmp_path)
    assert errors._place(("x", "1")) is None
    assert errors._place(("web.x", "1")) == place


def test_two_answers_do_not_tell_of_one(fleet: Fleet) -> None:
    """What one computer adds is in no difference of two answers, over groups, days and time."""
    rng = np.random.default_rng(4)
    crowd = fleet.join(8)
    for number in crowd:
        fleet.report(number, times(rng), day=TODAY - 3)
        fleet.report(number, times(rng), day=TODAY - 2)
    first = fleet.answering.ask(Question(until=TODAY - 2))
    assert first["agents"] == 8
    (lone,) = fleet.join(1)
    fleet.report(lone, times(rng, 5.0), day=TODAY - 2)
    fleet.now += 10
    later = fleet.answering.ask(Question(until=TODAY - 2))
    assert later == first, "a release needs five"
    for number in crowd:
        fleet.report(number, times(rng), day=TODAY - 4)
    fleet.now += 10
    assert fleet.answering.ask(Question(until=TODAY - 2))["release"] == 2
    before = fleet.answering.ask(Question(until=TODAY - 3))
    assert before["agents"] == 8
    rest = fleet.answering.ask(Question(since=TODAY - 2, until=TODAY - 2))
    assert "hidden" in rest, "beside the first answer it would tell of one"
    fleet.report(lone, times(rng, 5.0), day=TODAY - 6)
    for number in crowd:
        fleet.report(number, times(rng), day=TODAY - 1)
    fleet.now += 10
    shown = fleet.answering.ask(Question(until=TODAY - 3))
    assert shown == before, "the two differ by one computer's day"
    assert fleet.fresh().ask(Question(until=TODAY - 3)) == before, "after a restart, too"


def test_who_is_forgotten_is_in_no_difference(fleet: Fleet) -> None:
    rng = np.random.default_rng(5)
    crowd = fleet.join(9)
    for number in crowd:
        fleet.report(number, times(rng))
    first = fleet.answering.ask(Question())
    fleet.forget(crowd[0])
    for number in crowd[1:]:
        fleet.report(number, times(rng), day=TODAY - 1)
    fleet.now += 10
    assert fleet.answering.ask(Question()) == first, "without him it would tell what he was"
    fleet.now += 31 * 86_400
    assert fleet.answering.ask(Question())["agents"] == 8, "a hub that runs for months, too"
    assert fleet.fresh().ask(Question())["agents"] == 8


def test_an_answer_that_was_pruned_is_given_anew(fleet: Fleet) -> None:
    rng = np.random.default_rng(5)
    for number in fleet.join(6):
        fleet.report(number, times(rng))
    first = fleet.answering.ask(Question())
    with fleet.engine.begin() as connection:
        connection.execute(answers.delete())
    fleet.now += 1
    again = fleet.answering.ask(Question())
    assert again["at"] == first["at"] + 1 and again["release"] == first["release"]
    assert fleet.answering.ask(Question()) == again


def test_who_reports_left_out_designs_alone_hides_nobody(fleet: Fleet) -> None:
    """Two answers that differ by one computer, beside five of designs that neither is about."""
    rng = np.random.default_rng(6)
    for number in fleet.join(8):
        fleet.report(number, times(rng))
    first = fleet.answering.ask(Question())
    assert first["agents"] == 8
    for number in fleet.join(5):
        fleet.report(number, {"rare": [1.0] * 3}, weight=0.1)
    (lone,) = fleet.join(1)
    fleet.report(lone, times(rng, 5.0))
    fleet.now += 10
    assert fleet.answering.release() == 2
    assert fleet.answering.ask(Question()) == first


def test_a_fleet_in_daily_use_gets_answers(tmp_path: Path) -> None:
    """Two weeks of a fleet whose computers are off on some days, come and report late: the answer
    is new each day, and so are most of its parts."""
    fleet = Fleet(tmp_path, interval=86_400.0)
    rng = np.random.default_rng(12)
    crowd = fleet.join(16)
    fresh, shown, hidden = 0, 0, 0
    for i in range(14):
        day = int(fleet.now // 86_400) - 1
        if i == 6:
            crowd += fleet.join(2)
        for number in crowd:
            if rng.random() < 0.85:
                group = ("desktops", "laptops")[number % 2]
                late = int(rng.random() < 0.1)
                fleet.report(number, times(rng, count=2), group=group, day=day - late)
        fleet.now += 86_401
        found = fleet.answering.overview()
        fresh += found["fleet"]["release"] == i + 1
        for part in (*found["groups"].values(), *found["days"].values()):
            hidden += "hidden" in part
            shown += "hidden" not in part
    fleet.close()
    assert fresh == 14
    assert hidden <= 0.2 * shown, "but days of which few have reported so far"


@given(st.data())
def test_a_difference_is_of_nobody_or_of_k(data: st.DataObject) -> None:
    """Both ways against the definition, by sets."""
    cell = st.tuples(st.integers(0, 9), st.integers(0, 2), st.integers(0, 1), st.integers(0, 1))
    some = st.sets(cell, min_size=1, max_size=25)
    new, old = data.draw(some), data.draw(st.lists(some, max_size=3))

    def packed(cells: set[tuple[int, ...]]) -> Any:
        columns = np.array(sorted(cells), np.int64).T
        return cells_of(*columns)

    def right(a: set[tuple[int, ...]], b: set[tuple[int, ...]]) -> bool:
        return len({c[0] for c in a - b}) in {0, *range(3, 99)}

    expected = len({c[0] for c in new}) >= 3 and all(right(new, o) and right(o, new) for o in old)
    assert may_be_shown(packed(new), [packed(o) for o in old], 3) == expected
    shown = Shown()
    for cells in old:
        shown.add(packed(cells))
    assert shown.allow(packed(new), 3) == expected
    assert shown.allow(packed(new), 3) == expected, "asking changes nothing"
    assert agents_of(packed(new)) == len({c[0] for c in new})
    assert (unpack(pack(packed(new))) == packed(new)).all()


def test_what_is_left_over_is_of_k() -> None:
    assert shown_groups({"a": 9, "b": 8, "c": 3}) == ["a"]
    assert shown_groups({"a": 9, "b": 8, "c": 3, "d": 2}) == ["a", "b"]
    assert shown_groups({"a": 9, "b": 8}) == ["a", "b"]
    assert shown_groups({"a": 6, "c": 1}) == []


def test_questions_that_are_none() -> None:
    for wrong in ({"group": "<b>"}, {"since": -1}, {"kind": "ab", "designs": ("a", "a")}):
        with pytest.raises(UsageError):
            Question(**wrong)  # type: ignore[arg-type]


def test_intervals_hold_the_models_error(tmp_path: Path) -> None:
    """Where the repository has the model's residuals; labels tell programs apart, whose errors
    average out."""
    targets = tmp_path / "r" / "targets"
    targets.mkdir(parents=True)
    each = [0.1, -0.1, 0.05, -0.05]
    residuals = {
        "machines": ["a", "b"],
        "programs": [
            {"name": f"p{i}", "family": f"p{i}", "strange": 0.0, "logs": f"0.0 {x}"}
            for i, x in enumerate(each)
        ],
    }
    (targets / "ab12.m~1~residuals.json").write_text(json.dumps(residuals))
    halves = {}
    for name, errors, labels in (
        ("sampling", None, [None]),
        ("one program", ModelErrors(tmp_path / "r"), [None]),
        ("two programs", ModelErrors(tmp_path / "r"), ["p", "q"]),
        ("another version", ModelErrors(tmp_path / "r"), [None]),
    ):
        folder = tmp_path / name
        folder.mkdir()
        made = Fleet(folder, errors=errors)
        rng = np.random.default_rng(9)
        version = "2" if name == "another version" else "1"
        for k, number in enumerate(made.join(8)):
            own = times(rng)
            made.report(number, own, label=labels[k % len(labels)], version=version)
        answer = made.answering.ask(Question())
        by_name = {t["design"]: t for t in answer["designs"]}
        halves[name] = by_name["b"]["half"]
        assert answer["model_errors"] == ("program" in name)
        assert by_name["b"]["sampling_half"] == pytest.approx(halves["sampling"])
        made.close()
    assert halves["another version"] == halves["sampling"]
    second = np.mean(np.square(each))
    whole = np.hypot(halves["sampling"], 1.96 * 1.1 * np.sqrt(second))
    # one epoch in six is half outside of the training: it is three times as wide
    assert whole < halves["one program"] < 1.6 * whole
    assert halves["sampling"] < halves["two programs"] < 0.8 * halves["one program"]


def test_an_answer_takes_little_memory(fleet: Fleet) -> None:
    """The database adds up: what 60,000 aggregates take here is a few numbers an epoch."""
    rng = np.random.default_rng(12)
    crowd = fleet.join(6)
    fleet.report(crowd[0], {d: [1.0, 2.0] for d in "abcde"})
    known = {"series": 1, "instructions": 100_000, "clock_ghz": 2.0, "weight": 10.0}
    rows = [
        {**known, "agent": fleet.who[crowd[i % 6]].agent, "series": 1 + j,
         "hour": (TODAY - 2) * 24 + i % 24, "signature": i.to_bytes(32, "big"),
         "cycles": float(cycles), "half_width": 0.01 * float(cycles), "distance": 0.0}
        for i, epoch in enumerate(rng.uniform(1e5, 2e5, (12_000, 5)))
        for j, cycles in enumerate(epoch)
    ]  # fmt: skip
    with fleet.engine.begin() as connection:
        connection.execute(aggregates.insert(), rows)
    fleet.answering.ask(Question(group="nobody"))  # what is made once
    tracemalloc.start()
    try:
        answer = fleet.answering.ask(Question())
        compared = fleet.answering.ask(Question("ab", designs=("a", "b")))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert answer["epochs"] == 12_002 and compared["units"] == 24
    assert peak < 100 * len(rows), f"{peak / len(rows):.0f} bytes an aggregate"


def test_two_designs(fleet: Fleet) -> None:
    rng = np.random.default_rng(6)
    crowd = fleet.join(8)
    for day in range(8):
        for number in crowd:
            fleet.report(number, times(rng, 1.02), day=TODAY - 2 - day)
    answer = fleet.answering.ask(Question("ab", designs=("b", "a")))
    assert answer["decided"] and answer["units"] == 64
    assert abs(answer["ratio"] - 1.02) < answer["half"] < 0.02
    other = fleet.answering.ask(Question("ab", designs=("a", "b")))
    assert other["ratio"] == pytest.approx(1 / answer["ratio"], rel=1e-3)
    assert "hidden" in fleet.answering.ask(Question("ab", designs=("a", "nobody")))


# ---- the sequential test

LOOKS = np.arange(1, 101) * 20


def draw(rng: np.random.Generator, difference: float) -> tuple[Any, Any, Any]:
    """2,000 hours of computers: weights over a factor of 100, differences with heavy tails."""
    weights = rng.lognormal(0, 1, LOOKS[-1])
    base = rng.lognormal(0, 0.5, LOOKS[-1])
    noise = 0.08 * rng.standard_t(4, LOOKS[-1])
    return weights, base * np.exp(noise / 2) * (1 + difference), base * np.exp(-noise / 2)


def decided(count: int, difference: float, seed: int) -> float:
    rng = np.random.default_rng(seed)
    verdicts = [compare_sequentially(*draw(rng, difference), looks=LOOKS) for _ in range(count)]
    return float(np.mean([v.decided_after is not None for v in verdicts]))


def test_equal_designs_are_seldom_told_apart() -> None:
    """1,000 tests of equal designs, each looked at 100 times."""
    share = decided(1000, 0.0, 7)
    print(f"false alarms: {share:.1%}")
    assert share <= 0.05
    rng = np.random.default_rng(8)  # every hour a look
    every = [compare_sequentially(*draw(rng, 0.0)).decided_after is not None for _ in range(300)]
    assert np.mean(every) <= 0.05


def test_two_percent_are_found() -> None:
    share = decided(300, 0.02, 9)
    print(f"found: {share:.1%}")
    assert share >= 0.9


def test_a_test_of_fixed_size_looked_at_raises_false_alarms() -> None:
    """What the sequence is for: the usual interval is wrong far more often."""
    rng = np.random.default_rng(10)
    alarms = 0
    for _ in range(200):
        weights, first, second = draw(rng, 0.0)
        scale = (first + second) / 2
        values = weights * (first - second) / scale
        n = LOOKS
        mean = np.array([values[:k].mean() for k in n])
        usual = np.array([1.96 * values[:k].std(ddof=1) / math.sqrt(k) for k in n])
        alarms += bool((np.abs(mean) > usual).any())
    assert alarms / 200 > 0.2


def test_half_widths_by_the_formula() -> None:
    values = np.random.default_rng(11).normal(3, 2, 100)
    mean, half = half_widths(values, 0.05)
    assert np.isinf(half[: LEAST - 1]).all()
    log = -2 * math.log(0.05)
    rho2 = (log + math.log(log + 1)) / 400
    for n in (LEAST, 77, 100):
        grown = n * rho2 + 1
        inner = 2 * grown / (n**2 * rho2) * math.log(math.sqrt(grown) / 0.05)
        assert half[n - 1] == pytest.approx(values[:n].std(ddof=1) * math.sqrt(inner), rel=1e-9)
        assert mean[n - 1] == pytest.approx(values[:n].mean(), rel=1e-12)
