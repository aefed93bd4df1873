"""After how many samples the distinct epochs stand for 90 % of a program's time.

    python bench/distinct_epochs.py FEATS.zst… [--length 10000] [--plot FILE.svg] [--json]

``FEATS.zst``: features of whole programs.  Epochs of ``--length`` instructions are taken at random
places, as an agent takes them at random moments; one is known where an earlier one is like it
(tracekit agent's sketch, distance at most ``--distance``).  What is covered is the share of all
epochs of the program, at a grid of places, that are like one of those taken.  Means over
``--orders`` orders.  ``exact``: the same where only equal signatures, the paper's hash of the pcs,
are alike.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import tracekit
from tracekit.agent.epoch import SKETCH, placed_sketch, sequence_hash

COVERED = 0.9


def epochs_of(path: str, length: int, grid: int, step: int) -> tuple[np.ndarray, list[str]]:
    """float64 [epochs, SKETCH] shares at ``grid`` or fewer places, multiples of ``step``, and the
    signatures."""
    with tracekit.open(path) as trace:
        pcs = trace.column("pc", (0, len(trace)))
    last = len(pcs) - length
    at = np.unique(np.linspace(0, max(last, 0), grid).astype(int) // step * step)
    parts = [pcs[a : a + length] for a in at.tolist()]
    sketches = np.stack([np.frombuffer(placed_sketch(p), "<u2") for p in parts]) / 65_535
    assert sketches.shape[1] == SKETCH
    return sketches, [sequence_hash(p) for p in parts]


def curve(alike: np.ndarray, orders: int, seed: int) -> np.ndarray:
    """float64 [samples]: the share that is covered after each sample; ``alike`` bool
    [epochs, epochs]."""
    rng = np.random.default_rng(seed)
    n = len(alike)
    out = np.zeros(n)
    for _ in range(orders):
        order = rng.integers(0, n, n)  # a place may come again
        out += np.logical_or.accumulate(alike[order], axis=0).mean(axis=1)
    return out / orders


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("files", nargs="+")
    p.add_argument("--length", type=int, default=10_000)
    p.add_argument("--distance", type=float, default=0.1)
    p.add_argument("--grid", type=int, default=400, help="places (400)")
    p.add_argument("--orders", type=int, default=50)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--plot", metavar="FILE")
    p.add_argument("--json", action="store_true")
    args = p.parse_args()
    rows: list[dict[str, Any]] = []
    for path in args.files:
        sketches, signatures = epochs_of(path, args.length, args.grid, 1)
        away = np.abs(sketches[:, None] - sketches[None]).sum(axis=2) / 2
        names = np.array(signatures)
        found = curve(away <= args.distance, args.orders, args.seed)
        exact = curve(names[:, None] == names[None], args.orders, args.seed)
        rows.append(
            {"program": Path(path).name.split(".")[0], "places": len(names),
             "samples": _reached(found), "exact": _reached(exact), "curve": found.tolist()}
        )  # fmt: skip
    if args.plot:
        _plot(rows, args.plot)
    if args.json:
        print(json.dumps(rows, indent=1))
        return 0
    for r in sorted(rows, key=lambda r: r["samples"] or 1 << 30):
        print(
            f"{r['program']:<16}{r['samples'] or 'more':>6} samples, exact {r['exact'] or 'more'}"
        )
    known = [r["samples"] for r in rows if r["samples"]]
    middle = int(np.median(known))
    print(f"{len(known)} of {len(rows)} programs reach {COVERED:.0%}, after {middle} (median)")
    return 0


def _reached(values: np.ndarray) -> int | None:
    above = np.flatnonzero(values >= COVERED)
    return int(above[0]) + 1 if len(above) else None


def _plot(rows: list[dict[str, Any]], path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4))
    for r in rows:
        axes.plot(np.arange(1, len(r["curve"]) + 1), r["curve"], label=r["program"], linewidth=1)
    axes.axhline(COVERED, color="grey", linewidth=0.5)
    axes.set(
        xscale="log", xlabel="samples", ylabel="share of the time that is covered", ylim=(0, 1)
    )
    if len(rows) <= 12:
        axes.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path)


if __name__ == "__main__":
    sys.exit(main())
