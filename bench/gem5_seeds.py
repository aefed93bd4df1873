"""What gem5 itself does not settle: how far its cycles move when its random numbers are others.

    python bench/gem5_seeds.py WORK --gem5 gem5.opt      # a quarter of an hour on one processor

gem5 draws a random number in each cycle of its O3 CPU's fetch (src/cpu/o3/fetch.cc), and its larger
predictors take some of the same sequence to place what they learn.  A cycle more or less anywhere
gives them other numbers.  Each X86 kernel of bench/hardware, whole, runs with several seeds on each
machine; a line tells by how much the cycles of a pair spread.  Programs, machines and seeds were
written before anything was run.  Run again, it goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from whole_gem5_run import whole_run
from whole_program_list import compiled

from tracekit.mixture import load_model

#: Name -> file of kernels, kernel, rounds and size.
PROGRAMS = {
    "queens": ("search", "queens", "6", "8"),
    "quick": ("sort", "quick", "1", "4000"),
    "shell": ("sort", "shell", "1", "2000"),
    "heap": ("sort", "heap", "1", "3000"),
    "library": ("sort", "library", "1", "3000"),
}
MACHINES = ("o3_small", "ns_8w", "u003", "u005", "u007", "u011", "u013")
SEEDS = (5489, 1, 2, 3, 4)


def gem5_cycles(gem5: str, name: str, machine: str, seed: int, work: Path) -> float:
    """Of one program on one machine, from its first instruction to its last."""
    out = work / f"{name}.{machine}.{seed}.json"
    if not out.exists():
        file, *arguments = PROGRAMS[name]
        command = [str(compiled(file, "gcc", work)), *arguments]
        out.write_text(json.dumps(whole_run(gem5, command, machine, work, seed=seed)))
    return float(json.loads(out.read_text())["cycles"])


def main() -> int:
    """Runs what is missing and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("--gem5", required=True)
    args = parser.parse_args()
    work = args.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    predictors = {m["name"]: m["bp"] for m in load_model(None, "x86").cores}
    print("| machine | predictor | " + " | ".join(PROGRAMS) + " |")
    print("|---" * (2 + len(PROGRAMS)) + "|")
    for machine in MACHINES:
        cells = []
        for name in PROGRAMS:
            found = np.array([gem5_cycles(args.gem5, name, machine, s, work) for s in SEEDS])
            cells.append(f"{found.max() / found.min() - 1:.2%}")
        print(f"| {machine} | {predictors[machine]} | {' | '.join(cells)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
