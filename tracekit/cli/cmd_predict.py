"""``tracekit predict``: a program's time and CPI on every machine that the model knows.

From features (feats.zst), from a recording (.tks), or of a program or process on this computer,
which is sampled (Linux on x86-64).
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit.cli import cmd_predict_program
from tracekit.cli.clustered import add_cluster, run_of, wanted
from tracekit.cli.report import add_json, reported
from tracekit.cli.unused import refuse

if TYPE_CHECKING:
    from tracekit import Mixture, PredictionResult


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit predict``."""
    p = sub.add_parser(
        "predict",
        help=help_text,
        description=__doc__,
        usage="%(prog)s [options] FEATS.zst... | RECORDING.tks\n"
        "       %(prog)s [options] -- PROGRAM [ARGUMENTS]\n       %(prog)s [options] --pid PID",
    )
    p.add_argument(
        "what",
        nargs="*",
        help="feats.zst files (each and their total), a recording, or after -- a program to start",
    )
    p.add_argument("--model", help="a model's folder; the shipped one unless given")
    p.add_argument("--uarch", nargs="+", metavar="NAME", help="only these machines")
    p.add_argument(
        "--machine", nargs="+", metavar="FILE", help="machines that tracekit tune or measure wrote"
    )
    p.add_argument(
        "--by",
        choices=("phase", "pc", "symbol", "function", "line", "file", "process"),
        help="where the time goes; function, line, file and process of recordings only",
    )
    p.add_argument("--phases", type=int, default=10)
    p.add_argument("--binary", help="the program, for --by symbol")
    p.add_argument(
        "--weights",
        metavar="FILE.weights",
        help="the traces are of one program, one a line of this list in its order (SimPoint's)",
    )
    p.add_argument("--instructions", type=int, metavar="N", help="... which has so many")
    p.add_argument("--top", type=int, default=10, help="parts shown")
    p.add_argument("--save", metavar="FILE", help="the program's representation (.npy)")
    p.add_argument("--force", action="store_true", help="replace existing files")
    p.add_argument("--threads", type=int)
    p.add_argument("-q", "--quiet", action="store_true", help="no progress")
    p.add_argument(
        "--device", default="auto", help="models of instructions: auto, cpu, cuda, torch"
    )
    add_json(p)
    cmd_predict_program.add_arguments(p)
    add_cluster(p)
    p.set_defaults(func=run, parser=p)


def run(args: argparse.Namespace) -> int:
    """Run ``tracekit predict``; returns the exit code."""
    from tracekit.errors import UsageError
    from tracekit.io.arrays import npy_name
    from tracekit.io.output import check_output
    from tracekit.plotting import check_picture
    from tracekit.prediction import is_recording, is_trace_file

    if args.save:
        check_output(npy_name(args.save), args.force)
    check_picture(args.plot, args.force)
    if args.pid is not None or not all(map(is_trace_file, args.what)):
        refuse(args, ("weights", "instructions"), "but for feats.zst files")
    if args.pid is not None:
        if args.what:
            raise UsageError("--pid takes no program and no file")
        return _program(args, [], None)
    if not args.what:
        raise UsageError("give a file, a program after --, or --pid")
    if len(args.what) == 1 and is_recording(args.what[0]):
        return _program(args, [], args.what[0])
    if all(is_trace_file(w) for w in args.what):
        return _features(args)
    _check_program(args.what)
    return _program(args, args.what, None)


def _program(args: argparse.Namespace, command: list[str], recording: str | None) -> int:
    refuse(args, ("cluster", "run"), "of programs and recordings, which are predicted as a whole")
    return cmd_predict_program.run(args, command, recording)


def _check_program(what: list[str]) -> None:
    """A trace is never started, whatever stands behind it."""
    from tracekit.errors import UsageError
    from tracekit.prediction import is_recording, is_trace_file

    first = Path(what[0])
    if is_recording(first) or is_trace_file(first):
        other = next((w for w in what[1:] if not is_trace_file(w)), what[0])
        raise UsageError(
            f"{first} is a trace, and no program that could be started; {other} is no feats.zst",
            hint="several feats.zst files, one recording, or one program",
        )
    if first.is_file() and "/" not in what[0] and shutil.which(what[0]) is None:
        raise UsageError(
            f"{first} is neither a feats.zst nor a recording, and no program",
            hint="tracekit extract makes features of other traces; ./NAME starts a program",
        )


