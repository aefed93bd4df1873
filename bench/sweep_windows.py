"""The paper's window L and target T, which it does not give: one short training for each pair, the
same rows through the network and the same number of updates, judged on validation blocks alone.

``PYTHONPATH=. python bench/sweep_windows.py manifest.json -o results.jsonl --cache cache/`` prints
the table of docs/neuroscalar.md.  Results are kept as they come; the same command goes on.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tracekit.dataset import load_manifest
from tracekit.dataset.manifest import Manifest
from tracekit.neuroscalar.evaluation import evaluate
from tracekit.neuroscalar.model import CycleModel
from tracekit.train.neuroscalar import train_neuroscalar
from tracekit.train.neuroscalar_options import Options

BURN_INS = (0, 16, 32, 64, 128)  # with T = MIDDLE
TARGETS = (32, 256, 512)  # behind a burn-in of 32
AROUND = ((128, 32), (128, 128))  # T and L - T, half of it on each side
MIDDLE, ROWS = 128, 9216  # rows of a batch


def cases() -> list[tuple[int, int, bool]]:
    """(L, T, bidirectional) of each training."""
    out = [(MIDDLE + b, MIDDLE, False) for b in BURN_INS]
    out += [(t + 32, t, False) for t in TARGETS]
    return out + [(t + more, t, True) for t, more in AROUND]


def one(manifest: Manifest, args: Any, case: tuple[int, int, bool], seed: int) -> dict[str, Any]:
    """Train and judge one pair: means over programs."""
    window, target, both = case
    options = Options(
        preset="paper",
        machines=(args.machine,),
        steps=args.steps,
        batch=max(1, round(ROWS / window)),
        window=window,
        target=target,
        width=args.width,
        bidirectional=both,
        check=max(1, args.steps // 3),
        seed=seed,
        threads=args.threads,
    )
    cache = Path(args.cache)
    with tempfile.TemporaryDirectory() as folder:
        train_neuroscalar(manifest, Path(folder) / "m", options, cache=cache)
        model = CycleModel(Path(folder) / "m", device="cpu", dtype="f32", threads=args.threads)
        found = evaluate([model], manifest, "validation", cache)
    scores = found["machines"][args.machine]
    own = scores["model"]["mean_of_programs"]
    return {
        "window": window,
        "target": target,
        "bidirectional": both,
        "seed": seed,
        "mae": own["mae"],
        "acc_round": own["acc_round"],
        "zero_mae": scores["always 0"]["mean_of_programs"]["mae"],
        "zero_acc": scores["always 0"]["mean_of_programs"]["acc_round"],
    }


def table(rows: list[dict[str, Any]]) -> str:
    """Means and ranges over seeds, in Markdown."""
    out = ["| L | T | direction | MAE | Acc(round) |", "|---|---|---|---|---|"]
    for case in cases():
        own = [r for r in rows if (r["window"], r["target"], r["bidirectional"]) == case]
        if own:
            mae, acc = (np.array([r[k] for r in own]) for k in ("mae", "acc_round"))
            out.append(
                f"| {case[0]} | {case[1]} | {'both' if case[2] else 'forward'} | {mae.mean():.4f} "
                f"({mae.min():.4f} to {mae.max():.4f}) | {acc.mean():.4f} |"
            )
    if rows:
        out.append(f"| | | always 0 | {rows[0]['zero_mae']:.4f} | {rows[0]['zero_acc']:.4f} |")
    return "\n".join(out)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("manifest")
    parser.add_argument("-o", "--output", required=True, help="JSON lines, one a training")
    parser.add_argument("--cache", required=True, help="folder of the programs' arrays")
    parser.add_argument("--machine", default="ns_8w")
    parser.add_argument("--steps", type=int, default=434, help=f"batches of {ROWS} rows")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    place = Path(args.output)
    lines = place.read_text().splitlines() if place.exists() else []
    rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
    done = {(r["window"], r["target"], r["bidirectional"], r["seed"]) for r in rows}
    manifest = load_manifest(args.manifest)
    for seed in range(args.seeds):
        for case in cases():
            if (*case, seed) not in done:
                rows.append(one(manifest, args, case, seed))
                with place.open("a") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
                print(rows[-1], file=sys.stderr, flush=True)
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
