"""The mutants that tests/mutate.py makes: of code alone, one change each, the same for a seed."""

from __future__ import annotations

import collections
import json
import shutil
from pathlib import Path

import mutants
import mutate
import pytest

ROOT = Path(__file__).resolve().parent.parent
CPP = """#include <a> // 1 < 2
/* 3 + 4 */ constexpr int n = 5;  // 6
template <class T> bool f(const T& a, T* b) {
  return a.x() <= n && *b != 0x1F;  // "7"
}
const char* s = "8 == 9";
"""
PYTHON = '''"""1 + 1"""
@dataclass(frozen=True)
def f(*a: int, b: Literal[4] | None = None) -> int | None:
    c: Annotated[int, 5 < 6]
    return max(a[0], 2) - -1 if b is None or a else True  # 3
'''


def changes(found):
    return [(m.line, m.before, m.after) for m in found]


def test_mutants_of_cpp():
    assert changes(mutants.cpp_mutants("x.cpp", CPP)) == [
        (2, "5", "6"), (4, "<=", "<"), (4, "&&", "||"), (4, "!=", "=="), (4, "0x1F", "0x1e"),
    ]  # fmt: skip


def test_mutants_of_python():
    assert changes(mutants.python_mutants("x.py", PYTHON)) == [
        (5, "max", "min"), (5, "0", "1"), (5, "2", "3"), (5, "-", "+"), (5, "1", "2"),
        (5, "or", "and"), (5, "True", "False"),
    ]  # fmt: skip


@pytest.mark.parametrize("text", [CPP, PYTHON])
def test_each_changes_one_place(text):
    make = mutants.cpp_mutants if text is CPP else mutants.python_mutants
    for m in make("x", text):
        changed = m.applied(text)
        pairs = zip(text.split("\n"), changed.split("\n"), strict=True)
        differs = [i for i, (a, b) in enumerate(pairs) if a != b]
        assert differs == [m.line - 1]


def test_constants_change():
    for text in ("0", "1'000", "0xff", "0.5", "0.0", "1_000"):
        assert mutants.changed_number(text) != text.replace("'", "").replace("_", "")


@pytest.mark.skipif(not (ROOT / ".git").exists() or not shutil.which("git"), reason="no checkout")
def test_the_first_are_a_fair_sample():
    assert sum(n for _, n in mutants.AREAS.values()) == 300
    whole = mutants.slots(300)
    assert len(set(whole)) == 300
    assert collections.Counter(a for a, _ in whole) == {a: n for a, (_, n) in mutants.AREAS.items()}
    assert collections.Counter(a for a, _ in whole[:40]) == {
        "cores": 24,
        "features": 8,
        "parsers": 8,
    }
    for area, (_, count) in mutants.AREAS.items():
        drawn = mutants.drawn(ROOT, area, 21)
        assert len(drawn) == count and all(drawn)
        assert drawn == mutants.drawn(ROOT, area, 21) != mutants.drawn(ROOT, area, 22)
        every = [m for slot in drawn for m in slot]
        assert len(set(every)) == len(every)


def test_the_draw_stays_when_other_lines_change(tmp_path):
    (tmp_path / "a.py").write_text("x = 1 + 2\ny = 3 < x\nx = 1 + 2\n")
    found = list(mutants.python_mutants("a.py", (tmp_path / "a.py").read_text()))
    before = dict(zip(mutants._keys(tmp_path, found, "7"), found, strict=True))
    assert len(before) == len(found) == 8  # equal lines, too, have keys of their own
    (tmp_path / "a.py").write_text("z = 5\nx = 1 + 2\ny = 3 < x\nx = 1 + 2\n")
    found = list(mutants.python_mutants("a.py", (tmp_path / "a.py").read_text()))
    after = dict(zip(mutants._keys(tmp_path, found, "7"), found, strict=True))
    assert before.keys() < after.keys()
    assert all(after[k] == m._replace(line=m.line + 1) for k, m in before.items())


def test_passages_are_left_out():
    text = "int f() { return 1 + hash(2 * 3); }\nint g() { return 4; }\n"
    found = mutants.cpp_mutants("a.cpp", text)
    shown = mutants._shown(text, found, [{"file": "a.cpp", "text": "hash(", "to": "3)"}])
    assert changes(shown) == [(1, "1", "2"), (1, "+", "-"), (2, "4", "5")]
    with pytest.raises(ValueError, match="stands there 2 times"):
        mutants.span(text, {"file": "a.cpp", "text": "return"})


def test_each_passage_is_there_and_has_a_reason():
    listed = mutants.passages(ROOT)
    assert len({(p["file"], p["text"]) for p in listed}) == len(listed)
    for p in listed:
        assert p["reason"] and p.keys() <= {"file", "text", "to", "reason"}
        text = (ROOT / p["file"]).read_text(encoding="utf-8")
        begin, end = mutants.span(text, p)
        assert text.count("\n", begin, end) < 15, "a passage is no file"


@pytest.mark.skipif(not (ROOT / ".git").exists() or not shutil.which("git"), reason="no checkout")
def test_known_mutants_have_reasons():
    data = json.loads((Path(__file__).parent / "mutants.json").read_text(encoding="utf-8"))
    assert len(data["named"]) == 10 and len(data["equivalent"]) <= 15
    made = {
        (Path(m.path).name, mutate.place(m))
        for a in mutants.AREAS
        for m in mutants.candidates(ROOT, a)
        if Path(m.path).name in {e["file"] for e in data["equivalent"]}
    }
    for e in data["equivalent"]:
        assert e["reason"] and (e["file"], (e["line"], e["change"])) in made, e


def test_the_named_changes_are_in_the_sources():
    found = mutate.Known().changes()
    assert len(found) == 10 and len(set(found)) == 10
    for m in found:
        assert m.before in (ROOT / m.path).read_text(encoding="utf-8")
