"""Long joins in pieces of chunks: the bytes, the notes and the errors of one join."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest
import synthetic
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tracekit
from tracekit.cli.main import main
from tracekit.cluster import joins
from tracekit.cluster.kinds import KINDS
from tracekit.cluster.run import Run
from tracekit.cluster.summary import state_of
from tracekit.dataset.joining import join, join_part
from tracekit.errors import TracekitError

ROWS, CHUNK = 2600, 256
#: What targets are drawn from: traces of the program, which part from it near a row or end there;
#: another program; arrays.
SOURCES = (
    "x",
    "y500",
    "y1500",
    "y2400",
    "other",
    "short512",
    "short1100",
    "z",
    "u2",
    "f4",
    "far",
    "nan",
    "zero",
)


def with_another_pc(text: str, row: int) -> str:
    """A trace that parts from the program in one row."""
    line = [x for x in text.splitlines() if "FetchSeq=" in x][row]
    pc = re.search(r"0x[0-9a-f]+", line)[0]
    seq = re.search(r"FetchSeq=(\d+)", line)[1]
    other = text.replace(line, line.replace(pc, "0x500000", 1))
    out = re.sub(rf"(O3PipeView:fetch:\d+:)0x0*{pc[2:]}(:\d+:{seq}:)", r"\g<1>0x500000\2", other)
    assert out != other != text
    return out


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("pieces")
    texts = {"x": (3, ROWS), "z": (4, ROWS)} | {f"y{n}": (3, n) for n in (500, 1500, 2400)}
    written = {name: synthetic.text(seed, rows) for name, (seed, rows) in texts.items()}
    written["other"] = with_another_pc(written["x"], 1300)
    for name, text in written.items():
        (folder / f"{name}.txt").write_text(text)
        tracekit.extract(folder / f"{name}.txt", folder / f"{name}.zst", chunk_rows=CHUNK)
    for n in (2 * CHUNK, 1100):
        tracekit.extract(folder / "x.txt", folder / f"short{n}.zst", count=n)
    with tracekit.open(folder / "x.zst") as t:
        n = len(t)
        assert t.chunks > 9
    r = np.random.default_rng(0)
    arrays = {
        "u2": r.integers(0, 300, (2, n)).astype(np.uint16),
        "f4": r.uniform(0, 3, (1, n)).astype(np.float32),
        "far": np.where(np.arange(n) == 1900, 70_000, 1).astype(np.uint32)[None],
        "nan": np.where(np.arange(n) == 1700, np.nan, 1.0)[None],
        "zero": np.zeros((1, n), np.uint8),
    }
    arrays["f4"][:, : n // 2] = 1  # blocks of both kinds
    for name, a in arrays.items():
        np.save(folder / f"{name}.npy", a)
    return folder


def targets_of(data: Path, names: list[str]) -> list[str]:
    out = []
    for k, name in enumerate(names):
        array = (data / f"{name}.npy").exists()
        label = f"m{k},n{k}" if name == "u2" else f"m{k}"
        out.append(f"{label}={data / name}.{'npy' if array else 'zst'}")
    return out


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from(SOURCES), min_size=1, max_size=3),
    st.sets(st.integers(1, 8), max_size=5),
    st.booleans(),
)
def test_parts_make_the_same_file(data, tmp_path, names, cuts, strict):
    x, targets = str(data / "x.zst"), targets_of(data, names)
    with tracekit.open(x) as t:
        edges = [0, *sorted(cuts), t.chunks]

    def whole() -> tuple[object, bytes]:
        out = tmp_path / "whole.zst"
        report = join(x, targets, str(out), strict=strict, force=True)
        return report, out.read_bytes()

    def in_parts() -> tuple[object, bytes]:
        parts = [
            join_part(x, targets, piece, str(tmp_path / f"part{k}"))
            for k, piece in enumerate(itertools.pairwise(edges))
        ]
        out = tmp_path / "parts.zst"
        report = join(x, targets, str(out), strict=strict, force=True, parts=parts)
        return report, out.read_bytes()

    try:
        wanted = whole()
    except TracekitError as e:
        with pytest.raises(type(e)) as found:
            in_parts()
        # Which of several that are wrong is told, the join decides (cluster/joins.py).
        assert str(found.value) == str(e) or {"nan", "zero"} & set(names)
    else:
        assert in_parts() == wanted


@pytest.fixture
def several(monkeypatch) -> None:
    """Every join is long; commands do tasks in two threads of this process."""
    for name in ("TRACES", "ARRAYS", "ROWS"):
        monkeypatch.setattr(joins, name, 250)
    real = Run.__init__
    monkeypatch.setattr(
        Run, "__init__", lambda self, *a, **k: real(self, *a, **{**k, "at_once": 2})
    )


def joined(data: Path, names: list[str], out: Path, *more: str) -> int:
    targets = [a for t in targets_of(data, names) for a in ("--target", t)]
    return main(["join", str(data / "x.zst"), *targets, "-o", str(out), *more])


@pytest.mark.parametrize(
    "names", [["x", "u2"], ["x", "y1500", "f4"], ["short1100", "far"], ["other", "x"]]
)
def test_long_joins_are_cut(data, tmp_path, several, monkeypatch, names, capsys):
    done: list[str] = []
    for kind in ("join", "join_chunks"):
        real = KINDS[kind]

        def one(task, options, threads, kind=kind, real=real):
            done.append(kind)
            return real(task, options, threads)

        monkeypatch.setitem(KINDS, kind, one)
    assert joined(data, names, tmp_path / "one.zst", "--json") == 0
    alone = capsys.readouterr()
    out, more = tmp_path / "out", ["--run", str(tmp_path / "run"), "--json"]
    monkeypatch.setattr("tracekit.progress.PLAIN_EVERY", 0.0)
    for again in (False, True):
        assert joined(data, names, out, *more) == 0
        said = capsys.readouterr()
        assert again != ("join chunks, " in said.err)
        assert json.loads(said.out) == [{"path": "x.zst", **json.loads(alone.out)}]
        assert done.count("join_chunks") > 2 and done.count("join") == 1
        assert (out / "x.zst").read_bytes() == (tmp_path / "one.zst").read_bytes()
        assert [p.name for p in out.iterdir()] == ["x.zst"]
    assert len(state_of(tmp_path / "run").done) == 1


@pytest.mark.parametrize(
    ("names", "more"),
    [(["x", "nan"], []), (["zero", "x"], []), (["z"], []), (["x", "y1500"], ["--strict"])],
)
def test_what_is_wrong_is_told_as_by_one_join(data, tmp_path, several, names, more, capsys):
    assert joined(data, names, tmp_path / "one.zst", *more) == 1
    alone = capsys.readouterr().err.splitlines()[-1].removeprefix("tracekit: ")
    assert joined(data, names, tmp_path / "out", *more, "--run", str(tmp_path / "run")) == 1
    assert alone.split(": ", 1)[-1] in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_join_that_may_not_be_written_is_not_begun(data, tmp_path, several, monkeypatch, capsys):
    out = tmp_path / "out"
    out.mkdir()
    (out / "x.zst").write_bytes(b"somebody's")
    monkeypatch.setitem(KINDS, "join_chunks", lambda *a: pytest.fail("a piece was done"))
    assert joined(data, ["x"], out, "--run", str(tmp_path / "run")) == 1
    assert "exists already" in capsys.readouterr().err
    assert (out / "x.zst").read_bytes() == b"somebody's"


def test_one_worker_cuts_nothing(data, tmp_path, monkeypatch, capsys):
    for name in ("TRACES", "ARRAYS", "ROWS"):
        monkeypatch.setattr(joins, name, 250)
    monkeypatch.setitem(KINDS, "join_chunks", lambda *a: pytest.fail("a piece was done"))
    assert joined(data, ["x"], tmp_path / "out", "--run", str(tmp_path / "run")) == 0
    capsys.readouterr()
