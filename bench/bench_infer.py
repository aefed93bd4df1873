"""Inference on one core: the engine beside torch, onnxruntime and the floor, in the same run.

``pytest bench/bench_infer.py --benchmark-only`` times each; ``PYTHONPATH=.:tests python
bench/bench_infer.py``
interleaves short runs of all of them and prints medians and ratios (``--json`` for machines).
Times are of the thread's CPU clock, so that other work on the machine counts as little as it can.
The engine's rows are those delivered: warm-up (one step in 33, as for its own chunks of 8192),
gathering and readout are in its time.  The second set of ratios counts the warm-up's steps too:
the peers' rates are of steps, without one.  The floor is the same number of multiplications in
registers alone.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from oracles import lstm as oracle
from table import done

from tracekit.infer import Engine, quantize
from tracekit.infer.cpu import active_isa, has
from tracekit.infer.quantization import quantize_tensors
from tracekit.model import Card, ModelSpec, save_model

Array = NDArray[Any]
CHUNK, WARMUP, CHUNKS = 1024, 32, 48
ROWS = CHUNK * CHUNKS
SHAPES: dict[str, dict[str, Any]] = {
    "lstm256x2": {"columns": 256, "layers": [], "heads": []},
    "perfvec": {
        "columns": 51,
        "layers": [{"type": "relu"}],
        "heads": [
            {
                "name": "time",
                "layers": [{"type": "linear", "name": "table", "out": 77, "bias": False}],
            }
        ],
    },
    "neuroscalar": {
        "columns": 13,
        "first": [{"type": "linear", "name": "input_proj", "out": 256}],
        "layers": [],
        "heads": [
            {
                "name": "cycles",
                "type": "two_way",
                "hidden": 64,
                "threshold": 10,
                "cap": 1000,
                "classifier": ["cls_fc1", "cls_fc2"],
                "short": "output_layer_short",
                "long": "output_layer_long",
            }
        ],
    },
}
DTYPES = ("f32", "bf16", "int8")
BATCHES = (16, 64, 128)
PEER_BATCH = 64  # of the peers in pytest


def build(shape: str) -> tuple[Card, dict[str, Array]]:
    """The shape's card with random weights of torch's initial range."""
    part = SHAPES[shape]
    names = [f"c{i}" for i in range(part["columns"])]
    lstm = {"type": "lstm", "name": "rnn", "hidden": 256, "layers": 2}
    spec = ModelSpec.parse(
        {
            "inputs": [{"column": name} for name in names],
            "layers": [*part.get("first", []), lstm, *part["layers"]],
            "heads": part["heads"],
        }
    )
    return Card(shape, spec, tuple(names)), random_weights(spec)


def random_weights(spec: ModelSpec) -> dict[str, Array]:
    """Every tensor, of torch's initial range for 256 inputs."""
    rng = np.random.default_rng(0)
    tensors = {n: rng.uniform(-1 / 16, 1 / 16, s) for n, s in spec.tensors().items()}
    return {k: v.astype(np.float32) for k, v in tensors.items()}


def features(columns: int) -> Array:
    """Rows for all timings."""
    out: Array = np.random.default_rng(1).standard_normal((ROWS, columns)).astype(np.float32)
    return out


def engine(shape: str, dtype: str, threads: int = 1) -> Callable[[], Array]:
    """A run of the engine over ROWS rows; its first rows are checked against the oracle."""
    card, tensors = build(shape)
    x = features(len(card.columns))
    parts = None
    if dtype == "int8":
        parts = quantize_tensors(card, tensors, x[:2048], raw=True)
    it = Engine(card, tensors, parts, dtype=dtype, threads=threads, chunk=CHUNK, warmup=WARMUP)
    found = it.represent(x[:40])
    layers = card.spec.to_dict()["layers"]
    limit = {"f32": 1e-5, "bf16": 5e-3, "int8": 2e-2}[dtype]
    np.testing.assert_allclose(found, oracle.stack(layers, x[:40], tensors), atol=limit, rtol=0)
    if not card.spec.heads:
        return lambda: it.represent(x)
    return lambda: it.predict(x)


def multiplications(shape: str) -> int:
    """Multiply-adds of one row."""
    spec: Mapping[str, tuple[int, ...]] = build(shape)[0].spec.tensors()
    return sum(s[0] * s[1] for s in spec.values() if len(s) == 2)


