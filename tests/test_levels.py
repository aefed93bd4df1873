"""The level of rows: chosen by the input, and made anew of a file of micro-ops: a model of
instructions reads both."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import numpy as np
import pytest
import synthetic
from docs_page import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st

import tracekit
from tracekit.cli.main import main
from tracekit.errors import FormatError, UsageError
from tracekit.opening import at_level
from tracekit.schema import BITS, COLUMNS, STAGES
from tracekit.store.reader import TraceFile
from tracekit.store.statics import ARRAYS
from tracekit.store.summary import summary

GOLDEN = ROOT / "tests" / "golden"
X86 = GOLDEN / "lua.x86.trace.xz"
TRACES = [X86, GOLDEN / "lua.arm.trace.xz", GOLDEN / "tkt" / "kern.x86.tkt.zst"]


def assert_same(a: TraceFile, b: TraceFile) -> None:
    """Every column, the static table, and what the index says of rows."""
    assert len(a) == len(b) and a.timed == b.timed and a.level == b.level
    for name in (*COLUMNS, *BITS):
        if a.timed or name not in STAGES:
            assert np.array_equal(a[name], b[name]), name
    s, t = a.statics, b.statics
    for name in ARRAYS:
        assert np.array_equal(s.arrays[name], t.arrays[name]), name
    assert (s.disassembly, s.bytes, s.op_names) == (t.disassembly, t.bytes, t.op_names)
    for key in ("arch", "cpu", "bits", "anomalies"):
        assert a.index[key] == b.index[key]
    assert a.index["source"].get("unfinished") == b.index["source"].get("unfinished")
    if a.timed:
        assert a.clock_ps == b.clock_ps
        assert np.array_equal(a.targets("ticks"), b.targets("ticks"))


@pytest.fixture(scope="module")
def micro(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("levels") / "micro.zst"
    tracekit.extract(X86, out, level="micro")
    return out


@pytest.mark.parametrize("trace", TRACES, ids=lambda p: p.name)
@pytest.mark.parametrize("count", [None, 200, 1089, 1501])
def test_both_levels_count_the_same_instructions(
    trace: Path, count: int | None, tmp_path: Path
) -> None:
    """A fault and its retry are one; one that the trace ends inside of is none."""
    tracekit.extract(trace, tmp_path / "micro.zst", count=count)
    tracekit.extract(tmp_path / "micro.zst", tmp_path / "macro.zst", level="macro")
    micro, macro = (summary(tmp_path / f"{n}.zst") for n in ("micro", "macro"))
    assert micro["instructions"] == macro["instructions"] == macro["rows"]


@pytest.mark.parametrize("trace", TRACES, ids=lambda p: p.name)
@pytest.mark.parametrize("level", ["micro", "macro"])
def test_rows_of_a_file_are_those_of_its_trace(trace: Path, level: str, tmp_path: Path) -> None:
    options = {"line_bytes": 32, "history": 5, "chunk_rows": 1000}
    tracekit.extract(trace, tmp_path / "micro.zst", level="micro", chunk_rows=300)
    tracekit.extract(trace, tmp_path / "a.zst", level=level, **options)
    tracekit.extract(tmp_path / "micro.zst", tmp_path / "b.zst", level=level, **options)
    with TraceFile(tmp_path / "a.zst") as a, TraceFile(tmp_path / "b.zst") as b:
        assert_same(a, b)
        assert b.index["source"]["extracted_from"]["path"] == str(trace)
        assert b.index["input"]["path"] == str(tmp_path / "micro.zst")


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.integers(1, 300), st.booleans(), st.booleans())
def test_rows_of_a_file_are_those_of_any_trace(
    tmp_path_factory: pytest.TempPathFactory, seed: int, n: int, blocks: bool, whole: bool
) -> None:
    folder = tmp_path_factory.mktemp("x")
    (folder / "t").write_text(synthetic.text(seed, n, blocks=blocks))
    tracekit.extract(folder / "t", folder / "micro")
    level = "macro" if whole else "micro"
    tracekit.extract(folder / "t", folder / "a", level=level)
    try:
        tracekit.extract(folder / "micro", folder / "b", level=level)
    except FormatError:  # an instruction that the trace ends inside of, and no other
        assert len(TraceFile(folder / "a")) == 0
        return
    with TraceFile(folder / "a") as a, TraceFile(folder / "b") as b:
        assert_same(a, b)


def test_a_retry_is_no_instruction_of_its_own(tmp_path: Path) -> None:
    """A load whose first try faults lies between two accesses to the same byte."""
    load = "{tick:7}: system.cpu: 0x{pc:x}    : ldr x1, [x2] : MemRead :  A={a:#x}  flags=(IsLoad)"
    rows = [(0x400000, 0x10), (0x400004, 0x20), (0x400004, 0x20), (0x400008, 0x10)]
    path = tmp_path / "trace.out"
    path.write_text(
        "".join(load.format(tick=500 * k, pc=pc, a=a) + "\n" for k, (pc, a) in enumerate(rows))
    )
    for level, reuse in (("micro", [1000, 1000, 1, 3]), ("macro", [1000, 1000, 2])):
        tracekit.extract(path, tmp_path / "f.zst", level=level, force=True)
        with tracekit.open(tmp_path / "f.zst") as trace:
            assert trace["data_reuse"].tolist() == reuse


def test_open_at_a_level(micro: Path, tmp_path: Path) -> None:
    tracekit.extract(X86, tmp_path / "macro.zst", level="macro")
    with TraceFile(tmp_path / "macro.zst") as want, tracekit.open(micro, level="macro") as got:
        assert_same(want, got)
        assert got.path == str(micro)
        with copy.copy(got) as again:  # as a worker process gets it
            assert np.array_equal(again["pc"], got["pc"])
    with tracekit.open(micro, level="micro") as same:
        assert same.level == "micro" and at_level(same, "micro") is same
    with pytest.raises(UsageError, match="their micro-ops are not in it"):
        tracekit.open(tmp_path / "macro.zst", level="micro")
    with pytest.raises(UsageError, match="their micro-ops"):
        tracekit.extract(tmp_path / "macro.zst", tmp_path / "c.zst")
    assert not (tmp_path / "c.zst").exists()


def test_the_shipped_models_read_both_levels(
    micro: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = {}
    for arch in ("x86", "arm"):
        for level in ("micro", "macro"):
            file = tmp_path / f"{arch}.{level}.zst"
            tracekit.extract(GOLDEN / f"lua.{arch}.trace.xz", file, level=level)
            assert main(["predict", str(file), "--json"]) == 0
            found[arch, level] = json.loads(capsys.readouterr().out)
            assert found[arch, level].pop("path") == str(file)
    # X86 has a model of each level; other instruction sets have one of both.
    micro_ops, instructions = found["x86", "micro"], found["x86", "macro"]
    assert micro_ops["rows"] > instructions["rows"] == instructions["instructions"]
    times = [{m["name"]: m["cycles"] for m in f["machines"]} for f in (micro_ops, instructions)]
    assert times[0].keys() == times[1].keys()
    for name, cycles in times[0].items():
        assert cycles == pytest.approx(times[1][name], rel=0.15), name
    # The trace ends inside an instruction, which is no row of the macro level.
    whole = found["arm", "macro"]["instructions"]
    assert whole <= found["arm", "micro"]["instructions"] <= whole + 1


def test_the_level_follows_the_input(tmp_path: Path) -> None:
    lines = [f"I  {0x401000 + 4 * i:08x},4" for i in range(50)]
    (tmp_path / "t.lackey").write_text("\n".join(lines) + "\n")
    tracekit.extract(tmp_path / "t.lackey", tmp_path / "a.zst")
    tracekit.extract(X86, tmp_path / "b.zst")
    assert [tracekit.open(tmp_path / n).level for n in ("a.zst", "b.zst")] == ["macro", "micro"]
    with pytest.raises(UsageError, match="no micro-ops"):
        tracekit.extract(tmp_path / "t.lackey", tmp_path / "c.zst", level="micro")


@pytest.mark.parametrize(
    "option", [["--isa", "x86"], ["--threads", "interleaved"], ["--gem5-operands"]]
)
def test_options_of_other_inputs_are_refused(
    option: list[str], micro: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["extract", str(micro), "-o", str(tmp_path / "x.zst"), *option]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "x.zst").exists()
