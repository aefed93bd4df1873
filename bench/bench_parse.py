"""Text: parse, commit order and interning in memory, beside the floor and plain readers."""

from __future__ import annotations

import pytest
from repeat_trace import Repeater
from text_peers import per_line_python

from tracekit import _core

BLOCK = 1 << 21


@pytest.fixture(scope="module")
def text() -> bytes:
    repeat = Repeater()
    return b"".join(repeat.pieces(200_000))


def parse(text: bytes) -> tuple[int, int]:
    source = _core.Gem5Text()
    view, rows = memoryview(text), 0
    for at in range(0, len(text), BLOCK):
        source.feed(view[at : at + BLOCK])
        rows += sum(len(source.take(i)) for i in range(len(source.cpus())))
    source.finish()
    return rows + len(source.take(0)), source.stats()["squashed"]


def _rate(benchmark, size: int) -> None:
    if benchmark.stats:
        benchmark.extra_info["MB/s"] = round(size / benchmark.stats.stats.min / 1e6, 1)


@pytest.mark.benchmark(group="parse")
def test_tracekit(benchmark, text):
    rows, squashed = benchmark(parse, text)
    assert rows == per_line_python(text)[0]
    assert squashed > 0
    _rate(benchmark, len(text))


@pytest.mark.benchmark(group="parse")
def test_peer_getline_strtoull(benchmark, text):
    """C++: std::getline, strchr and strtoull into a map, nothing interned."""
    rows, _ = benchmark(_core.bench_getline, text)
    assert rows == per_line_python(text)[0]
    _rate(benchmark, len(text))


@pytest.mark.benchmark(group="parse")
def test_peer_python(benchmark, text):
    part = text[: 1 << 21]
    benchmark.pedantic(per_line_python, (part,), rounds=3)
    _rate(benchmark, len(part))


@pytest.mark.benchmark(group="parse")
def test_floor_newlines(benchmark, text):
    """The floor: find every newline (memchr), nothing else."""
    lines = benchmark(_core.bench_newlines, text)
    assert lines == text.count(b"\n")
    _rate(benchmark, len(text))
