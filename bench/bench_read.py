"""Reading: feature sets of whole chunks, shuffled windows for training, one window anywhere."""

from __future__ import annotations

import numpy as np
import pytest
from repeat_trace import feats
from table import done

import tracekit

ROWS = 200_000


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    with tracekit.open(feats(tmp_path_factory.mktemp("read"), ROWS)) as f:
        yield f


def _fresh(trace) -> tracekit.TraceFile:
    """Nothing decoded yet, but for the static table."""
    f = tracekit.open(trace.path)
    _ = f.statics
    return f


@pytest.mark.benchmark(group="read")
@pytest.mark.parametrize("name", ["perfvec-ref", "perfvec", "neuroscalar"])
def test_features(benchmark, trace, name):
    """Whole chunks, decoded anew, into an array that is there already."""
    width = trace.features(name, (0, 1)).shape[1]
    out = np.zeros((len(trace), width), np.float32)
    want = trace.features(name)

    def read() -> None:
        with _fresh(trace) as f:
            f.features(name, out=out)

    benchmark.pedantic(read, rounds=5, warmup_rounds=1)
    assert np.array_equal(out, want)
    done(benchmark, len(trace), "rows")


@pytest.mark.benchmark(group="read")
def test_floor_copy(benchmark, trace):
    """The floor: a copy of the finished perfvec-ref array."""
    x = trace.features("perfvec-ref")
    out = np.zeros_like(x)
    benchmark.pedantic(np.copyto, (out, x), rounds=5, warmup_rounds=1)
    done(benchmark, len(trace), "rows")


@pytest.mark.benchmark(group="windows")
def test_shuffled_windows(benchmark, trace):
    batch = np.empty((256, 51), np.float32)

    def read() -> int:
        n = 0
        with _fresh(trace) as f:
            for window in f.windows("perfvec-ref", 256, shuffle=1):
                batch[:] = window  # what a loader does with it
                n += 1
        return n

    n = benchmark.pedantic(read, rounds=5, warmup_rounds=1)
    assert n >= len(trace) // 256 - trace.chunks
    done(benchmark, n, "windows")


@pytest.mark.benchmark(group="windows")
def test_window_anywhere(benchmark, trace):
    """256 rows at a random place of a file of which no chunk is decoded."""
    random = np.random.default_rng(0)

    def setup():
        at = int(random.integers(0, len(trace) - 256))
        f = _fresh(trace)
        f.features("perfvec-ref", (0, 0))
        return (f, at), {}

    def read(f, at):
        return f.features("perfvec-ref", (at, at + 256))

    x = benchmark.pedantic(read, setup=setup, rounds=30)
    assert x.shape == (256, 51)
    done(benchmark, 1, "windows")
