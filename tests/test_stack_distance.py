"""StackDistance on every instruction set against the list of tests/oracles."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracekit
from tracekit import _core
from tracekit.analysis import lru
from tracekit.errors import UsageError


def _loaded(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FOLDER = Path(__file__).resolve().parent
_oracle = _loaded("oracle_stack_distance", FOLDER / "oracles" / "stack_distance.py")
_peers = _loaded("stack_distance_peers", FOLDER.parent / "bench" / "peers.py")
needs_peers = pytest.mark.skipif(_peers.why_not() is not None, reason=str(_peers.why_not()))

ALL = ["portable", "avx2", "avx512"]
HERE = ALL[: ALL.index(_core.active_isa()) + 1]
isa = pytest.mark.parametrize("isa", HERE)

# Lines of one page, strewn ones, neighbours of both ends of the address space.
dense = st.integers(0, 100)
any_line = st.one_of(
    dense,
    st.integers(0, 60).map(lambda i: i * 0x9E3779B97F4A7C15 & (2**64 - 1)),
    st.integers(0, 60).map(lambda i: i << 58),
    st.integers(0, 40).map(lambda i: 2**64 - 1 - i),
)


@st.composite
def streams(draw: st.DrawFn, line: st.SearchStrategy[int] = any_line) -> list[int]:
    """Accesses with repeats, and stretches that come again in the same order."""
    out: list[int] = []
    for _ in range(draw(st.integers(1, 8))):
        kind = draw(st.integers(0, 3))
        if kind == 0:
            out += draw(st.lists(line, max_size=60))
        elif kind == 1 and out:
            out += [out[-1]] * draw(st.integers(1, 40))
        elif kind == 2 and out:
            at = draw(st.integers(0, len(out) - 1))
            out += out[at : at + draw(st.integers(1, 150))] * draw(st.integers(1, 3))
        else:
            first = draw(line)
            out += [(first + i) % 2**64 for i in range(draw(st.integers(1, 150)))]
    return out


def array(values: list[int]) -> np.ndarray:
    return np.array(values, np.uint64)


@isa
@settings(max_examples=150)
@given(data=st.data())
def test_against_the_oracle(isa: str, data: st.DataObject) -> None:
    """Any split into batches, single accesses among them, peeks that change nothing, copies."""
    lines = data.draw(streams())
    bits = data.draw(st.sampled_from([0, 0, 1, 6]))
    # 512 stamps is the smallest bitmap: it is renumbered every few hundred accesses.
    stack = _core.StackDistance(
        bits,
        isa=isa,
        first_stamps=data.draw(st.sampled_from([1, 1, 600, 16384])),
        stamps_per_line=data.draw(st.sampled_from([2, 3, 6])),
    )
    want = _oracle.stack_distance([x >> bits for x in lines])
    got: list[int] = []
    while len(got) < len(lines):
        i = len(got)
        n = data.draw(st.integers(1, 400))
        if n % 5 == 0:
            assert stack.peek_one(lines[i]) == want[i]
        if n % 7 == 0:
            before, stack = stack, stack.copy()
            before.access(array([1, 2, 3]))  # must not be seen by the copy
        if n % 3 == 0:
            got.append(stack.access_one(lines[i]))
        else:
            got += stack.access(array(lines[i : i + n])).tolist()
    assert got == want
    assert stack.distinct == len({x >> bits for x in lines})


@isa
@settings(max_examples=150)
@given(data=st.data())
def test_updating_only_some(isa: str, data: st.DataObject) -> None:
    lines = data.draw(streams())
    share = data.draw(st.sampled_from([0, 1, 2, 3, 4]))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    updates = rng.integers(0, 4, len(lines)) < share
    stack = _core.StackDistance(isa=isa, first_stamps=1, stamps_per_line=2)
    got: list[int] = []
    while len(got) < len(lines):
        part = slice(len(got), len(got) + data.draw(st.integers(1, 400)))
        got += stack.access(array(lines[part]), updates[part]).tolist()
    assert got == _oracle.stack_distance(lines, updates)


def peer(lines: np.ndarray) -> np.ndarray:
    return _peers.fenwick_stack_distance(lines)


@needs_peers
@settings(max_examples=60)
@given(streams(dense))
def test_peers_against_the_oracle(lines: list[int]) -> None:
    want = _oracle.stack_distance(lines)
    assert _peers.fenwick_stack_distance(array(lines)).tolist() == want
    assert _peers.splay_stack_distance(array(lines)).tolist() == want


@needs_peers
@isa
@pytest.mark.parametrize("first_stamps", [1, 40_000, 400_000, 2_000_000, 5_000_000, 80_000_000])
@pytest.mark.parametrize("stride", [1, 3, 1 << 12, 0x9E3779B97F4A7C15])
def test_every_depth_of_tree(isa: str, first_stamps: int, stride: int) -> None:
    """The tree's layout follows from its size; a large first bitmap makes each of them cheaply."""
    rng = np.random.default_rng(first_stamps)
    lines = np.concatenate(
        [
            rng.integers(0, 30_000, 60_000),
            np.arange(40_000),
            np.arange(40_000)[::-1],
            np.arange(40_000),
        ]
    ).astype(np.uint64) * np.uint64(stride)
    stack = _core.StackDistance(isa=isa, first_stamps=first_stamps)
    at, got = 0, []
    while at < len(lines):
        n = int(rng.integers(1, 50_000))
        got.append(stack.access(lines[at : at + n]))
        at += n
        for line in lines[at : at + 300]:  # one by one
            got.append(np.array([stack.access_one(int(line))]))
        at += 300
    np.testing.assert_array_equal(np.concatenate(got), peer(lines))


