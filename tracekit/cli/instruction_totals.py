"""``tracekit predict`` by a model of single instructions: totals of its mean, and ``--save`` of
each instruction's mean, which adds up to them."""

from __future__ import annotations

import argparse
from typing import Any

from tracekit.cli.clustered import run_of, wanted
from tracekit.cli.report import reported
from tracekit.cli.unused import refuse
from tracekit.text import counted


def run(args: argparse.Namespace) -> int:
    """Of the files ``args.what``; returns the exit code."""
    from tracekit.cluster import predict_instructions
    from tracekit.errors import UsageError
    from tracekit.neuroscalar import CycleModel

    if args.by or args.machine:
        raise UsageError("--by and --machine are of PerfVec's models", path=args.model)
    refuse(args, ("phases", "binary", "top"), "for models of instructions, which have no --by")
    if len(args.what) > 1:
        refuse(args, ("save",), "of several files")
    if wanted(args):
        refuse(args, ("save",), "with --cluster and --run: workers send totals")
        device = "cpu" if args.device == "auto" else args.device
        model = CycleModel(args.model, device=device, threads=args.threads)
        with run_of(args) as tasks:
            found = predict_instructions(tasks, args.what, model, device)
    else:
        model = CycleModel(args.model, device=args.device, threads=args.threads)
        found = [_totals(args, model, path) for path in args.what]
    results = [_result(args, model, path, f) for path, f in zip(args.what, found, strict=True)]
    if reported(args, results[0] if len(results) == 1 else {"files": results}):
        return 0
    for r in results:
        print(
            f"{r['path']}: {counted(r['instructions'], 'instruction')} ({r['isa']}, {r['dtype']})"
        )
        for m in sorted(r["machines"], key=lambda m: m["cycles"]):
            print(f"{m['name']:<16}{m['cycles']:>14,.0f} cycles, CPI {m['cpi']:.3f}")
    return 0


def _chosen(args: argparse.Namespace, model: Any) -> list[int]:
    return [model.index(m) for m in dict.fromkeys(args.uarch or model.machines)]


def _totals(args: argparse.Namespace, model: Any, path: str) -> dict[str, Any]:
    """Of one file, by this process."""
    import tracekit
    from tracekit.io.arrays import save_array
    from tracekit.neuroscalar import MEAN, piece_sums, sums_by_piece

    chosen = _chosen(args, model)  # told before the work
    engine = {"isa": model.engine.isa, "dtype": model.engine.dtype}
    with tracekit.open(path) as trace:
        rows = len(trace)
        if args.save:
            mean = model.predict(trace, [MEAN])[MEAN]
            save_array(args.save, mean[:, chosen], force=args.force)
            sums, count = sums_by_piece([mean]), len(mean)
        else:
            sums, count = piece_sums(model, trace, (0, rows))
    totals = sums.reshape(-1, len(model.machines)).sum(axis=0)
    return {"rows": rows, "instructions": count, "totals": totals, **engine}


def _result(
    args: argparse.Namespace, model: Any, path: str, found: dict[str, Any]
) -> dict[str, Any]:
    import numpy as np

    from tracekit.sim import period

    machines: list[dict[str, Any]] = []
    for j in _chosen(args, model):
        entry = model.card.microarchitectures[j]
        cycles = float(found["totals"][j])
        seconds = cycles * period(entry.get("parameters") or {})
        machines.append(
            {
                "name": model.machines[j],
                "cycles": cycles,
                "seconds": float(seconds) if np.isfinite(seconds) else None,
                "cpi": cycles / max(1, found["instructions"]),
            }
        )
    counts = {k: found[k] for k in ("rows", "instructions")}
    engine = {k: found[k] for k in ("isa", "dtype")}
    return {"path": path, **counts, "machines": machines, **engine}
