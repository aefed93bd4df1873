"""End to end: a plain text file in the page cache to a feats.zst with everything, on one core and
on two."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard
from repeat_trace import Repeater
from table import done

import tracekit

ROWS = 400_000
TRACES = 8


@pytest.fixture(scope="module")
def trace(tmp_path_factory) -> tuple[Path, int]:
    path = tmp_path_factory.mktemp("extract") / "trace.out"
    repeat = Repeater()
    with path.open("wb") as f:
        for piece in repeat.pieces(ROWS):
            f.write(piece)
    return path, -(-ROWS // repeat.rows) * repeat.rows


def _extract(path: Path, cores: set[int]) -> int:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        return tracekit.extract(path, path.with_name("feats.zst"), force=True).rows
    finally:
        os.sched_setaffinity(0, before)


def _cores(n: int) -> set[int]:
    have = sorted(os.sched_getaffinity(0))
    if len(have) < n:
        pytest.skip(f"needs {n} cores")
    return set(have[:n])


@pytest.mark.benchmark(group="extract")
@pytest.mark.parametrize("cores", [1, 2])
def test_plain(benchmark, trace, cores):
    path, rows = trace
    assert benchmark.pedantic(_extract, (path, _cores(cores)), rounds=5, warmup_rounds=1) == rows
    done(benchmark, rows, "rows", path.stat().st_size)


@pytest.mark.benchmark(group="extract")
@pytest.mark.parametrize("kind", ["gz", "zst"])
def test_compressed(benchmark, trace, kind):
    path, rows = trace
    packed = path.with_name(f"trace.{kind}")
    if not packed.exists():
        pack = {"gz": lambda b: gzip.compress(b, 6), "zst": zstandard.compress}[kind]
        packed.write_bytes(pack(path.read_bytes()))
    assert benchmark.pedantic(_extract, (packed, _cores(2)), rounds=3, warmup_rounds=1) == rows
    done(benchmark, rows, "rows", path.stat().st_size)


@pytest.mark.benchmark(group="extract")
@pytest.mark.parametrize("kind", ["gz", "zst"])
def test_floor_decompressor(benchmark, trace, kind):
    """The decompressor alone."""
    from tracekit.inputs.blocks import Input

    path, rows = trace
    packed = path.with_name(f"trace.{kind}")
    if not packed.exists():
        pytest.skip("runs after test_compressed")

    def read() -> int:
        with Input(packed) as f:
            return sum(len(b) for b in f)

    assert benchmark.pedantic(read, rounds=3, warmup_rounds=1) == path.stat().st_size
    done(benchmark, rows, "rows", path.stat().st_size)


@pytest.mark.benchmark(group="extract, several traces")
@pytest.mark.parametrize("jobs", [1, 2])
def test_jobs(benchmark, trace, tmp_path, jobs):
    """Compressed traces: one at a time on one core, two at a time on two."""
    path, _ = trace
    packed = path.with_name("trace.zst")
    if not packed.exists():
        packed.write_bytes(zstandard.compress(path.read_bytes()))
    inputs = [tmp_path / f"t{k}.out.zst" for k in range(TRACES)]
    for one in inputs:
        one.hardlink_to(packed)
    command = [sys.executable, "-m", "tracekit", "extract", *map(str, inputs)]
    command += ["-o", f"{tmp_path}/out/", "--force", "--quiet", "--jobs", str(jobs)]
    cores = _cores(jobs)

    def run() -> None:
        subprocess.run(
            command, check=True, cwd=tmp_path, preexec_fn=lambda: os.sched_setaffinity(0, cores)
        )

    benchmark.pedantic(run, rounds=2, warmup_rounds=0)
    assert len(list((tmp_path / "out").glob("*.zst"))) == TRACES
    done(benchmark, TRACES, "traces")
