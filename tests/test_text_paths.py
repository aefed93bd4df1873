"""gem5's text is read by fast ways, which know lines again, and by a slow one: both give the same
rows and the same counts, whatever stands in the lines."""

from __future__ import annotations

import lzma
import random
import re
from pathlib import Path

import numpy as np
import synthetic
from hypothesis import given, settings
from hypothesis import strategies as st

import tracekit
from tracekit import _core

#: What gem5's Exec lines may have beside the usual fields.
FIELDS = ("", "", " D=0x5", " D=[1 2_3] ", "  CPSeq=7", "Predicated False", " A=0x", "  FetchSeq=")
PIECES = ("0", "9", "a", "F", "x", ":", ".", "\n", " ", "=", "A", "  ", "\r\n", "0x", ": ", "\x7f",
          "18446744073709551616", "99999999", "O3PipeView:", "flags=(")  # fmt: skip


def rich(r: random.Random, rows: int) -> str:
    """Synthetic rows with long and short ticks, names of functions, threads, other fields."""
    exec_lines, blocks = r.choice(((True, True), (True, True), (True, False), (False, True)))
    text = synthetic.text(r.randrange(1 << 30), rows, exec_lines=exec_lines, blocks=blocks,
                          size=r.choice((4, 24, 60)))  # fmt: skip
    lines = text.splitlines(keepends=True)
    late = r.choice((0, 0, 10**7 - 40_000, 10**8 - 40_000, 10**12, 2**62 - 10**6))
    for k, line in enumerate(lines):
        if line.startswith("O3PipeView:"):
            head, name, *rest = line.split(":")
            at = [i for i in (0, 2) if i < len(rest) and (name == "retire" or i == 0)]
            for i in at:
                if rest[i].strip().isdigit() and int(rest[i]):
                    rest[i] = str(int(rest[i]) + late) + ("\n" if rest[i].endswith("\n") else "")
            lines[k] = ":".join([head, name, *rest])
            continue
        tick, _, rest = line.partition(":")
        line = f"{int(tick) + late:7d}:{rest}"
        if r.random() < 0.1:
            line = line.replace(" : IntAlu : ", f" : IntAlu : {r.choice(FIELDS)}")
        if r.random() < 0.1:
            line = line.replace(": 0x", r.choice((": T0 : 0x", ": A0 T0 : 0x", ": 0x0")), 1)
        if r.random() < 0.05:
            line = line.replace("    :", " @main+4    :", 1)
        if r.random() < 0.05:
            line = line.replace("system.cpu", "system.cpu1", 1)
        lines[k] = line
    return "".join(lines)


def damaged(r: random.Random, text: str) -> str:
    for _ in range(r.choice((0, 1, 3, 12))):
        at, n = r.randrange(len(text)), r.choice((0, 1, 1, 2, 40))
        new = r.choice((*PIECES, "", text[(b := r.randrange(len(text))) : b + r.choice((1, 90))]))
        text = text[:at] + new + text[at + n :]
    return text


def read(data: bytes, piece: int) -> dict[str, object]:
    """All that comes out, of pieces of so many bytes."""
    source = _core.Gem5Text()
    stages: dict[int, _core.FeatureStage] = {}

    def take() -> None:
        for i in range(len(source.cpus())):
            if i not in stages:
                stages[i] = _core.FeatureStage(8, 6, False, chunk_rows=1 << 20)
            assert not stages[i].add(source.take(i))

    for at in range(0, len(data), piece or 1):
        source.feed(data[at : at + piece])
        take()
    source.finish()
    take()
    out: dict[str, object] = {}
    for i, stage in stages.items():
        stage.finish()
        out[source.cpus()[i]] = stage.chunk()
    return {**out, "counters": source.counters(), "stats": source.stats()}


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_fast_ways_are_the_slow_one(seed: int) -> None:
    r = random.Random(seed)
    # What is near the end goes the slow way: lines behind that are none.
    data = damaged(r, rich(r, r.choice((3, 30, 150)))).encode() + b"info: more\n" * 500
    whole = read(data, len(data))
    assert read(data, 5) == whole, "no line is whole in its piece"
    assert read(data, 700) == whole


@settings(max_examples=20)
@given(st.integers(0, 2**32))
def test_rows_of_ticks_that_grow(seed: int) -> None:
    """Without damage nothing is odd, however long the ticks are."""
    r = random.Random(seed)
    data = synthetic.text(seed, 80).encode()
    whole = read(data, len(data))
    assert whole["counters"] == {} and read(data, r.randrange(1, 300)) == whole


def test_threads_of_an_smt_core_are_streams_of_their_own(tmp_path):
    """ExecThread's lines name them; Exec lines of two threads in turn are those of each alone."""
    golden = Path(__file__).parent / "golden" / "lua.arm.trace.xz"
    lines = [x for x in lzma.decompress(golden.read_bytes()).split(b"\n") if b": system.cpu" in x]
    name = re.search(rb": (system\.\S+): ", lines[0])[1]
    threads = [
        [x.replace(name + b": ", name + b": T%d : " % t, 1) for x in lines[t : 1500 + t]]
        for t in (0, 1)
    ]
    both = [x for pair in zip(*threads, strict=True) for x in pair]
    (tmp_path / "both.txt").write_bytes(b"\n".join([*both, b""]))
    result = tracekit.extract(tmp_path / "both.txt", tmp_path / "both.zst")
    assert [o.cpu for o in result.outputs] == [name.decode(), f"{name.decode()}.T1"]
    for t, output in enumerate(result.outputs):
        (tmp_path / "one.txt").write_bytes(b"\n".join([*lines[t : 1500 + t], b""]))
        tracekit.extract(tmp_path / "one.txt", tmp_path / "one.zst", force=True)
        with tracekit.open(output.path) as a, tracekit.open(tmp_path / "one.zst") as b:
            assert len(a) == len(b) > 1000
            for column in ("pc", "addr", "taken", "fault", "data_distance", "p_global"):
                assert np.array_equal(a[column], b[column]), column


def test_vcpus_of_an_execlog_are_counted(tmp_path):
    line = '{}, 0x{:x}, 0xd503201f, "nop"\n'
    text = "".join(line.format(k // 4 % 2, 0x1000 + 4 * k) for k in range(12))
    (tmp_path / "t.log").write_text(text + line.format(0, 0x2000).rstrip("\n")[:-4])
    result = tracekit.extract(tmp_path / "t.log", tmp_path / "f.zst", isa="arm")
    assert {k: a["count"] for k, a in result.anomalies.items()} == {
        "a line of another vCPU, whose rows are one stream with the others'": 2,
        "a last line without its end": 1,
    }
    assert result.rows == 12
