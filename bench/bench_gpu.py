"""NeuroScalar's network on a GPU, end to end: from a feats.zst on disk to every row's cycles.

``PYTHONPATH=.:tests:bench python bench/bench_gpu.py [--rows 50000000] [--dtype f16]`` prints rows a
second, reading, copying and all included, and those of the parts alone: reading the file, and the
network on rows that are in memory.  Beside them are the same network as one writes it with torch
alone, on the same rows in memory (no chunk is warmed up, nothing overlaps), and the floor: the
network's multiplications as products of large matrices.  The network has random weights and
features standardised as training does.  The file is the shipped sample again and again, read anew
until there are enough rows.  Without a GPU it says so and ends; ``--device cpu --rows 20000`` tries
the code.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from bench_infer import random_weights
from numpy.typing import NDArray
from repeat_trace import feats

import tracekit
from tracekit.model import Card, ModelSpec
from tracekit.neuroscalar.presets import paper_spec

Array = NDArray[Any]
FILE_ROWS, BLOCK = 2_000_000, 1 << 18
PEER_CHUNKS, PEER_STEPS = 3072, 512
KINDS = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}
FLOOR_ROWS, FLOOR_ROUNDS = 1 << 20, 20


def blocks(path: Path, rows: int) -> Iterator[Array]:
    """So many rows of the file's features, from its start again where it ends."""
    left = rows
    while left > 0:
        with tracekit.open(path) as trace:
            for begin in range(0, len(trace), BLOCK):
                count = min(BLOCK, len(trace) - begin, left)
                if count > 0:
                    yield trace.features("neuroscalar", (begin, begin + count))
                left -= count


def network(sample: Array) -> tuple[Card, dict[str, Array]]:
    """The paper's network for features like these, with weights of torch's initial range."""
    mean, std = sample.mean(0, np.float64), sample.std(0, dtype=np.float64)
    spec = paper_spec(mean, np.where(std > 0, std, 1))
    card = Card(
        "bench", spec, tuple(e.column for e in spec.inputs), microarchitectures=[{"name": "a"}]
    )
    return card, random_weights(spec)


def plain_torch(
    spec: ModelSpec, tensors: Mapping[str, Array], device: str, dtype: str
) -> Callable[[Array], Array]:
    """The network by torch's own modules: cycles of the rows given."""
    import torch

    kind = getattr(torch, KINDS[dtype])
    weights = {n: torch.from_numpy(v).to(device, kind) for n, v in tensors.items()}
    rnn = torch.nn.LSTM(256, 256, 2, batch_first=True)
    rnn.load_state_dict({n[4:]: v for n, v in weights.items() if n.startswith("rnn.")})
    rnn.to(device, kind)
    mean = torch.tensor([e.mean for e in spec.inputs], device=device)
    std = torch.tensor([e.std for e in spec.inputs], device=device)
    head = spec.heads[0]

    def linear(name: str, v: Any) -> Any:
        return torch.nn.functional.linear(v, weights[f"{name}.weight"], weights[f"{name}.bias"])

    def run(rows: Array) -> Array:
        chunks = max(1, min(PEER_CHUNKS, len(rows) // PEER_STEPS))
        x = torch.from_numpy(rows[: len(rows) // chunks * chunks]).to(device)
        x = ((x - mean) / std).to(kind).view(chunks, -1, x.shape[1])
        found, state = [], None
        for part in x.split(PEER_STEPS, 1):
            r, state = rnn(linear("input_proj", part), state)
            logits = linear(head.classifier[1], torch.relu(linear(head.classifier[0], r)))
            long = logits[..., 1:] > logits[..., :1]
            cycles = torch.where(long, linear(head.long, r), linear(head.short, r)).float()
            found.append(torch.expm1(cycles).clamp(0, head.cap))
        return np.asarray(torch.cat(found, 1).cpu().numpy().ravel())

    def without_gradients(rows: Array) -> Array:
        with torch.inference_mode():
            return run(rows)

    return without_gradients


def floor(tensors: Mapping[str, Array], device: str, dtype: str, rows: int) -> float:
    """Rows/s of the network's multiplications as products of matrices of ``rows`` rows."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32  # as in the LSTM
    kind = getattr(torch, KINDS[dtype])
    weights = [torch.from_numpy(v).to(device, kind) for v in tensors.values() if v.ndim == 2]
    inputs = [torch.rand(rows, w.shape[1], device=device, dtype=kind) for w in weights]
    outputs = [torch.empty(rows, w.shape[0], device=device, dtype=kind) for w in weights]

    def once() -> None:
        for x, w, y in zip(inputs, weights, outputs, strict=True):
            torch.mm(x, w.t(), out=y)

    def wait() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    once()
    wait()
    start = time.perf_counter()
    for _ in range(FLOOR_ROUNDS):
        once()
    wait()
    return rows * FLOOR_ROUNDS / (time.perf_counter() - start)


def batches(read: list[Array], rows: int) -> Iterator[Array]:
    """The blocks in batches of at least so many rows."""
    held: list[Array] = []
    for block in read:
        held.append(block)
        if sum(map(len, held)) >= rows:
            yield np.concatenate(held)
            held = []
    if held:
        yield np.concatenate(held)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=50_000_000)
    parser.add_argument("--dtype", choices=("f16", "bf16", "f32"), default="f16")
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    import torch

    from tracekit.infer_torch.engine import TorchEngine

    gpu = args.device == "cuda"
    if gpu and not torch.cuda.is_available():
        print("no GPU that torch can use: nothing measured")
        return 0
    dtype = args.dtype if gpu else "f32"
    report: dict[str, Any] = {"device": args.device, "dtype": dtype, "rows": args.rows}
    if gpu:
        report["device"] = torch.cuda.get_device_name()

    def timed(title: str, found: Iterable[Array]) -> None:
        start, total = time.perf_counter(), 0.0
        count = 0
        for values in found:
            count += len(values)
            total += float(values.sum(dtype=np.float64))
        report[title] = round(count / (time.perf_counter() - start))
        assert count > args.rows * 0.99 and np.isfinite(total)

    with tempfile.TemporaryDirectory() as folder:
        path = feats(Path(folder), min(args.rows, FILE_ROWS))
        start = time.perf_counter()
        read = list(blocks(path, args.rows))
        report["read alone, rows/s"] = round(args.rows / (time.perf_counter() - start))
        card, tensors = network(read[0])
        engine = TorchEngine(card, tensors, args.device, dtype)
        peer = plain_torch(card.spec, tensors, args.device, dtype)

        def fed(source: Iterator[Array]) -> Iterator[Array]:
            return (found["cycles"] for found in engine.feed(source, ["cycles"]))

        timed("first pass, rows/s", fed(iter(read)))
        together = list(batches(read, PEER_CHUNKS * 2048))
        timed("torch alone, first pass, rows/s", map(peer, together))
        timed("rows in memory, rows/s", fed(iter(read)))
        timed("torch alone, rows in memory, rows/s", map(peer, together))
        timed("end to end, rows/s", fed(blocks(path, args.rows)))
    rows = FLOOR_ROWS if gpu else 4096
    report["floor, rows/s"] = round(floor(tensors, args.device, dtype, rows))
    print(json.dumps(report, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
