"""Aligning two traces of one program and comparing them column by column."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import synthetic
from hypothesis import given, settings
from hypothesis import strategies as st

import tracekit
from tracekit.analysis.alignment import align
from tracekit.analysis.trace_diff import diff_files
from tracekit.cli.main import main
from tracekit.errors import UsageError


def longest_common(a: list[int], b: list[int]) -> int:
    """The oracle: the longest common subsequence, by the textbook."""
    row = [0] * (len(b) + 1)
    for x in a:
        before = 0
        for j, y in enumerate(b):
            before, row[j + 1] = row[j + 1], before + 1 if x == y else max(row[j], row[j + 1])
    return row[-1]


def array(values: list[int]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return np.array(values, np.uint64)


def check(a: list[int], b: list[int]) -> int:
    """Matched rows, of which every one is equal, and all are in order."""
    end_a = end_b = total = 0
    for x, y, n in align(array(a), array(b)).tolist():
        assert x >= end_a and y >= end_b and n > 0
        assert a[x : x + n] == b[y : y + n]
        end_a, end_b = x + n, y + n
        total += n
    return total


values = st.lists(st.integers(0, 5), max_size=60)


def test_one_that_ends_sooner_in_a_loop() -> None:
    """Its last rows are those that follow, not the other's last ones."""
    start, loop = [*range(100, 140)], [1, 2, 3]
    a, b = start + loop * 20, [*start[:20], 7, 8, *start[20:]] + loop * 90
    assert align(array(a), array(b)).tolist() == [[0, 0, 20], [20, 22, 80]]


@settings(max_examples=200)
@given(values, values)
def test_what_is_aligned_is_equal_and_in_order(a: list[int], b: list[int]) -> None:
    assert check(a, b) <= longest_common(a, b)


# Pieces of at least eight rows stay whole: nobody's run ends sooner than that.
piece = st.lists(st.integers(0, 1 << 40), min_size=8, max_size=20, unique=True)


@settings(max_examples=60)
@given(st.lists(st.tuples(piece, st.sampled_from(["both", "a", "b"])), max_size=8))
def test_rows_of_both_are_found(parts: list[tuple[list[int], str]]) -> None:
    """Where no value comes twice, the best alignment is found."""
    base = [[v * 16 + k for v in p] for k, (p, _) in enumerate(parts)]
    a = [v for p, (_, of) in zip(base, parts, strict=True) if of != "b" for v in p]
    b = [v for p, (_, of) in zip(base, parts, strict=True) if of != "a" for v in p]
    assert check(a, b) == sum(len(p) for p, of in parts if of == "both")


def test_loops() -> None:
    """Rounds more or fewer, and a body that calls another variant each time."""
    body, start, end = list(range(100, 120)), list(range(10)), list(range(50, 60))
    assert check(start + body * 9 + end, start + body * 7 + end) >= 20 + 7 * 20 - 20
    one, other = list(range(200, 205)), list(range(300, 309))
    a = start + (body + one) * 50 + end
    b = start + (body + other) * 50 + end
    assert check(a, b) == 20 + 50 * 20 == longest_common(a, b)
    # A trace that begins within the loop is counted from the loop's end.
    late = (body + one) * 15 + end
    assert check(late, b) == longest_common(late, b)
    assert align(array(late), array(b))[0].tolist() == [0, 10 + 35 * 29, 20]
    # Rounds that take one of three paths: what path follows what tells where a trace begins.
    paths = np.random.default_rng(5).integers(0, 3, 400).tolist()
    rounds = [v for k in paths for v in (*body, *range(600 + 10 * k, 605 + 10 * k))]
    late = rounds[200 * 25 + 3 : 300 * 25]
    assert align(array(late), array(rounds)).tolist() == [[0, 200 * 25 + 3, len(late)]]
    assert check([], [1]) == check([1], []) == check([], []) == 0


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same trace, and one that begins later, lacks rows, and has memory elsewhere."""
    folder = tmp_path_factory.mktemp("diff")
    lines = synthetic.text(11, 900, blocks=False).splitlines(keepends=True)
    (folder / "a").write_text("".join(lines))

    rows = [i for i, line in enumerate(lines) if "system.cpu" in line]
    kept = lines[rows[40] : rows[300]] + lines[rows[320] :]
    moved = [
        re.sub(r"A=0x([0-9a-f]+)", lambda m: f"A={int(m[1], 16) + 4096:#x}", line) for line in kept
    ]
    (folder / "b").write_text("".join(moved))
    for name in "ab":
        tracekit.extract(folder / name, folder / f"{name}.feats")
    return folder / "a.feats", folder / "b.feats"


def test_a_trace_is_like_itself(two: tuple[Path, Path]) -> None:
    for features_of in (None, "perfvec"):
        d = diff_files(two[0], two[0], features_of=features_of)
        assert d.matched == d.rows_a and not d.gaps
        assert all(c.share == 1.0 and not c.examples for c in d.columns.values())


def test_differences_are_told(two: tuple[Path, Path]) -> None:
    d = diff_files(*two)
    assert d.rows_a - d.rows_b == 60 and d.matched >= d.rows_b - 8
    assert d.span_a[0] >= 40 and len(d.gaps) >= 1
    assert d.columns["op"].share == d.columns["src"].share == 1.0
    assert d.columns["addr"].equal == 0 and d.columns["addr"].examples
    (by,) = d.moves
    assert by == 4096 and d.columns["addr_moved"].share == 1.0
    e = d.columns["addr"].examples[0]
    assert e.b - e.a == 4096 and e.rows > 0
    # A line further or nearer: distances of what both have seen are the same, first touches not.
    assert 0.5 < d.columns["data_distance"].share < 1.0


def test_the_command(two: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    a, b = map(str, two)
    assert main(["diff", a, b, "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert out["matched"] == diff_files(a, b).matched and out["moves"] == {
        "4096": out["columns"]["addr"]["rows"]
    }
    assert main(["diff", a, b, "--features", "perfvec"]) == 0
    assert "fetch_distance" in capsys.readouterr().out
    with pytest.raises(UsageError, match="feature set"):
        diff_files(a, b, features_of="nothing")


def test_what_cannot_be_compared(two: tuple[Path, Path], tmp_path: Path) -> None:
    macro = tmp_path / "macro"
    tracekit.extract(two[0].with_name("a"), macro, level="macro")
    with pytest.raises(UsageError, match="level"):
        diff_files(two[0], macro)
    other = tmp_path / "t"
    other.write_text(synthetic.text(1, 50, blocks=False).replace("0x", "0x7"))
    tracekit.extract(other, tmp_path / "other")
    with pytest.raises(UsageError, match="no row in common"):
        diff_files(two[0], tmp_path / "other")
