"""Text: parse, commit order and interning in memory, beside the floor and plain readers."""

from __future__ import annotations

import peers
import pytest
from repeat_trace import Repeater
from table import done
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


@pytest.fixture(scope="module")
def rows(text) -> int:
    return per_line_python(text)[0]


needs_peers = pytest.mark.skipif(peers.why_not() is not None, reason=str(peers.why_not()))


@pytest.mark.benchmark(group="parse")
def test_tracekit(benchmark, text, rows):
    found, squashed = benchmark(parse, text)
    assert found == rows and squashed > 0
    done(benchmark, rows, "rows", len(text))


@needs_peers
@pytest.mark.benchmark(group="parse")
def test_peer_getline_strtoull(benchmark, text, rows):
    """C++: std::getline, strchr and strtoull into a map, nothing interned."""
    assert benchmark(peers.getline_reader, text)[0] == rows
    done(benchmark, rows, "rows", len(text))


@pytest.mark.benchmark(group="parse")
def test_peer_python(benchmark, text, rows):
    assert benchmark.pedantic(per_line_python, (text,), rounds=1)[0] == rows
    done(benchmark, rows, "rows", len(text))


@needs_peers
@pytest.mark.benchmark(group="parse")
def test_floor_newlines(benchmark, text, rows):
    """The floor: find every newline (memchr), nothing else."""
    assert benchmark(peers.newlines, text) == text.count(b"\n")
    done(benchmark, rows, "rows", len(text))
