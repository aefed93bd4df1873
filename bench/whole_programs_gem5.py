"""Whole programs in gem5 itself, against walks and samples of the same programs recorded here.

    python bench/whole_programs_gem5.py WORK run --gem5 gem5.opt   # hours; one after another
    python bench/whole_programs_gem5.py WORK predict               # recorded, walked, sampled
    python bench/whole_programs_gem5.py WORK report [--keep]

WORK has what was made: run again, a command goes on where it was stopped.  Programs are kernels of
bench/hardware, static, of 50 million instructions and more, which use more memory than the second
caches have; gem5 runs them from their first instruction to their last.  They are recorded under
QEMU on a processor with SSE2 alone, as gem5's is.  Programs, machines and the seed were written
before anything was run.  ``--keep`` writes gem5's cycles to a file; where WORK has none of a run,
``report`` takes them from there.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from whole_gem5_run import whole_run
from whole_program_list import SEED, compiled

import tracekit
from tracekit.mixture import load_model
from tracekit.prediction import predict
from tracekit.record.qemu import QemuOptions, extract_qemu
from tracekit.sim import SamplePlan, sampled_totals, totals

#: Name -> file of kernels, kernel, rounds and size.
PROGRAMS = {
    "hash": ("hash", "chained", "20", "65536"),
    "graph": ("graph", "shortest", "3", "30000"),
    "sort": ("sort", "merge", "1", "240000"),
    "tree": ("pointers", "tree", "210", "50000"),
}
MACHINES = ("o3_small", "u013", "u001")
KEPT = Path(__file__).with_suffix(".json")
PLAN = SamplePlan(length=10_000, count=200, seed=SEED)
#: Rows of a short window, from the first one on and from the middle.
WINDOW = 500_000


def gem5_run(gem5: str, name: str, machine: str, work: Path) -> None:
    """One program on one machine, to its end: its statistics' cycles and instructions."""
    out = work / f"{name}.{machine}.json"
    if out.exists():
        return
    file, *arguments = PROGRAMS[name]
    command = [str(compiled(file, "gcc", work)), *arguments]
    began = time.monotonic()
    found = whole_run(gem5, command, machine, work, f"m5out-{name}-{machine}")
    found["seconds"] = time.monotonic() - began
    out.write_text(json.dumps(found))
    print(f"{name} on {machine}: {found}", flush=True)


def predicted(name: str, work: Path) -> None:
    """The program recorded, and its cycles on the machines: walked, sampled, and by the model."""
    out = work / f"{name}.predicted.json"
    if out.exists():
        return
    file, *arguments = PROGRAMS[name]
    features = work / f"{name}.zst"
    options = QemuOptions(cpu="qemu64", aslr=False, drop_output=True, env={})
    extract_qemu([str(compiled(file, "gcc", work)), *arguments], features, options, force=True)
    model = load_model(None, "x86").only(MACHINES)
    cores = [c for m in MACHINES for c in model.cores if c["name"] == m]
    with tracekit.open(features) as trace:
        n = len(trace)
        middle = n // 2
        edges = [0, WINDOW, middle, middle + WINDOW, n]
        parts = totals(trace, model.cores, edges, 1)
        sampled = sampled_totals(trace, cores, PLAN, 1)
        by_model = predict(trace, model, samples=PLAN, threads=1)
    own = [[c["name"] for c in model.cores].index(m) for m in MACHINES]
    found: dict[str, Any] = {
        "rows": n,
        "walk": parts.sum(axis=0)[own].tolist(),
        "walk and table": model.cycles(parts.sum(axis=0)).tolist(),
        "samples": sampled.cycles.tolist(),
        "half": sampled.half.tolist(),
        "samples and table": by_model.cycles.tolist(),
        "half of both": by_model.intervals.half.tolist() if by_model.intervals else None,
        "first window": (parts[0][own] * n / WINDOW).tolist(),
        "middle window": (parts[2][own] * n / WINDOW).tolist(),
    }
    out.write_text(json.dumps(found))
    print(f"{name}: {n:,} rows", flush=True)


def of_gem5(work: Path) -> dict[str, dict[str, Any]]:
    """Program.machine -> cycles, instructions and seconds of gem5's run."""
    kept: dict[str, dict[str, Any]] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    for name in PROGRAMS:
        for machine in MACHINES:
            truth = work / f"{name}.{machine}.json"
            if truth.exists():
                kept[truth.stem] = json.loads(truth.read_text())
    return kept


def report(work: Path) -> None:
    """Each program x machine that gem5 has run: gem5's cycles, and how far off each way is."""
    truths = of_gem5(work)
    ways = ["walk", "walk and table", "samples", "samples and table"]
    ways += ["first window", "middle window"]
    print("| program | machine | gem5's instructions | rows | gem5's cycles | " + " | ".join(ways))
    print("|---" * (5 + len(ways)) + "|")
    every = []
    for name in PROGRAMS:
        path = work / f"{name}.predicted.json"
        for k, machine in enumerate(MACHINES):
            g = truths.get(f"{name}.{machine}")
            if g is None or not path.exists():
                continue
            p = json.loads(path.read_text())
            off = [p[way][k] / g["cycles"] - 1 for way in ways]
            every.append(off)
            print(
                f"| {name} | {machine} | {g['instructions']:,} | {p['rows']:,} | "
                f"{g['cycles']:,.0f} | " + " | ".join(f"{x:+.1%}" for x in off) + " |"
            )
    if every:
        sizes = np.abs(every)
        print(
            "mean of sizes: "
            + ", ".join(f"{w} {x:.1%}" for w, x in zip(ways, sizes.mean(0), strict=True))
        )
        print(
            "largest: " + ", ".join(f"{w} {x:.1%}" for w, x in zip(ways, sizes.max(0), strict=True))
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("what", choices=("run", "predict", "report"))
    parser.add_argument("--gem5", help="gem5.opt with X86")
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--keep", action="store_true", help=f"gem5's cycles in {KEPT.name}")
    args = parser.parse_args()
    work = args.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    if args.what == "report":
        report(work)
        if args.keep:
            found = of_gem5(work).items()
            kept = {k: {n: int(v[n]) for n in ("cycles", "instructions")} for k, v in found}
            KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    elif args.what == "predict":
        for name in args.programs:
            predicted(name, work)
    else:
        if args.gem5 is None:
            parser.error("run: --gem5")
        for machine in MACHINES:
            for name in args.programs:
                gem5_run(args.gem5, name, machine, work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