@needs_peers
@isa
def test_growth_from_dense_to_sparse_and_back(isa: str) -> None:
    """Both layouts of the table of last accesses, and the changes between them."""
    rng = np.random.default_rng(1)
    sparse = rng.integers(0, 2**64, 20_000, dtype=np.uint64)
    columns = (np.arange(400)[:, None] + np.arange(600)[None, :] * 1024).astype(np.uint64).ravel()
    lines = np.concatenate(
        [np.arange(5000, dtype=np.uint64), sparse, columns, sparse[::-1], columns]
    )
    stack = _core.StackDistance(isa=isa)
    np.testing.assert_array_equal(stack.access(lines), peer(lines))
    assert stack.distinct == len(np.unique(lines))


@isa
def test_distances_of_a_long_stream(isa: str) -> None:
    """Stamps run out some 1,200 times; a loop over n lines has distance n throughout."""
    n = 300
    stack = _core.StackDistance(isa=isa, first_stamps=1, stamps_per_line=2)
    loop = np.tile(np.arange(n, dtype=np.uint64), 1000)
    assert (stack.access(loop)[n:] == n).all()
    assert (stack.access(loop) == n).all()
    assert (stack.access(loop[::-1].copy())[n : 2 * n] == n).all()


def test_memory() -> None:
    """A handful of lines costs kilobytes, and a dense million at most 24 bytes a line."""
    small = _core.StackDistance()
    small.access(np.arange(10, dtype=np.uint64))
    assert small.nbytes < 32768
    large, most = _core.StackDistance(), 0.0
    for first in range(0, 1_000_000, 50_000):
        large.access(np.arange(first, first + 50_000, dtype=np.uint64))
        most = max(most, large.nbytes / large.distinct)
    assert most < 64
    assert large.nbytes < 24 * large.distinct


def test_the_most_that_a_tree_holds() -> None:
    with pytest.raises((ValueError, IndexError)):
        _core.StackDistance(most_stamps=2**30 + 1)
    with pytest.raises(ValueError, match="first_stamps"):
        _core.StackDistance(first_stamps=513, most_stamps=512)


@isa
def test_as_many_lines_as_there_are_stamps(isa: str) -> None:
    """The first 128 stamps of 4096 are no line's.  Every distance is right up to the last line, one
    more is refused, and what was known before is known then."""
    most = 4096 - 128
    lines = np.arange(most, dtype=np.uint64)
    stack = _core.StackDistance(isa=isa, first_stamps=1, stamps_per_line=2, most_stamps=4096)
    assert (stack.access(lines) == _core.COLD).all()
    assert stack.distinct == most
    for line in (0, 17, most - 1):
        assert stack.peek_one(line) == most - line
    with pytest.raises(ValueError, match="distinct lines"):
        stack.access(np.array([most], np.uint64))
    assert (stack.distinct, stack.peek_one(17)) == (most, most - 17)
    # With one line less there is always a stamp.
    fewer = _core.StackDistance(isa=isa, first_stamps=1, stamps_per_line=2, most_stamps=4096)
    fewer.access(lines[:-1])
    assert (fewer.access(np.tile(lines[:-1], 3)) == most - 1).all()


def test_the_variable_forces_the_code() -> None:
    code = (
        "import tracekit; from tracekit import _core; "
        "print(_core.active_isa(), tracekit.stack_distance([5, 6, 5])[2])"
    )
    for name in HERE:
        out = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "TRACEKIT_ISA": name},
            capture_output=True,
            text=True,
            check=True,
        )
        assert out.stdout.split() == [name, "2"]


def test_public_function() -> None:
    assert tracekit.stack_distance([1, 2, 2, 1]).tolist() == [tracekit.NEVER, tracekit.NEVER, 1, 2]
    assert tracekit.stack_distance(np.array([0, 63, 64, 1]), 64).tolist() == [
        tracekit.NEVER,
        1,
        tracekit.NEVER,
        2,
    ]
    assert tracekit.stack_distance([]).dtype == np.uint32
    every_other = np.arange(10, dtype=np.uint64)[::2]
    assert tracekit.stack_distance(every_other).tolist() == [tracekit.NEVER] * 5
    for bad in ([1.5], [[1]], [-1], ["a"]):
        with pytest.raises(UsageError):
            tracekit.stack_distance(bad)
    for size in (0, 3, -64):
        with pytest.raises(UsageError):
            tracekit.stack_distance([1], size)


def test_streaming_class() -> None:
    stack = lru.StackDistance(64)
    assert stack.access([0, 64]).tolist() == [tracekit.NEVER, tracekit.NEVER]
    other = stack.copy()
    assert stack.access([0, 64], np.array([False, True])).tolist() == [2, 1]
    assert other.access([0, 64]).tolist() == [2, 2]
    assert stack.distinct == 2 and stack.nbytes > 0
    out = np.zeros(2, np.uint32)
    assert stack.access([0, 64], out=out) is out
    assert out.tolist() == [2, 2]
    for bad in (np.zeros(3, np.uint32), np.zeros(2, np.uint64), np.zeros(4, np.uint32)[::2]):
        with pytest.raises(UsageError):
            stack.access([0, 64], out=bad)
    with pytest.raises(UsageError):
        stack.access([0, 64], np.array([True]))
    with pytest.raises(UsageError):
        lru.StackDistance(isa="neon128")


def test_threads_may_share_a_stack() -> None:
    stack = lru.StackDistance()
    lines = np.arange(2000, dtype=np.uint64)
    threads = [
        threading.Thread(target=lambda: [stack.access(lines) for _ in range(50)]) for _ in range(3)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert stack.distinct == 2000
    assert (stack.access(lines) == 2000).all()
