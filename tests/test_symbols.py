"""Addresses to functions, lines and inlined frames; the memory map of a recording; tracekit hot."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.tks_blocks import code_block, epoch_block

from tracekit import _core
from tracekit.analysis.hotspots import hot
from tracekit.cli.main import main
from tracekit.errors import FormatError, TracekitError
from tracekit.extraction import extract
from tracekit.inputs.tks import EPOCH, MAPS, TksReader, TksWriter
from tracekit.symbols import UNKNOWN, AddressMap, Frame, Mapped, build_id, parse_maps

SOURCE = """
static inline __attribute__((always_inline)) int square(int x) {
  return x * x + 3; /* inlined */
}
__attribute__((noinline)) int busy(int n) {
  int s = 0;
  for (volatile int i = 0; i < n; i++)
    s += square(i); /* call */
  return s;
}
__attribute__((noinline)) int idle(int n) { return busy(n) + 1; }
int main(void) { return idle(300) & 63; }
"""
LINE = {
    what: next(i for i, text in enumerate(SOURCE.splitlines(), 1) if what in text)
    for what in ("inlined", "/* call", "idle(int n)")
}
BASE = 0x7F00_0000_0000


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("gcc") is None or shutil.which("strip") is None:
        pytest.skip("needs gcc and strip")
    folder = tmp_path_factory.mktemp("symbols")
    (folder / "p.c").write_text(SOURCE)
    command = ["gcc", "-g", "-O1", "-Wl,--build-id", "-pie", "-fPIE", "-o", "p", "p.c"]
    subprocess.run(command, cwd=folder, check=True)
    subprocess.run(["strip", "-o", "stripped", "p"], cwd=folder, check=True)
    return folder / "p"


def functions(program: Path) -> dict[str, tuple[int, int]]:
    """By nm, another reader than ours: name -> (begin, end)."""
    text = subprocess.run(["nm", "-S", program], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in text.splitlines()]
    return {r[3]: (int(r[0], 16), int(r[0], 16) + int(r[1], 16)) for r in rows if len(r) == 4}


def test_every_byte_of_a_function_has_its_name(program: Path) -> None:
    names = AddressMap.of_binary(str(program), bias=BASE)
    for function, (begin, end) in functions(program).items():
        if function in ("main", "busy", "idle"):
            assert {names.name(BASE + pc) for pc in range(begin, end)} == {f"p:{function}"}
            assert names.place(BASE + begin).symbol == function
    assert names.name(BASE - 1) == names.line(1 << 62) == UNKNOWN


def test_inlined_code_has_two_frames(program: Path) -> None:
    names = AddressMap.of_binary(str(program))
    begin, end = functions(program)["busy"]
    inlined = [pc for pc in range(begin, end) if len(names.frames(pc)) == 2]
    assert inlined
    for pc in inlined:
        inner, outer = names.frames(pc)
        assert inner == Frame("square", "p.c", LINE["inlined"])
        assert outer == Frame("busy", "p.c", LINE["/* call"])
        assert (names.name(pc), names.function(pc)) == ("p:busy", "p:square")
        assert names.line(pc) == f"p.c:{LINE['inlined']}"
    begin, end = functions(program)["idle"]
    assert {names.line(pc) for pc in range(begin, end)} == {f"p.c:{LINE['idle(int n)']}"}


def test_stripped_code_is_named_by_its_range(program: Path) -> None:
    stripped = str(program.with_name("stripped"))
    names = AddressMap.of_binary(stripped)
    begin, end = functions(program)["busy"]
    found = {names.name(pc) for pc in range(begin, end)}
    assert len(found) == 1
    (name,) = found
    file, _, limits = name.partition(":")
    assert file == "stripped" and limits.startswith(f"{begin:#x}-")
    assert end <= int(limits.partition("-")[2], 16) <= functions(program)["main"][1]
    assert names.frames(begin) == [Frame(name, None, None)]
    assert names.line(begin) == name


def test_a_file_that_has_changed_gives_no_names(program: Path, tmp_path: Path) -> None:
    known = build_id(str(program))
    assert known is not None and len(known) >= 16
    begin, _ = functions(program)["busy"]
    right, wrong = (
        AddressMap([Mapped(0, 1 << 20, 0, str(program), b)]) for b in (known, "00" * 20)
    )
    assert right.name(begin) == "p:busy"
    assert wrong.name(begin) == f"p:0x0-{1 << 20:#x}"
    assert "has changed" in str(wrong.files[str(program)].problem)
    gone = AddressMap([Mapped(0, 1 << 20, 0, str(tmp_path / "gone"), None)])
    assert gone.name(5).startswith("gone:") and gone.files[str(tmp_path / "gone")].problem
    junk = tmp_path / "junk"
    junk.write_bytes(b"\x7fELF" + b"\xff" * 300)
    assert AddressMap([Mapped(0, 9, 0, str(junk), None)]).frames(5)[0].file is None
    assert build_id(str(junk)) is None
    memory = AddressMap([Mapped(0, 9, 0, "", None), Mapped(16, 20, 0, "[vdso]", None)])
    assert memory.name(3) == "[made at run time]:0x0-0x9" and memory.name(17) == "[vdso]"


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 20), st.integers(0, 3)), max_size=12))
def test_newer_mappings_hide_older_ones(given_: list[tuple[int, int, int]]) -> None:
    """The oracle is the definition: the last one that holds the address."""
    all_ = [Mapped(b, b + n, 1000 * f, f"[{f}]", None) for b, n, f in given_]
    names = AddressMap()
    for m in all_:
        names.add([m])
    for pc in range(64):
        holds = [m for m in all_ if m.begin <= pc < m.end]
        assert names.name(pc) == (holds[-1].path if holds else UNKNOWN)
        piece = names._mapped(pc)
        if holds and piece is not None:
            assert pc - piece.begin + piece.offset == pc - holds[-1].begin + holds[-1].offset


@pytest.mark.parametrize(
    "bad",
    [
        None,
        {},
        [1],
        [[1, 2, 0, "x"]],
        [[2, 1, 0, "x", None]],
        [[-1, 1, 0, "x", None]],
        [[1, 2, 0, 5, None]],
        [[1, 2, 0, "x", 5]],
        [[0, 1, 0, "x", None]] * 70000,
        [[0, 1 << 64, 0, "", None]],
    ],
)
def test_damaged_maps_are_told(bad: Any, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="damaged"):
        parse_maps(bad, "x.tks")
    path = tmp_path / "x.tks"
    with TksWriter(path, arch="x86", meta={}) as w:
        w.text(MAPS, {"pid": 1, "maps": bad})
        w.close({})
    with TksReader(path) as reader, pytest.raises(FormatError, match="damaged"):
        list(reader.epochs())


def recording(path: Path, program: Path, at: list[int]) -> Path:
    """One instruction (nop) at each address of the program, as one process mapped it; two in
    another, which mapped nothing."""
    codes = [(BASE + pc, b"\x90") for pc in at]
    with TksWriter(path, arch="x86", meta={}) as w:
        for pid in (7, 8):
            fields = [0] * len(_core.EPOCH_FIELDS)
            fields[1] = fields[2] = pid
            if pid == 7:
                one = [BASE, BASE + (1 << 20), 0, str(program), build_id(str(program))]
                w.text(MAPS, {"pid": 7, "maps": [one]})
                w.block(code_block(0, codes))
            n = len(codes) if pid == 7 else 2
            rows: list[tuple[int, int, list[tuple[int, int, int]]]] = [(i, 4, []) for i in range(n)]
            payload = epoch_block(fields, rows)
            assert payload[0] == EPOCH
            w.block(payload)
        w.close({})
    return path


def test_hot(program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = functions(program)
    at = [known["busy"][0], known["busy"][0] + 1, known["busy"][0] + 2, known["main"][0]]
    tks = recording(tmp_path / "x.tks", program, at)
    found = hot(tks)
    assert found.parts == {"p:busy": 3, "p:main": 1, UNKNOWN: 2} and found.rows == 6
    assert hot(tks, "file").parts == {str(program): 4, UNKNOWN: 2}
    assert main(["hot", str(tks), "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert out["parts"][0] == {"name": "p:busy", "rows": 3, "share": 0.5} and not out["problems"]
    feats = tmp_path / "x.feats"
    args = ["extract", str(tks), "-o", str(feats), "--level", "macro", "--cpu", "7.7"]
    assert main(args) == 0
    assert hot(feats).parts == {"p:busy": 3, "p:main": 1}
    capsys.readouterr()
    assert main(["hot", str(feats), "--by", "line", "--top", "1"]) == 0
    assert "p.c:" in capsys.readouterr().out


def test_hot_of_another_trace_wants_the_program(tmp_path: Path) -> None:
    golden = Path(__file__).parent / "golden"
    feats = next(iter(sorted(golden.glob("feats-v*.zst"))))
    with pytest.raises(TracekitError, match="--binary"):
        hot(feats)


def test_hot_with_another_program_is_refused(program: Path, tmp_path: Path) -> None:
    golden = Path(__file__).parent / "golden"
    with pytest.raises(TracekitError, match="is a program for x86, the trace is of arm"):
        hot(golden / "feats-v1.zst", binary=program)
    lackey = "I  04016b80,3\n S 1ffefffe78,8\nI  04016b83,5\nI  04016b88,2\n"
    (tmp_path / "l.log").write_text(lackey)
    extract(tmp_path / "l.log", tmp_path / "l.zst")
    with pytest.raises(TracekitError, match="none of the trace's 3 addresses lies in this file"):
        hot(tmp_path / "l.zst", binary=program)
