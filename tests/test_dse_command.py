"""``tracekit dse``: each program under a name of its own, and what a trace lacks."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import pytest

import tracekit
from tracekit.cli.main import main
from tracekit.store.debug_flags import WITHOUT

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("dse") / "space.json"
    path.write_text(json.dumps({"base": "ns_8w", "vary": {"rob": [32, 64]}}))
    return path


@pytest.fixture(scope="module")
def feats(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dse") / "f.zst"
    tracekit.extract(GOLDEN / "strsort.riscv.trace.xz", out)
    return out


@pytest.mark.parametrize(
    ("files", "names"),
    [
        (["a.zst", "b.x86.zst"], ["a", "b"]),
        (["feats.system.cpu0.zst", "feats.system.cpu1.zst"], None),
        (["lua.arm.zst", "zstd.zst", "lua.x86.zst"], ["lua.arm", "zstd", "lua.x86"]),
        (["one/feats.zst", "two/feats.zst", "c.zst"], ["one/feats.zst", "two/feats.zst", "c"]),
    ],
)
def test_no_program_hides_another(
    files: list[str],
    names: list[str] | None,
    space: Path,
    feats: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for f in files:
        Path(f).parent.mkdir(exist_ok=True)
        Path(f).write_bytes(feats.read_bytes())
    names = names or [f.removesuffix(".zst") for f in files]
    assert main(["dse", str(space), *files, "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["programs"]) == names
    assert main(["dse", str(space), files[0], *files]) == 2
    assert f"{files[0]} is given twice" in capsys.readouterr().err


def test_what_a_trace_lacks_is_told(
    space: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = lzma.decompress((GOLDEN / "strsort.riscv.trace.xz").read_bytes()).splitlines(True)
    (tmp_path / "t").write_bytes(b"".join(x for x in lines if x.startswith(b"O3PipeView")))
    out = str(tmp_path / "f.zst")
    tracekit.extract(tmp_path / "t", out)
    for command in (["dse", str(space), out], ["mrc", out], ["mrc", out, "--stream", "data"]):
        assert main(command) == 0
        assert f"{out}: {WITHOUT['ExecEnable']}" in capsys.readouterr().err
    page = str(tmp_path / "page.html")
    assert main(["report", out, "-o", page, "--machine", "ns_8w", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["notes"]
    assert any(WITHOUT["ExecEnable"][1:] in note for note in told)
    assert main(["mrc", out, "--stream", "fetch"]) == 0
    assert not capsys.readouterr().err


@pytest.mark.parametrize(
    ("how", "told"),
    [
        (["--objective", "area * time"], "area is not known"),
        (["--cost", "area", "--plot", "p.png"], "area is not known"),
        (["--known", {"g": {"0": 1}}], "cycles of g are known"),
        (["--known", {"f": {"2": 1}}], "design 2 or its cycles 1.0 is out of range"),
    ],
)
def test_what_cannot_be_ranked_is_told_before_the_work(
    how: list[Any],
    told: str,
    space: Path,
    feats: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if "--plot" in how:
        pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tracekit.exploration.dse.totals", None)  # that walks
    (tmp_path / "known.json").write_text(json.dumps(how[1]))
    line = [h if isinstance(h, str) else "known.json" for h in how]
    assert main(["dse", str(space), str(feats), *line]) == 2
    assert told in capsys.readouterr().err


def test_a_key_of_a_space_that_is_none(
    space: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "s.json"
    other.write_text(json.dumps({**json.loads(space.read_text()), "known": {}}))
    assert main(["dse", str(other), "none.zst"]) == 1
    assert "s.json: unknown known: a space has base and vary" in capsys.readouterr().err


def test_a_cost_may_name_what_does_not_vary(space: Path, feats: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "p.svg"
    line = ["--cost", "rob + l2_kb / 64", "--plot", str(picture)]
    assert main(["dse", str(space), str(feats), *line]) == 0
    assert picture.stat().st_size > 1000
