"""``tracekit predict``: a program's time and CPI on every machine that the model knows.

From features (feats.zst), from a recording (.tks), or of a program or process on this computer,
which is sampled (Linux on x86-64).
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from tracekit.cli import predict_program


def add_parser(sub: Any, help_text: str) -> None:
    p = sub.add_parser(
        "predict",
        help=help_text,
        description=__doc__,
        usage="%(prog)s [options] FEATS.zst | RECORDING.tks\n"
        "       %(prog)s [options] -- PROGRAM [ARGUMENTS]\n       %(prog)s [options] --pid PID",
    )
    p.add_argument("what", nargs="*", help="a file, or a program to start and sample, after --")
    p.add_argument("--model", help="a model's folder; the shipped one unless given")
    p.add_argument("--uarch", nargs="+", metavar="NAME", help="only these machines")
    p.add_argument("--machine", nargs="+", metavar="FILE", help="machines that tracekit tune wrote")
    p.add_argument(
        "--by",
        choices=("phase", "pc", "symbol", "function", "line", "file"),
        help="where the time goes; function, line and file of recordings only",
    )
    p.add_argument("--phases", type=int, default=10)
    p.add_argument("--binary", help="the program, for --by symbol")
    p.add_argument("--top", type=int, default=10, help="parts shown")
    p.add_argument("--save", metavar="FILE", help="the program's representation (.npy)")
    p.add_argument("--threads", type=int)
    p.add_argument(
        "--device", default="auto", help="models of instructions: auto, cpu, cuda, torch"
    )
    p.add_argument("--json", action="store_true")
    predict_program.add_arguments(p)
    p.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    from tracekit.errors import UsageError
    from tracekit.perfvec.live import is_recording, is_trace_file

    if args.pid is not None:
        if args.what:
            raise UsageError("--pid takes no program and no file")
        return predict_program.run(args, [], None)
    if not args.what:
        raise UsageError("give a file, a program after --, or --pid")
    if len(args.what) == 1 and is_recording(args.what[0]):
        return predict_program.run(args, [], args.what[0])
    if len(args.what) == 1 and is_trace_file(args.what[0]):
        args.file = args.what[0]
        return _features(args)
    return predict_program.run(args, args.what, None)


def _features(args: argparse.Namespace) -> int:
    import numpy as np

    import tracekit
    from tracekit.errors import UsageError
    from tracekit.neuroscalar.model import is_cycle_model
    from tracekit.perfvec import load_model
    from tracekit.perfvec.predict import predict
    from tracekit.perfvec.tune import add_machines
    from tracekit.symbols import AddressMap

    if args.model and is_cycle_model(args.model):
        return _instructions(args)
    if args.by in ("function", "line", "file"):
        raise UsageError(f"--by {args.by} is for programs and recordings")
    with tracekit.open(args.file) as trace:
        arch = str(trace.index.get("arch", ""))
    model = load_model(args.model, arch)
    if args.machine:
        model = add_machines(model, args.machine)
    if args.uarch:
        model = model.only(args.uarch)
    symbols = AddressMap.of_binary(args.binary) if args.binary and args.by == "symbol" else None
    with tracekit.open(args.file) as trace:
        result = predict(
            model, trace, by=args.by, phases=args.phases, symbols=symbols, threads=args.threads
        )
    if args.save:
        np.save(args.save, np.array(result["representation"]))
    if args.json:
        print(json.dumps(result, indent=1))
        return 0
    print(f"{args.file}: {result['rows']:,} rows, {result['instructions']:,} instructions")
    best = sorted(result["machines"], key=lambda m: m["seconds"] or float("inf"))
    print(f"{'machine':<16}{'time':>12}{'cycles':>14}{'CPI':>8}")
    for m in best:
        seconds = "?" if m["seconds"] is None else f"{1e6 * m['seconds']:.1f} us"
        print(f"{m['name']:<16}{seconds:>12}{m['cycles']:>14,.0f}{m['cpi']:>8.3f}")
    if args.by:
        name = best[0]["name"]
        whole = best[0]["cycles"] or 1.0
        print(f"by {args.by}, on {name}:")
        for part in result["parts"][: None if args.by == "phase" else args.top]:
            c = part["cycles"][name]
            print(f"  {part['name']:<28}{c / whole:7.1%}{c:>14,.0f} cycles{part['rows']:>12,} rows")
    return 0


def _instructions(args: argparse.Namespace) -> int:
    """A model of single instructions: totals of its mean, and --save of each instruction's
    cycles."""
    import numpy as np

    import tracekit
    from tracekit.errors import UsageError
    from tracekit.neuroscalar.model import CYCLES, MEAN, CycleModel
    from tracekit.perfvec.model import period

    if args.by or args.machine:
        raise UsageError("--by and --machine are of PerfVec's models", path=args.model)
    model = CycleModel(args.model, device=args.device, threads=args.threads)
    chosen = [model.index(m) for m in args.uarch or model.machines]
    with tracekit.open(args.file) as trace:
        found = model.predict(trace, [MEAN, CYCLES] if args.save else [MEAN])
        rows = len(trace)
    if args.save:
        np.save(args.save, found[CYCLES][:, chosen])
    n = len(found[MEAN])
    totals = found[MEAN].sum(axis=0, dtype=np.float64)
    machines: list[dict[str, Any]] = []
    for j in chosen:
        entry = model.card.microarchitectures[j]
        seconds = totals[j] * period(entry.get("parameters") or {})
        machines.append(
            {
                "name": model.machines[j],
                "cycles": float(totals[j]),
                "seconds": float(seconds) if np.isfinite(seconds) else None,
                "cpi": float(totals[j]) / max(1, n),
            }
        )
    engine = {"isa": model.engine.isa, "dtype": model.engine.dtype}
    result = {"path": args.file, "rows": rows, "instructions": n, "machines": machines, **engine}
    if args.json:
        print(json.dumps(result, indent=1))
        return 0
    print(f"{args.file}: {n:,} instructions ({engine['isa']}, {engine['dtype']})")
    for m in sorted(machines, key=lambda m: m["cycles"]):
        print(f"{m['name']:<16}{m['cycles']:>14,.0f} cycles, CPI {m['cpi']:.3f}")
    return 0
