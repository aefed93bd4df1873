"""A text of several CPUs: whose numbers are whose, and names that are damaged."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import synthetic

import tracekit
from tracekit.cli.main import main
from tracekit.errors import FormatError


def damaged(text: str, line: int, name: bytes) -> bytes:
    """The text with another name in its ``line``-th Exec line."""
    lines = text.encode().splitlines(keepends=True)
    at = [i for i, one in enumerate(lines) if b" system.cpu: " in one][line]
    lines[at] = lines[at].replace(b"system.cpu:", name + b":")
    return b"".join(lines)


@pytest.mark.parametrize("name", [b"system.cqu", b"system.c\xf0u", b"syste\x00.cpu", b"\x1b[2J"])
@pytest.mark.parametrize("line", [0, 100])
def test_a_damaged_name_is_counted_and_the_output_keeps_its_own(
    tmp_path: Path, name: bytes, line: int
) -> None:
    text = synthetic.text(5, 400, blocks=False)
    (tmp_path / "in").write_bytes(damaged(text, line, name))
    result = tracekit.extract(tmp_path / "in", tmp_path / "f.zst")
    assert [(o.path, o.cpu) for o in result.outputs] == [(str(tmp_path / "f.zst"), "system.cpu")]
    assert result.anomalies["damaged_cpu_name"]["count"] == 1
    assert {p.name for p in tmp_path.iterdir()} == {"in", "f.zst"}
    with tracekit.open(tmp_path / "f.zst") as f:
        assert len(f) == result.rows == text.count(" system.cpu: ") - 1
    with pytest.raises(FormatError, match="damaged cpu name"):
        tracekit.extract(tmp_path / "in", tmp_path / "strict.zst", strict=True)


def test_every_byte_may_be_damaged(tmp_path: Path) -> None:
    """No byte of a line, wherever it stands, ends in anything but an output of that name."""
    text = synthetic.text(6, 60, blocks=False).encode()
    end = [m.end() for m in re.finditer(rb"\n", text)][30]
    begin = text.rindex(b"\n", 0, end - 1) + 1
    for at in range(begin, end - 1):
        for byte in (0xFF, 0x80, text[at] ^ 1):
            (tmp_path / "in").write_bytes(text[:at] + bytes([byte]) + text[at + 1 :])
            tracekit.extract(tmp_path / "in", tmp_path / "f.zst", force=True)
            assert {p.name for p in tmp_path.iterdir()} == {"in", "f.zst"}, (at - begin, byte)


def test_a_small_cpu_is_kept(tmp_path: Path) -> None:
    """Of two CPUs whose names differ in a number, the one with few rows is real."""
    text = synthetic.text(7, 300, blocks=False).replace("system.cpu:", "system.cpu0:")
    one = synthetic.text(8, 2, blocks=False).splitlines(keepends=True)[:2]
    (tmp_path / "in").write_text(text + "".join(one).replace("system.cpu:", "system.cpu1:"))
    result = tracekit.extract(tmp_path / "in", tmp_path / "f.zst")
    assert {o.cpu: o.rows for o in result.outputs} == {
        "system.cpu0": text.count(" system.cpu0: "),
        "system.cpu1": 2,
    }


def two(folder: Path) -> Path:
    a = synthetic.text(3, 500)
    b = synthetic.text(4, 200).replace("system.cpu:", "system.cpu1:")
    b = re.sub(r"FetchSeq=(\d+)", lambda m: f"FetchSeq={int(m[1]) + 10**6}", b)
    b = re.sub(
        r"(O3PipeView:fetch:\d+:0x\w+:\d+:)(\d+)", lambda m: m[1] + str(int(m[2]) + 10**6), b
    )
    (folder / "two").write_text(a + b)
    return folder / "two"


def test_numbers_are_that_cpus_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = two(tmp_path)
    text = path.read_text()
    assert main(["extract", str(path), "-o", str(tmp_path / "f.zst")]) == 0
    said = capsys.readouterr().err
    assert said.count("squashed") == 1 and "does not say which CPU's" in said
    blocks = 0
    for name in ("system.cpu", "system.cpu1"):
        out = tmp_path / f"f.{name}.zst"
        assert main(["info", "--json", str(out)]) == 0
        s = json.loads(capsys.readouterr().out)
        assert s["squashed"] is None
        assert s["source"]["exec_lines"] == s["rows"] == text.count(f" {name}: ")
        assert s["source"]["all_cpus"]["blocks"] == text.count("O3PipeView:fetch")
        assert "squashed" not in s["source"]
        blocks += s["source"]["blocks"]
        assert main(["info", str(out)]) == 0
        said = capsys.readouterr().out
        assert "squashed   the text does not say which CPU's" in said
        assert re.search(r"^accesses +\d", said, re.MULTILINE)
    whole = s["source"]["all_cpus"]
    assert blocks + whole["squashed"] == whole["blocks"]


def test_of_one_cpu_of_several_the_number_is_not_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = str(two(tmp_path)), str(tmp_path / "f.zst")
    assert main(["extract", path, "-o", out, "--cpu", "system.cpu1"]) == 0
    *_, wrote, said = capsys.readouterr().err.splitlines()
    assert "squashed" not in wrote and "does not say which CPU's" in said


@pytest.mark.parametrize("part", [["--count", "100"], ["--start", "100"]])
def test_of_a_part_no_number_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], part: list[str]
) -> None:
    """Blocks that never committed stand at no row: which of them belong to the part, no text
    tells."""
    (tmp_path / "in").write_text(synthetic.text(3, 500))
    out = str(tmp_path / "f.zst")
    assert main(["extract", str(tmp_path / "in"), "-o", out, *part]) == 0
    assert main(["info", out]) == 0
    assert "squashed" not in "".join(capsys.readouterr())
    assert main(["info", out, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["squashed"] is None


def test_of_one_cpu_the_number_is_known(tmp_path: Path) -> None:
    (tmp_path / "in").write_text(synthetic.text(3, 500))
    result = tracekit.extract(tmp_path / "in", tmp_path / "f.zst")
    with tracekit.open(tmp_path / "f.zst") as f:
        assert f.index["source"]["squashed"] == result.stats["squashed"] > 0
