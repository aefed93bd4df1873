"""``tracekit quantize``: int8 weights for a model, calibrated on traces; and what they change."""

from __future__ import annotations

import argparse
import json
from typing import Any


def add_parser(sub: Any, help_text: str) -> None:
    p = sub.add_parser("quantize", help=help_text, description=__doc__)
    p.add_argument("model", help="a model folder; int8.safetensors is written into it")
    p.add_argument("files", nargs="+", metavar="FEATS", help="feats.zst files to calibrate on")
    p.add_argument(
        "--rows", type=int, default=100_000, help="rows of each file that are read (default 100000)"
    )
    p.add_argument("--raw", action="store_true", help="quantise inputs that are raw features too")
    p.add_argument("--json", action="store_true", help="as JSON (docs/json.md)")
    p.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    # imported late: the other commands need no Numba
    import numpy as np

    import tracekit
    from tracekit.errors import UsageError
    from tracekit.infer import quantize
    from tracekit.infer.accuracy import accuracy
    from tracekit.model import load_card

    if args.rows < 1:
        raise UsageError(f"--rows is {args.rows}; at least 1")
    card = load_card(args.model)
    blocks, targets = [], []
    for path in args.files:
        with tracekit.open(path) as trace:
            rows = (0, min(args.rows, len(trace)))
            blocks.append(trace.features(card.feature_set, rows))
            targets.append(_truth(trace, card, rows))
    quantize(args.model, np.concatenate(blocks), raw=args.raw)
    report = {
        "model": args.model,
        "rows": sum(map(len, blocks)),
        "formats": accuracy(args.model, blocks, targets),
    }
    if args.json:
        print(json.dumps(report, indent=1))
        return 0
    for row in report["formats"]:
        print(
            ", ".join(
                f"{k} {v:.5g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()
            )
        )
    return 0


def _truth(trace: Any, card: Any, rows: tuple[int, int]) -> Any:
    """Cycles of the rows on the model's first machine: joined ones, else the trace's own; None
    where there are none."""
    from tracekit.dataset import Dataset

    names = [m.get("name") for m in card.microarchitectures]
    if "targets" in trace.index and names:
        with Dataset(trace.path) as data:
            if names[0] in data.machines and rows[1] <= len(data):
                return data.cycles(rows)[:, data.column_of(names[0])]
    return trace.targets("cycles", rows) if trace.timed else None