def products(dtype: str) -> tuple[Callable[[], object], float]:
    """A run of 24 independent multiply-adds of vectors in registers, and how many those are."""
    from llvmlite import ir
    from numba import njit, types
    from numba.extending import intrinsic

    from tracekit.infer.emit import Emitter
    from tracekit.infer.kernels import TARGETS

    target = TARGETS[active_isa()]
    kind = {"f32": "f32", "bf16": "bf16", "int8": "u8"}[dtype]

    @intrinsic
    def spin(typing: Any, count: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            e = Emitter(builder, target)
            vector = target.ints if kind == "u8" else target.floats
            operand = target.floats if kind == "f32" else target.ints
            x = builder.bitcast(e.splat(builder.trunc(args[0], ir.IntType(32))), operand)
            state = e.loop(
                args[0], [ir.Constant(vector, None)] * 24,
                lambda i, s: [e.dot(kind, v, x, x) for v in s],
            )  # fmt: skip
            total = state[0]
            for v in state[1:]:
                total = builder.add(total, v) if kind == "u8" else builder.fadd(total, v)
            first = builder.extract_element(total, ir.Constant(ir.IntType(32), 0))
            return builder.bitcast(first, ir.IntType(32))

        return types.int32(types.int64), generate

    run = njit(lambda n: spin(n))
    count = 4_000_000
    run(count)
    return lambda: run(count), count * 24 * target.lanes * {"f32": 1, "bf16": 2, "u8": 4}[kind]


def floor(dtype: str) -> Callable[[], float]:
    """Gives the multiply-adds a second of ``products``."""
    run, count = products(dtype)

    def timed() -> float:
        start = time.thread_time()
        run()
        return count / (time.thread_time() - start)

    return timed


def native(dtype: str) -> bool:
    """Whether this CPU has the format's dot products."""
    feature = {"f32": "sse2", "bf16": "avx512bf16", "int8": "avx512vnni"}[dtype]
    return has(feature) and (dtype == "f32" or active_isa() == "avx512")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", list(SHAPES))
def test_engine(benchmark: Any, shape: str, dtype: str) -> None:
    benchmark.group = f"inference, {shape}"
    if benchmark.disabled and dtype == "int8" and shape != next(iter(SHAPES)):
        pytest.skip("ten seconds to compile: one shape is enough where nothing is timed")
    run = engine(shape, dtype)
    assert len(benchmark.pedantic(run, rounds=3)) == ROWS
    done(benchmark, ROWS, "rows")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", list(SHAPES))
def test_floor(benchmark: Any, shape: str, dtype: str) -> None:
    """The same number of multiply-adds in registers alone."""
    if not native(dtype):
        pytest.skip(f"this CPU has no {dtype} products")
    benchmark.group = f"inference, {shape}"
    run, count = products(dtype)
    benchmark.pedantic(run, rounds=3, warmup_rounds=1)
    done(benchmark, round(count / multiplications(shape)), "rows")


def peer(benchmark: Any, shape: str, make: Any, dtype: str) -> None:
    """As many rows as the engine's, in sequences that start anew."""
    from infer_peers import STEPS

    benchmark.group = f"inference, {shape}"
    card, tensors = build(shape)
    run = make(card.spec, tensors, dtype, PEER_BATCH)
    times = ROWS // (STEPS * PEER_BATCH)
    assert run().shape[:2] == (STEPS, PEER_BATCH)
    benchmark.pedantic(lambda: [run() for _ in range(times)], rounds=3)
    done(benchmark, times * STEPS * PEER_BATCH, "rows")


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("shape", list(SHAPES))
def test_peer_torch(benchmark: Any, shape: str, dtype: str) -> None:
    pytest.importorskip("torch")
    from infer_peers import torch_model

    peer(benchmark, shape, torch_model, dtype)


@pytest.mark.parametrize("dtype", ["f32", "int8"])
@pytest.mark.parametrize("shape", list(SHAPES))
def test_peer_onnxruntime(benchmark: Any, shape: str, dtype: str) -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from infer_peers import onnx_model

    peer(benchmark, shape, onnx_model, dtype)


def compare(rounds: int, shapes: list[str], threads: bool) -> dict[str, Any]:
    """Rows a second of everything, interleaved: rounds of one short run each."""
    from infer_peers import STEPS, onnx_model, torch_model

    report: dict[str, Any] = {"isa": active_isa(), "clock": "thread CPU time", "shapes": {}}
    peaks = {d: [floor(d)() for _ in range(5)] for d in DTYPES if native(d)}
    report["peak_gmac_s"] = {d: round(max(v) / 1e9, 1) for d, v in peaks.items()}
    for shape in shapes:
        runs: dict[str, tuple[Callable[[], Array], int]] = {}
        for dtype in DTYPES:
            runs[f"tracekit {dtype}"] = engine(shape, dtype), ROWS
        card, tensors = build(shape)
        for make, name, dtypes in (
            (torch_model, "torch", ("f32", "bf16")),
            (onnx_model, "onnxruntime", ("f32", "int8")),
        ):
            for dtype in dtypes:
                for batch in BATCHES:
                    run = make(card.spec, tensors, dtype, batch)
                    assert np.isfinite(run()).all()
                    runs[f"{name} {dtype} x{batch}"] = run, STEPS * batch
        rates: dict[str, list[float]] = {key: [] for key in runs}
        for run, _ in runs.values():
            run()
        for _ in range(rounds):
            for key, (run, rows) in runs.items():
                repeat = max(1, ROWS // rows // 4)
                start = time.thread_time()
                for _ in range(repeat):
                    run()
                rates[key].append(repeat * rows / (time.thread_time() - start))
        median = {key: statistics.median(v) for key, v in rates.items()}
        best: dict[str, float] = {}
        for key, rate in median.items():
            kind = key.split(" x")[0]
            best[kind] = max(best.get(kind, 0), rate)
        size = multiplications(shape)
        steps = 1 + WARMUP / CHUNK
        ratios = {
            "f32 / best peer f32": best["tracekit f32"]
            / max(best["torch f32"], best["onnxruntime f32"]),
            "bf16 / torch bf16": best["tracekit bf16"] / best["torch bf16"],
            "int8 / onnxruntime int8": best["tracekit int8"] / best["onnxruntime int8"],
            "int8 / torch f32": best["tracekit int8"] / best["torch f32"],
            "f32 / torch f32 with a window of 256 for each row": 256
            * best["tracekit f32"]
            / best["torch f32"],
        }
        shares = {d: best[f"tracekit {d}"] * size * steps / max(peaks[d]) for d in peaks}
        report["shapes"][shape] = {
            "thousand_rows_s": {k: round(v / 1e3, 1) for k, v in best.items()},
            "ratios": {k: round(v, 2) for k, v in ratios.items()},
            "ratios_by_steps": {k: round(v * steps, 2) for k, v in ratios.items()},
            "share_of_peak": {k: round(v, 2) for k, v in shares.items()},
        }
        if threads:
            report["shapes"][shape].update(scaling(shape, rounds))
    return report


FIRST_CALL = """
import sys, time
wall, cpu = time.perf_counter(), time.process_time()
import bench_infer as bench
from tracekit.infer import load
load(sys.argv[1], sys.argv[2], threads=1).predict(bench.features(51)[:2048])
print(time.perf_counter() - wall, time.process_time() - cpu)
"""


def first_call() -> dict[str, list[float]]:
    """Seconds to the first prediction of PerfVec's shape in a fresh process with nothing compiled
    before: imports, loading the folder and compiling, by the wall clock and in CPU time."""
    out = {}
    card, tensors = build("perfvec")
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        save_model(model, card, tensors, {"input": features(51)[:1]})
        quantize(model, features(51)[:2048], raw=True)
        for dtype in DTYPES:
            here = os.pathsep.join([str(Path(__file__).parent), *sys.path])
            environment = {**os.environ, "PYTHONPATH": here}
            environment["NUMBA_CACHE_DIR"] = str(Path(folder) / dtype)
            command = [sys.executable, "-c", FIRST_CALL, str(model), dtype]
            found = subprocess.run(
                command, env=environment, check=True, capture_output=True, text=True
            ).stdout
            out[dtype] = [round(float(v), 2) for v in found.split()]
    return out


def scaling(shape: str, rounds: int) -> dict[str, float]:
    """Two threads against one in float32: by the wall clock, and what they cost in CPU time.

    The wall clock means something only where two cores are idle; CPU time shows what the threads
    add to the work (1 = nothing), and holds on a busy machine too.
    """
    both = {n: engine(shape, "f32", n) for n in (1, 2)}
    wall: dict[int, list[float]] = {1: [], 2: []}
    work: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(rounds):
        for n, run in both.items():
            start, spent = time.perf_counter(), time.process_time()
            run()
            wall[n].append(time.perf_counter() - start)
            work[n].append(time.process_time() - spent)
    return {
        "two threads / one, wall clock": round(
            statistics.median(wall[1]) / statistics.median(wall[2]), 2
        ),
        "CPU time of two threads / one": round(
            statistics.median(work[2]) / statistics.median(work[1]), 2
        ),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--shape", choices=list(SHAPES), action="append")
    parser.add_argument("--cpu", type=int, help="pin to this CPU")
    parser.add_argument("--threads", action="store_true", help="also two threads against one")
    parser.add_argument("--first-call", action="store_true", help="nothing but the first call")
    args = parser.parse_args()
    if args.cpu is not None:
        os.sched_setaffinity(0, {args.cpu})
    if args.first_call:
        print(json.dumps({"seconds to the first prediction [wall, CPU]": first_call()}))
        return 0
    report = compare(args.rounds, args.shape or list(SHAPES), args.threads)
    if args.json:
        print(json.dumps(report, indent=1))
        return 0
    print(f"{report['isa']}, floor {report['peak_gmac_s']} G multiply-adds/s")
    for shape, part in report["shapes"].items():
        print(shape)
        for name, values in part.items():
            print(f"  {name}: {values}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
