"""How far the time of each class of rows is from a machine's in the core with the machine's own
parameters: what the search for cores of an unknown machine (tracekit/calibration/search.py)
forgives.

    python bench/class_residuals.py MANIFEST u000 u004 … \\
        -o tracekit/calibration/class_residuals.json

Medians over all programs and the machines that are named, of the first rows of each.  Run it again
when the cores' times change.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from tracekit.calibration.row_classes import CLASSES, RESIDUAL_ROWS, first_rows, log_shares
from tracekit.dataset import load_manifest

#: Rows that a class must have in a program to count; programs that a class must be in.
LEAST_ROWS, LEAST_PROGRAMS = 100, 2
#: A bias of few programs is taken in part, and none is taken to be surer than this.
TAKEN, SUREST, UNKNOWN = 0.7, 0.06, 0.3


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("manifest")
    p.add_argument("machines", nargs="+")
    p.add_argument("-o", "--output", type=Path, required=True)
    args = p.parse_args()
    manifest = load_manifest(args.manifest)
    cores = [{**manifest.machines[m], "name": m} for m in args.machines]
    gaps, counts = [], []
    for program in manifest.programs:
        with program.open() as d:
            kept, rows = first_rows(d.trace, RESIDUAL_ROWS)
            x = kept.totals(cores)[1]
            cycles = d.cycles()
            columns = [cycles[:, d.column_of(m)].astype(float) for m in args.machines]
        y = np.stack([kept.sums(c)[1] for c in columns], axis=1)
        total = np.array([c[: len(kept)].sum() for c in columns])
        gaps.append(log_shares(x, total) - log_shares(y, total))
        counts.append(rows)
    bias, spread = [0.0] * CLASSES, [UNKNOWN] * CLASSES
    for k in range(CLASSES):
        told = [g[k] for g, n in zip(gaps, counts, strict=True) if n[k] >= LEAST_ROWS]
        if len(told) >= LEAST_PROGRAMS:
            gap = np.concatenate(told)
            middle = float(np.median(gap))
            bias[k] = round(TAKEN * middle, 3)
            spread[k] = round(max(SUREST, 1.48 * float(np.median(np.abs(gap - middle)))), 3)
    found = {"rows": RESIDUAL_ROWS, "machines": args.machines, "bias": bias, "spread": spread}
    args.output.write_text(json.dumps(found) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
