"""gem5's text is read by fast ways, which know lines again, and by a slow one: both give the same
rows and the same counts, whatever stands in the lines."""

from __future__ import annotations

import random

import synthetic
from hypothesis import given, settings
from hypothesis import strategies as st

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


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_fast_ways_are_the_slow_one(seed: int) -> None:
    r = random.Random(seed)
    # What is near the end goes the slow way: lines behind that are none.
    data = damaged(r, rich(r, r.choice((3, 30, 150)))).encode() + b"info: more\n" * 500
    whole = read(data, len(data))
    assert read(data, 5) == whole, "no line is whole in its piece"
    assert read(data, 700) == whole


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32))
def test_rows_of_ticks_that_grow(seed: int) -> None:
    """Without damage nothing is odd, however long the ticks are."""
    r = random.Random(seed)
    data = synthetic.text(seed, 80).encode()
    whole = read(data, len(data))
    assert whole["counters"] == {} and read(data, r.randrange(1, 300)) == whole
