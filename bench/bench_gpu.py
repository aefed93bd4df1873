"""NeuroScalar's shape on a GPU, end to end: from a feats.zst on disk to every instruction's cycles.

``PYTHONPATH=.:tests:bench python bench/bench_gpu.py [--rows 50000000] [--dtype f16]`` prints rows a
second, reading, copying and all included (a row is what the model takes for an instruction), and
those of the parts alone: reading the file, and the network on rows that are in memory.  The file is
the shipped sample again and again, read anew until there are enough rows.  Without a GPU it says
so and ends; ``--device cpu --rows 20000`` tries the code.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from bench_infer import build
from numpy.typing import NDArray
from repeat_trace import feats

import tracekit

FILE_ROWS, BLOCK = 2_000_000, 1 << 18


def blocks(path: Path, rows: int) -> Iterator[NDArray[Any]]:
    """So many rows of the file's features, from its start again where it ends."""
    left = rows
    while left > 0:
        with tracekit.open(path) as trace:
            for begin in range(0, len(trace), BLOCK):
                count = min(BLOCK, len(trace) - begin, left)
                if count > 0:
                    yield trace.features("neuroscalar", (begin, begin + count))
                left -= count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=50_000_000)
    parser.add_argument("--dtype", choices=("f16", "bf16", "f32"), default="f16")
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    import torch

    from tracekit.infer_torch.engine import TorchEngine

    if args.device == "cuda" and not torch.cuda.is_available():
        print("no GPU that torch can use: nothing measured")
        return 0
    card, tensors = build("neuroscalar")
    dtype = args.dtype if args.device == "cuda" else "f32"
    engine = TorchEngine(card, tensors, args.device, dtype)
    report: dict[str, Any] = {"device": args.device, "dtype": dtype, "rows": args.rows}
    if args.device == "cuda":
        report["device"] = torch.cuda.get_device_name()
    with tempfile.TemporaryDirectory() as folder:
        path = feats(Path(folder), min(args.rows, FILE_ROWS))
        start = time.perf_counter()
        read = list(blocks(path, args.rows))
        report["read alone, rows/s"] = round(args.rows / (time.perf_counter() - start))
        for title, source in (
            ("first pass, rows/s", iter(read)),
            ("rows in memory, rows/s", iter(read)),
            ("end to end, rows/s", blocks(path, args.rows)),
        ):
            start, count, total = time.perf_counter(), 0, 0.0
            for found in engine.feed(source, ["cycles"]):
                count += len(found["cycles"])
                total += float(found["cycles"].sum(dtype=np.float64))
            report[title] = round(args.rows / (time.perf_counter() - start))
            assert count == args.rows and np.isfinite(total)
    print(json.dumps(report, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
