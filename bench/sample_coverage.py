"""How often the interval of ``tracekit predict`` holds the figure of the whole program.

    python bench/sample_coverage.py FULL.tks… [--epochs 6 12] [--samplings 20] [--share 0.05]

``FULL.tks``: recordings made with ``tracekit record --full``, or their features.  The truth is a
walk through all of it, of which the first tenth does not count; each sampling takes one epoch at a
random place of each of as many equal parts.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tracekit.mixture import load_model
from tracekit.mixture.model import Mixture
from tracekit.prediction.live import features_of, is_recording
from tracekit.prediction.sampling import estimate, walk_epochs
from tracekit.sim import totals
from tracekit.store.reader import TraceFile


def coverage(
    model: Mixture, trace: TraceFile, counts: list[int], samplings: int, share: float
) -> list[dict[str, Any]]:
    """For each number of epochs: shares of the samplings by machine, and means over all."""
    n = len(trace)
    first = n // 10
    truth = model.cycles(totals(trace, model.cores, [0, first, n]))[1] / (n - first)
    out = []
    for epochs in counts:
        length = int((n - first) * share / epochs)
        rng = np.random.default_rng(7)
        edges = np.linspace(first, n - length, epochs + 1)
        cpi, half = [], []
        for _ in range(samplings):
            at = (edges[:-1] + rng.random(epochs) * np.diff(edges)).astype(int)
            found = walk_epochs(model, trace, [(int(a), int(a) + length) for a in at])
            e = estimate(model, found, even_in_time=False)
            cpi.append(e.cpi)
            half.append(e.half)
        held = np.abs(np.array(cpi) - truth) <= np.array(half)
        error = np.array(cpi) / truth - 1
        out.append(
            {
                "instructions": n,
                "epochs": epochs,
                "length": length,
                "held": float(held.mean()),
                "half_width": float((np.array(half) / np.array(cpi)).mean()),
                "error": float(np.abs(error).mean()),
                "bias": float(error.mean()),
                "machines": dict(zip(model.names, held.mean(axis=0).tolist(), strict=True)),
            }
        )
    return out


def table(results: dict[str, list[dict[str, Any]]]) -> str:
    """A line a program and number of epochs; ``least``: the machine that is held least often."""
    lines = [
        f"{'program':<16}{'instructions':>13}{'epochs':>16}{'held':>8}{'least':>14}"
        f"{'half width':>12}{'error':>8}{'bias':>8}"
    ]
    for name, rows in results.items():
        for r in rows:
            worst = min(r["machines"], key=r["machines"].get)
            lines.append(
                f"{name:<16}{r['instructions']:>13,}{r['epochs']:>6} x {r['length']:>7,}"
                f"{r['held']:>8.1%}{worst:>8} {r['machines'][worst]:>5.0%}"
                f"{r['half_width']:>12.1%}{r['error']:>8.1%}{r['bias']:>+8.1%}"
            )
    return "\n".join(lines)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("recordings", nargs="+")
    p.add_argument("--epochs", type=int, nargs="+", default=[6])
    p.add_argument("--samplings", type=int, default=20)
    p.add_argument("--share", type=float, default=0.05, help="of the instructions (0.05)")
    p.add_argument("--json", type=Path, help="by program, number of epochs and machine")
    args = p.parse_args()
    model = load_model(arch="x86")
    results: dict[str, list[dict[str, Any]]] = {}
    for path in args.recordings:
        with tempfile.TemporaryDirectory() as folder:
            features = Path(path)
            if is_recording(path):
                features = Path(folder) / "full.zst"
                features_of(path, features)
            with TraceFile(features) as trace:
                name = Path(path).stem
                results[name] = coverage(model, trace, args.epochs, args.samplings, args.share)
        sys.stderr.write(table({name: results[name]}).splitlines()[-1] + "\n")
        if args.json:
            args.json.write_text(json.dumps(results, indent=1) + "\n")
    print(table(results))


if __name__ == "__main__":
    main()
