"""The CPU engine in other processes: copies of it, and those that a fork leaves."""

from __future__ import annotations

import copy
import multiprocessing
import pickle

import numpy as np
import pytest

from tracekit.infer import Engine
from tracekit.model import Card, ModelSpec

COLUMNS = ("a", "b", "c")


@pytest.fixture
def engine():
    spec = ModelSpec.parse(
        {
            "inputs": [{"column": c} for c in COLUMNS],
            "layers": [{"type": "lstm", "name": "rnn", "hidden": 24, "layers": 2}],
            "heads": [
                {
                    "name": "time",
                    "layers": [{"type": "linear", "name": "t", "out": 2, "bias": False}],
                }
            ],
        }
    )
    random = np.random.default_rng(0)
    tensors = {
        n: random.uniform(-0.2, 0.2, s).astype(np.float32) for n, s in spec.tensors().items()
    }
    return Engine(Card("x", spec, COLUMNS), tensors, threads=2, chunk=512, warmup=64)


@pytest.fixture
def rows():
    return np.random.default_rng(1).standard_normal((30_000, 3)).astype(np.float32)


def test_a_copy_gives_the_same(engine, rows):
    """Its weights lie elsewhere, where instructions that want them aligned read them."""
    want = engine.predict(rows)
    for other in (pickle.loads(pickle.dumps(engine)), copy.deepcopy(engine)):
        np.testing.assert_array_equal(other.predict(rows), want)
        assert (other.dtype, other.threads) == (engine.dtype, engine.threads)


def test_a_fork_has_threads_of_its_own(engine, rows):
    """The parent's have run, and are not there in the child."""
    want = engine.predict(rows)
    forked = multiprocessing.get_context("fork")
    mine, its = forked.Pipe(duplex=False)
    child = forked.Process(target=lambda: its.send(engine.predict(rows)))
    child.start()
    try:
        assert mine.poll(60), "the child waits for threads that it does not have"
        np.testing.assert_array_equal(mine.recv(), want)
    finally:
        child.kill()
        child.join()
