"""How often the interval of ``tracekit predict`` holds the figure of the whole program.

    python bench/sample_coverage.py FULL.tks… [--epochs 6] [--samplings 20] [--share 0.05]

``FULL.tks``: recordings made with ``tracekit record --full``.  The truth is a walk through all of
it, of which the first tenth does not count; each sampling takes one epoch at a random place of each
of as many equal parts.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

from tracekit.perfvec import load_model
from tracekit.perfvec.live import features_of
from tracekit.perfvec.sample import estimate, walk_epochs
from tracekit.reference import totals
from tracekit.store.reader import TraceFile


def coverage(path: str, epochs: int, samplings: int, share: float) -> None:
    model = load_model(arch="x86")
    with tempfile.TemporaryDirectory() as folder:
        features = Path(folder) / "full.zst"
        features_of(path, features)
        with TraceFile(features) as trace:
            n = len(trace)
            first = n // 10
            truth = model.cycles(totals(trace, model.cores, [0, first, n]))[1] / (n - first)
            length = int((n - first) * share / epochs)
            rng = np.random.default_rng(7)
            held, width, error = [], [], []
            for _ in range(samplings):
                edges = np.linspace(first, n - length, epochs + 1)
                at = (edges[:-1] + rng.random(epochs) * np.diff(edges)).astype(int)
                ranges = [(int(a), int(a) + length) for a in at]
                found = walk_epochs(model, trace, ranges)
                e = estimate(model, found, even_in_time=False)
                held.append(np.abs(e.cpi - truth) <= e.half)
                width.append(e.half / e.cpi)
                error.append(e.cpi / truth - 1)
    print(
        f"{path}: {n:,} instructions, {epochs} epochs of {length:,}: held {np.mean(held):.1%}, "
        f"half width {np.mean(width):.1%}, error {np.abs(error).mean():.1%}, "
        f"bias {np.mean(error):+.1%}",
        flush=True,
    )


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("recordings", nargs="+")
    p.add_argument("--epochs", type=int, default=6)
    p.add_argument("--samplings", type=int, default=20)
    p.add_argument("--share", type=float, default=0.05)
    args = p.parse_args()
    for path in args.recordings:
        coverage(path, args.epochs, args.samplings, args.share)


if __name__ == "__main__":
    main()
