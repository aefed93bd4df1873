"""Plug-ins in a simulated core: a Numba cfunc against the built-in of the same work.

One simulation of a trace, by one thread.  The floor is the machine with the built-in: its tagged
prefetcher asks for the next two lines, its LRU takes the way that was not used for longest, its
local predictor is a table of two-bit counters.  The plug-ins do the same in Numba.
"""

from __future__ import annotations

import numpy as np
import pytest
import synthetic
from table import done

import tracekit
from tracekit import sim
from tracekit.sim import plugins

numba = pytest.importorskip("numba")
ROWS = 60_000


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> tracekit.TraceFile:
    """Branches, and loads and stores of more lines than the caches hold."""
    folder = tmp_path_factory.mktemp("plugins")
    (folder / "t").write_text(synthetic.text(11, ROWS, blocks=False))
    tracekit.extract(folder / "t", folder / "t.zst")
    return tracekit.open(folder / "t.zst")


@pytest.fixture(scope="module", autouse=True)
def known() -> None:
    """The three plug-ins."""
    carray, u64, i64 = numba.carray, np.uint64, np.int64

    @numba.cfunc(plugins.PREDICT)
    def predict(state, pc, kind):
        return i64(carray(state, 2048)[(pc >> u64(2)) & u64(2047)] > 1)

    @numba.cfunc(plugins.UPDATE)
    def update(state, pc, kind, taken):
        s, at = carray(state, 2048), (pc >> u64(2)) & u64(2047)
        if taken:
            s[at] += s[at] < 3
        else:
            s[at] -= s[at] > 0

    @numba.cfunc(plugins.ACCESS)
    def access(state, line, pc, hit, out):
        wanted = carray(out, 32)
        wanted[0], wanted[1] = line + u64(1), line + u64(2)
        return 2

    @numba.cfunc(plugins.TOUCH)
    def touch(state, way, ways, filled):  # an age a way, 0 the latest
        s = carray(state, 64)
        old = s[way] if not filled else ways
        for k in range(ways):
            if s[k] < old:
                s[k] += 1
        s[way] = 0

    @numba.cfunc(plugins.VICTIM)
    def victim(state, ways):
        s, oldest = carray(state, 64), 0
        for k in range(ways):
            if s[k] > s[oldest]:
                oldest = k
        return oldest

    plugins.add_predictor("bench-local", 2048, predict, update)
    plugins.add_prefetcher("bench-next-two", 0, access)
    plugins.add_replacement("bench-lru", 64, touch, victim)


#: What is plugged in: the parameters, the built-in and the plug-in.
PARTS = {
    "predictor": (("bp",), "LocalBP", "plugin:bench-local"),
    "prefetcher": (("l1d_pf", "l2_pf"), "tagged", "plugin:bench-next-two"),
    "replacement": (("l1d_replacement", "l2_replacement"), "lru", "plugin:bench-lru"),
}


def cycles(trace: tracekit.TraceFile, keys: tuple[str, ...], value: str) -> float:
    base = tracekit.Machine.load("o3_small").replace(l1d_kb=4, l2_kb=64).to_dict()
    machine = {**base, **dict.fromkeys(keys, value)}
    return float(sim.totals(trace, [machine], threads=1)[0][0])


@pytest.mark.parametrize("part", list(PARTS))
@pytest.mark.parametrize("what", ["floor_built_in", "numba"])
def test_plugin(benchmark, trace, part, what) -> None:
    keys, built_in, plugged = PARTS[part]
    benchmark.group = f"plug-ins, {part}"
    value = built_in if what.startswith("floor") else plugged
    found = benchmark.pedantic(cycles, (trace, keys, value), rounds=40, warmup_rounds=5)
    done(benchmark, len(trace), "rows")
    other = cycles(trace, keys, built_in)
    assert found == other
