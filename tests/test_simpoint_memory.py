"""Simulation points by memory: distances by interval, misses, and representatives in balance."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
import synthetic
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.stack_distance import stack_distance
from test_sim import extract

from tracekit import schema, simpoint
from tracekit.cli.main import main
from tracekit.simpoint import memory as memory_module
from tracekit.simpoint.memory import BUCKETS, misses
from tracekit.simpoint.representatives import balanced, central, shares


def distances(lines):
    """Of each access (None: no access, 0)."""
    found = iter(stack_distance([line for line in lines if line is not None]))
    return [0 if line is None else min(next(found), schema.NEVER) for line in lines]


def by_interval(found, rows):
    """int64 [intervals, buckets], an access after the other."""
    out = np.zeros((len(rows) - 1, BUCKETS), np.int64)
    for k, (a, b) in enumerate(itertools.pairwise(rows)):
        for d in found[a:b]:
            if d:
                fits = (size for size in range(BUCKETS - 1) if d <= 2**size)
                out[k, next(fits, BUCKETS - 1)] += 1
    return out


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.integers(1, 400), st.integers(1, 120), st.integers(1, 60))
def test_distances_are_counted_in_their_intervals(tmp_path_factory, seed, rows, length, block):
    folder = tmp_path_factory.mktemp("t")
    trace = extract(folder, synthetic.text(seed, rows, blocks=False))
    edges = simpoint.block_vectors(trace, length).rows
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory_module, "_ROWS", block)
        found = simpoint.memory_vectors(trace, edges)
    accesses = zip(trace["is_mem"].tolist(), trace["addr"].tolist(), strict=True)
    data = distances([address >> 6 if is_mem else None for is_mem, address in accesses])
    code = distances([pc >> 6 for pc in trace["pc"].tolist()])
    assert np.array_equal(found[:, 0], by_interval(data, edges))
    assert np.array_equal(found[:, 1], by_interval(code, edges))


def test_misses_of_caches_of_each_size():
    rng = np.random.default_rng(0)
    found = [rng.integers(1, 5000, 300).tolist() + [schema.NEVER] * 7 for _ in range(2)]
    vectors = np.array([[by_interval(d, [0, 307])[0] for d in found]])
    got = misses(vectors, np.array([1000])).reshape(2, BUCKETS)
    sizes = [0, *(2**k for k in range(13))]
    for stack, of in enumerate(found):
        want = [sum(d > size for d in of) / 1000 for size in sizes]
        assert np.allclose(got[stack, : len(sizes)], want)
        assert np.allclose(got[stack, len(sizes) :], 7 / 1000)


def cost(values, labels, chosen):
    """What `balanced` makes small, said once more."""
    w = shares(labels, chosen)
    off = (w[:, None] * values[chosen]).sum(axis=0) - values.mean(axis=0)
    own = [
        weight * (values[i] - values[labels == labels[i]].mean(axis=0))
        for weight, i in zip(w, chosen, strict=True)
    ]
    return float((off**2).sum() + (np.array(own) ** 2).sum())


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 3))
def test_no_exchange_is_better(seed, clusters, columns):
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(clusters), rng.integers(0, clusters, 12)])
    values = rng.normal(size=(len(labels), columns))
    centres = np.array([values[labels == k].mean(axis=0) for k in range(clusters)])
    first = central(values, labels, centres)
    found = balanced(values, labels, first)
    least = cost(values, labels, found)
    assert labels[found].tolist() == list(range(clusters))
    assert least <= cost(values, labels, first) + 1e-12
    for k in range(clusters):
        for other in np.flatnonzero(labels == k):
            exchanged = found.copy()
            exchanged[k] = other
            assert cost(values, labels, exchanged) >= least - 1e-9
    members = [np.flatnonzero(labels == k) for k in range(clusters)]
    best = min(cost(values, labels, np.array(c)) for c in itertools.product(*members))
    assert least >= best - 1e-9 and (clusters > 1 or least <= best + 1e-9)


def one_code(intervals=24):
    """A program that always runs the same, and whose second half misses in larger caches."""
    block = np.tile([1, 2], intervals)
    count = np.tile([60, 40], intervals)
    vectors = simpoint.BlockVectors(block, count, np.arange(0, 2 * intervals + 1, 2), 100)
    memory = np.zeros((intervals, 2, BUCKETS), np.int64)
    memory[:, 1, 0] = 100
    memory[:, 0, 3] = 30
    half = intervals // 2
    memory[half:, 0, 3], memory[half:, 0, 15] = 10, 20
    return vectors, memory


def test_memory_phases_of_the_same_code():
    pytest.importorskip("sklearn")
    vectors, memory = one_code()
    assert [p.weight for p in simpoint.choose(vectors)] == [1.0]
    found = simpoint.choose(vectors, memory)
    assert [p.weight for p in found] == [0.5, 0.5]
    assert found[0].interval < 12 <= found[1].interval
    assert simpoint.choose(vectors, memory) == found  # seeded
    assert len(simpoint.choose(vectors, memory[:1].repeat(24, axis=0))) == 1  # nothing differs


def test_the_command_says_what_tells_intervals_apart(tmp_path, capsys):
    pytest.importorskip("sklearn")
    extract(tmp_path, synthetic.text(5, 900, blocks=False))
    (feats,) = map(str, tmp_path.glob("*.zst"))
    out = str(tmp_path / "x")

    def told(*args):
        assert main(["simpoints", *args, "--interval", "50", "--json", "-q"]) == 0
        return json.loads(capsys.readouterr().out)

    both = told(feats, "-o", out)
    assert both["vectors"] == "code+memory"
    assert told(feats, "--vectors", "code+memory")["points"] == both["points"]
    code = told(feats, "--vectors", "code")
    of_blocks = told(f"{out}.bb")
    assert code["vectors"] == of_blocks["vectors"] == "code"
    assert [p["interval"] for p in code["points"]] == [p["interval"] for p in of_blocks["points"]]
    lists = ["--points", f"{out}.simpoints", "--weights", f"{out}.weights"]
    assert told(feats, *lists)["vectors"] is None
    for args, why in (
        ([f"{out}.bb", "--vectors", "code+memory"], "vectors of blocks know no memory"),
        ([feats, "--vectors", "code", *lists], "--vectors: means nothing with --points"),
    ):
        assert main(["simpoints", *args, "-q"]) == 2
        assert why in capsys.readouterr().err
