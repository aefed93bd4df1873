"""One trace on several processors: rows decoded ahead, and segments that begin warm and are walked
at the same time, against one walk in one thread."""

from __future__ import annotations

import itertools
import json
import threading

import numpy as np
import pytest
import synthetic
from hypothesis import given, settings
from hypothesis import strategies as st

import tracekit
from tracekit.cli.main import main
from tracekit.errors import FormatError, UsageError
from tracekit.sim import KeptRows, RowSource, sample_sums, totals, walk
from tracekit.sim.segments import segment_sums
from tracekit.sim.trace_walk import BLOCK

#: One of each class: out of order and in order, without prefetchers and with.
PLAIN, PREFETCHING = ("o3_small", "io_1w", "u004"), ("u007", "io_2w")
MACHINES = (*PLAIN, *PREFETCHING)
WARM = {"approach": 100, "warm": 50}


def machines(names=MACHINES):
    return [tracekit.Machine.load(m).to_dict() for m in names]


@pytest.fixture(scope="module", params=["lua.arm", "lua.x86", "strsort.riscv"])
def trace(request, golden, tmp_path_factory):
    path = tmp_path_factory.mktemp("segments") / "t.zst"
    tracekit.extract(golden / f"{request.param}.trace.xz", path, chunk_rows=700)
    with tracekit.open(path) as t:
        yield t


@pytest.fixture(scope="module")
def long_trace(tmp_path_factory):
    """A program of loops over arrays, one of which no first cache holds: X86 rows."""
    path = tmp_path_factory.mktemp("long") / "t.zst"
    text = path.with_suffix(".lackey")
    text.write_text(synthetic.lackey_loops(60_000))
    tracekit.extract(text, path, level="macro")
    with tracekit.open(path) as t:
        yield t


def quarter(trace):
    return len(trace) // 4


