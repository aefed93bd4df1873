"""Training data: shuffled batches of windows of 256 rows with targets on 46 machines."""

from __future__ import annotations

import numpy as np
import pytest
from repeat_trace import feats
from table import done

import tracekit
from tracekit.dataset import Dataset, batches
from tracekit.dataset.joining import join

ROWS, MACHINES = 400_000, 46


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The bench's trace beside invented cycles, distributed as those of real machines: most
    retirements share a cycle, bursts of a few, one row in 300 far."""
    folder = tmp_path_factory.mktemp("dataset")
    with tracekit.open(feats(folder, ROWS)) as f:
        ids = f["static_id"]
    r = np.random.default_rng(0)
    habit = r.geometric(0.55, (int(ids.max()) + 1, MACHINES)).astype(np.uint16) - 1
    cycles = habit[ids]
    noisy = r.random(len(ids)) < 0.1
    cycles[noisy] += r.integers(0, 8, (int(noisy.sum()), MACHINES), dtype=np.uint16)
    far = r.random(len(ids)) < 1 / 300
    cycles[far] += r.integers(100, 400, (int(far.sum()), MACHINES), dtype=np.uint16)
    np.save(folder / "cycles.npy", cycles.T)
    names = ",".join(f"u{k:03}" for k in range(MACHINES))
    join(str(folder / "feats.zst"), [f"{names}={folder / 'cycles.npy'}"], str(folder / "data.zst"))
    return folder / "data.zst"


def _read(path, features: str) -> tuple[int, float]:
    n, total = 0, 0.0
    with Dataset(path) as d:
        for x, y in batches([d], features, 256, 64, shuffle=1):
            n += len(x)
            total += float(y[0, 0, 0])
    return n, total


@pytest.mark.benchmark(group="batches with 46 targets")
@pytest.mark.parametrize("features", ["perfvec-ref", "perfvec"])
def test_batches(benchmark, data, features):
    n, _ = benchmark.pedantic(_read, (data, features), rounds=7, warmup_rounds=1)
    with Dataset(data) as d:
        assert n >= len(d) // 256 - d.blocks
    done(benchmark, n, "windows")


@pytest.mark.benchmark(group="batches with 46 targets")
def test_floor_copy(benchmark, data):
    """The floor: gathering the same windows from arrays that are there already."""
    with Dataset(data) as d:
        n = len(d) // 256
        x = d.features("perfvec-ref", (0, n * 256)).reshape(n, 256, -1)
        y = d.cycles((0, n * 256)).reshape(n, 256, -1)
    order = np.random.default_rng(0).permutation(n)

    def copy() -> int:
        return sum(
            len(np.take(x, order[a : a + 64], axis=0)) + 0 * len(np.take(y, order[a : a + 64], 0))
            for a in range(0, n, 64)
        )

    assert benchmark.pedantic(copy, rounds=7, warmup_rounds=1) == n
    done(benchmark, n, "windows")


@pytest.mark.benchmark(group="batches with 46 targets")
def test_targets_alone(benchmark, data):
    """Decoding the targets, without features."""

    def read() -> int:
        with Dataset(data) as d:
            return sum(len(d.block(k)) for k in range(d.blocks))

    n = benchmark.pedantic(read, rounds=7, warmup_rounds=1)
    done(benchmark, n // 256, "windows")