def _features(args: argparse.Namespace) -> int:
    import tracekit
    from tracekit.calibration import add_machines
    from tracekit.errors import UsageError
    from tracekit.io.arrays import save_array
    from tracekit.mixture import load_model
    from tracekit.neuroscalar import is_cycle_model

    refuse(args, cmd_predict_program.RECORDING, "of a feats.zst, whose rows are all predicted")
    refuse(args, ("here", "plot"), "of a feats.zst: intervals are those of sampled programs")
    if args.model and is_cycle_model(args.model):
        refuse(args, ("cluster", "run", "weights", "instructions"), "for models of instructions")
        if len(args.what) > 1:
            raise UsageError("a model of instructions takes one file", path=args.model)
        args.file = args.what[0]
        return _instructions(args)
    refuse(args, ("device",), "for PerfVec's models")
    _parts(args)
    if args.by in ("function", "line", "file", "process"):
        raise UsageError(f"--by {args.by} is for programs and recordings")
    with tracekit.open(args.what[0]) as trace:
        model = load_model(args.model, trace.arch)
    if args.machine:
        model = add_machines(model, args.machine)
    if wanted(args):
        refuse(args, ("weights", "instructions"), "with --cluster and --run")
        results = _many(args, model)
    else:
        results = [
            tracekit.predict(
                path,
                model,
                machines=args.uarch,
                by=args.by,
                phases=args.phases,
                binary=args.binary,
                own_machine=len(args.what) == 1,
                threads=args.threads,
                quiet=args.quiet,
            )
            for path in args.what
        ]
    whole = _whole(args, results)
    if args.save:
        save_array(args.save, whole.representation, force=args.force)

    def result() -> dict[str, Any]:
        if whole is results[0]:
            return whole.to_dict()
        return {"files": [r.to_dict() for r in results], "total": whole.to_dict()}

    if reported(args, result):
        return 0
    for r in results:
        print(r)
        if args.by:
            _print_parts(args, r)
        if whole is not results[0]:
            print()
    if whole is not results[0]:
        print(whole)
    return 0


def _many(args: argparse.Namespace, model: Mixture) -> list[PredictionResult]:
    from tracekit.cluster import predict_many

    options = {
        "model": args.model,
        "machine_files": args.machine or [],
        "machines": args.uarch,
        "by": args.by,
        "phases": args.phases,
        "binary": args.binary,
        "own_machine": len(args.what) == 1,
    }
    with run_of(args) as run:
        return predict_many(run, args.what, model, options)


def _whole(args: argparse.Namespace, results: list[PredictionResult]) -> PredictionResult:
    """One after another, or by weights."""
    from tracekit.errors import UsageError
    from tracekit.prediction import check_one_program, total, weighted
    from tracekit.simpoint import read_weights

    if args.weights is None:
        refuse(args, ("instructions",), "without --weights")
        return results[0] if len(results) == 1 else total(results)
    if args.instructions is not None and args.instructions < 1:
        raise UsageError("--instructions: at least 1")
    weights = list(read_weights(args.weights).values())
    check_one_program(args.what)
    return weighted(results, weights, args.instructions)


def _print_parts(args: argparse.Namespace, r: PredictionResult) -> None:
    best = r.fastest_first[0]
    whole = r.cycles[best] or 1.0
    print(f"by {args.by}, on {r.machines[best]}:")
    for part in r.parts[: None if args.by == "phase" else args.top]:
        c = part.cycles[best]
        print(f"  {part.name:<28}{c / whole:7.1%}{c:>14,.0f} cycles{part.rows:>12,} rows")


def _parts(args: argparse.Namespace) -> None:
    if args.by != "phase":
        refuse(args, ("phases",), "without --by phase")
    if args.by not in ("symbol", "function", "line", "file"):
        refuse(args, ("binary",), "without --by symbol")
    if args.by in (None, "phase"):
        refuse(args, ("top",), "without --by pc, symbol, function, line, file or process")


def _instructions(args: argparse.Namespace) -> int:
    """A model of single instructions: totals of its mean, and --save of each instruction's
    cycles."""
    import numpy as np

    import tracekit
    from tracekit.errors import UsageError
    from tracekit.io.arrays import save_array
    from tracekit.neuroscalar import CYCLES, MEAN, CycleModel
    from tracekit.sim import period

    if args.by or args.machine:
        raise UsageError("--by and --machine are of PerfVec's models", path=args.model)
    refuse(args, ("phases", "binary", "top"), "for models of instructions, which have no --by")
    model = CycleModel(args.model, device=args.device, threads=args.threads)
    chosen = [model.index(m) for m in args.uarch or model.machines]
    with tracekit.open(args.file) as trace:
        found = model.predict(trace, [MEAN, CYCLES] if args.save else [MEAN])
        rows = len(trace)
    if args.save:
        save_array(args.save, found[CYCLES][:, chosen], force=args.force)
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
    if reported(args, result):
        return 0
    print(f"{args.file}: {n:,} instructions ({engine['isa']}, {engine['dtype']})")
    for m in sorted(machines, key=lambda m: m["cycles"]):
        print(f"{m['name']:<16}{m['cycles']:>14,.0f} cycles, CPI {m['cpi']:.3f}")
    return 0