def test_any_number_of_threads_gives_the_same(trace):
    one = segment_sums(trace, machines(), quarter(trace), threads=1, **WARM)
    assert one.shape == (-(-len(trace) // quarter(trace)), len(MACHINES))
    for threads in (2, 3, 7):
        found = segment_sums(trace, machines(), quarter(trace), threads=threads, **WARM)
        assert (found == one).all()
    assert (
        segment_sums(KeptRows(trace), machines(), quarter(trace), threads=3, **WARM) == one
    ).all()


def test_segments_are_nearly_what_one_walk_gives(trace):
    n = len(trace)
    length = quarter(trace)
    edges = [*range(0, n, length), n]
    true = totals(trace, machines(), edges)
    found = segment_sums(trace, machines(), quarter(trace), **WARM)
    # The first segment is the walk's own.
    assert (found[0] == true[0]).all()
    bias = np.abs(found.sum(axis=0) / true.sum(axis=0) - 1)
    # Three segments of a few hundred rows, begun behind 150 that teach caches and predictors.
    assert bias.max() < 0.1
    # Begun cold, they would be off by more.
    source = RowSource(trace)
    cold = np.zeros(len(MACHINES))
    for a, b in itertools.pairwise(edges[1:]):
        cores = source.cores(machines())
        for block in source.blocks(a, b):
            ends = np.array([0, len(block.ids)], np.uint32)
            cold += cores.sums(block.ids, block.addr, block.bits, block.following, ends)[0]
    off = np.abs(cold - true[1:].sum(axis=0))
    assert (np.abs(found[1:].sum(axis=0) - true[1:].sum(axis=0)) < off / 2).all()


@settings(max_examples=15)
@given(data=st.data())
def test_each_segment_is_a_sample_of_its_rows(trace, data):
    """A sample before which there is no other one."""
    n = len(trace)
    approach, warm = data.draw(st.integers(0, 60)), data.draw(st.integers(1, 60))
    length = data.draw(st.integers(max(approach + warm + 1, n // 8), n))
    threads = data.draw(st.integers(1, 3))
    found = segment_sums(trace, machines(), length, approach=approach, warm=warm, threads=threads)
    number = data.draw(st.integers(0, len(found) - 1))
    rows = (number * length, min((number + 1) * length, n))
    alone = sample_sums(trace, machines(), [rows], approach=approach, warm=warm)
    assert (found[number] == alone[0]).all()


def test_one_segment_is_the_walk(trace):
    n = len(trace)
    for length in (n, n + 1):
        assert (segment_sums(trace, machines(), length, **WARM) == totals(trace, machines())).all()


def test_progress_tells_all_rows(trace):
    told: list[int] = []
    segment_sums(trace, machines(PLAIN), quarter(trace), threads=3, report=told.append, **WARM)
    assert told == sorted(told) and told[-1] == len(trace)


def test_segments_that_are_none_are_refused(trace):
    with pytest.raises(UsageError, match=r"150 rows; at least 151"):
        segment_sums(trace, machines(), 150, **WARM)
    with pytest.raises(UsageError, match="at least 1"):
        segment_sums(trace, machines(), quarter(trace), approach=0, warm=0)
    with pytest.raises(UsageError, match="no simulated cores"):
        segment_sums(trace, [], quarter(trace))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_what_fails_in_one_thread_ends_all(trace, threads):
    """A reader's error and the user's interrupt."""

    class Damaged(KeptRows):
        def blocks(self, first, last):
            for b in super().blocks(first, last):
                if b.begin + len(b.ids) > 2 * quarter(trace):
                    raise FormatError("damaged", path="t.zst")
                yield b

    before = threading.active_count()
    with pytest.raises(FormatError, match="damaged"):
        segment_sums(Damaged(trace), machines(PLAIN), quarter(trace), threads=threads, **WARM)

    def interrupted(done):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        segment_sums(
            trace, machines(PLAIN), quarter(trace), threads=threads, report=interrupted, **WARM
        )
    assert threading.active_count() == before


def test_the_command(trace, capsys):
    """The file is shorter than a segment may be, so that it is one."""
    run = ["simulate", trace.path, "-m", "o3_small", "io_1w", "--segments", "50000"]
    assert main([*run, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["segment_rows"] == 50_000
    whole = totals(trace, machines(("o3_small", "io_1w")))[0]
    assert [m["cycles"] for m in found["machines"]] == whole.tolist()
    assert main(run) == 0
    assert "1 segments of 50,000 rows, each begun warm" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--segments", "48000"], "48,000 rows; at least 48,001"),
        (["--segments", "50000", "--by-range", "2"], "--by-range: means nothing with --segments"),
        (["--segments", "50000", "--samples", "40"], "--samples: means nothing with --segments"),
        (["--segments", "50000", "--causes"], "--causes: means nothing with --segments"),
    ],
)
def test_options_that_make_no_sense(trace, options, said, capsys):
    assert main(["simulate", trace.path, "-m", "o3_small", *options]) == 2
    assert said in capsys.readouterr().err


def test_real_processors_are_refused(trace, capsys):
    assert main(["simulate", trace.path, "-m", "zen5", "--segments", "50000"]) == 2
    assert "segments are of gem5's machines" in capsys.readouterr().err


class Unreadable(RowSource):
    """Rows of which the last cannot be read."""

    def blocks(self, first, last):
        for b in super().blocks(first, last):
            if b.begin + len(b.ids) == len(self):
                raise FormatError("damaged", path="t.zst")
            yield b


def test_rows_that_are_decoded_ahead_are_the_same(long_trace):
    """A reader's error comes through, and no thread stays behind a walk that ends early."""
    one = totals(long_trace, machines(PLAIN), threads=1)
    edges = [0, 33_000, len(long_trace)]
    for threads in (2, 3):
        assert (totals(long_trace, machines(PLAIN), threads=threads) == one).all()
        assert (
            totals(long_trace, machines(PLAIN), edges, threads).sum(axis=0).tolist()
            == one[0].tolist()
        )
    before = threading.active_count()
    parts = walk(long_trace, machines(PLAIN), 2)
    assert len(next(parts).cycles) == BLOCK
    parts.close()
    assert threading.active_count() == before
    source = Unreadable(long_trace)
    with (
        pytest.raises(FormatError, match="damaged"),
        source.ahead(0, len(source), 2) as blocks,
    ):
        list(blocks)
    assert threading.active_count() == before


def test_long_segments_are_within_a_percent_of_one_walk(long_trace):
    names = (*PLAIN, *PREFETCHING)
    true = totals(long_trace, machines(names))[0]
    found = segment_sums(long_trace, machines(names), 50_000, threads=2).sum(axis=0)
    bias = dict(zip(names, np.abs(found / true - 1).tolist(), strict=True))
    assert max(bias[m] for m in PLAIN) < 0.01
    assert max(bias[m] for m in PREFETCHING) < 0.03
