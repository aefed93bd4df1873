"""``tracekit predict``: a program's time and CPI on every machine that the model knows.

From features (feats.zst), from a recording (.tks), or of a program or process on this computer,
which is sampled (Linux on x86-64).
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit.cli import cmd_predict_program, instruction_totals
from tracekit.cli.clustered import add_cluster, run_of, wanted
from tracekit.cli.cmd_record_qemu import OF_QEMU
from tracekit.cli.common_options import add_force, add_quiet, add_threads, check_once
from tracekit.cli.intermixed import Traces
from tracekit.cli.numbers import at_least
from tracekit.cli.predicted_machines import with_machine_files
from tracekit.cli.report import add_json, reported
from tracekit.cli.sampling_options import OPTIONS, add_choice, plan_of, print_seed, seed_of
from tracekit.cli.unused import refuse

if TYPE_CHECKING:
    from tracekit import Mixture, PredictionResult, TraceFile
    from tracekit.errors import TracekitError
    from tracekit.sim import SamplePlan


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit predict``."""
    p = sub.add_parser(
        "predict",
        help=help_text,
        description=__doc__,
        usage="%(prog)s [options] FEATS.zst... | RECORDING.tks\n"
        "       %(prog)s [options] -- PROGRAM [ARGUMENTS]\n       %(prog)s [options] --pid PID",
    )
    p.__class__ = Traces
    p.add_argument(
        "what",
        nargs="*",
        help="feats.zst files (each and their total), a recording, or after -- a program to start",
    )
    p.add_argument("--model", help="a model's folder; the shipped one unless given")
    p.add_argument(
        "--uarch",
        nargs="+",
        action="extend",
        metavar="NAME",
        help="only these machines (of the model; of programs also real ones)",
    )
    p.add_argument(
        "-m",
        "--machine",
        nargs="+",
        action="extend",
        metavar="FILE",
        help="machines that tracekit tune or measure wrote",
    )
    p.add_argument(
        "--by",
        choices=("phase", "pc", "symbol", "function", "line", "file", "process"),
        help="where the time goes; function, line, file and process of recordings only",
    )
    p.add_argument("--phases", type=int, default=10, metavar="N", help="--by phase: so many (10)")
    p.add_argument("--binary", help="the program, for --by symbol")
    p.add_argument(
        "--weights",
        metavar="FILE.weights",
        help="the traces are of one program, one a line of this list in its order (SimPoint's)",
    )
    p.add_argument(
        "--instructions", type=int, metavar="N", help="--weights: instructions of the program"
    )
    p.add_argument("--top", type=at_least(0), default=10, help="parts shown (10)")
    p.add_argument(
        "--save",
        metavar="FILE",
        help="the program's representation (.npy); of models of instructions the expected cycles "
        "of each, a column a machine in the order of --uarch or of the model",
    )
    add_force(p)
    add_threads(p)
    add_quiet(p)
    p.add_argument(
        "--device", default="auto", help="models of instructions: auto, cpu, cuda, torch"
    )
    add_json(p)
    cmd_predict_program.add_arguments(p)
    add_cluster(p)
    add_choice(p.add_argument_group("samples of a feats.zst (with --every, --insts, --seed)"))
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
    check_once(args.machine or ())
    if args.pid is not None or not all(map(is_trace_file, args.what)):
        refuse(args, ("samples", "choose"), "but for feats.zst files")
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

    if not what[0]:
        raise UsageError("an empty name: neither a file nor a program")
    first = Path(what[0])
    if is_recording(first) or is_trace_file(first):
        other = next((w for w in what[1:] if not is_trace_file(w)), what[0])
        raise UsageError(
            f"{first} is a trace, and no program that could be started; {other} is no feats.zst",
            hint="several feats.zst files, one recording, or one program",
        )
    if shutil.which(what[0]) is None and not first.is_file():
        why = "is a folder" if first.is_dir() else "no such file, and no program of this name"
        raise UsageError(why, path=what[0])
    if first.is_file() and "/" not in what[0] and shutil.which(what[0]) is None:
        raise UsageError(
            f"{first} is neither a feats.zst nor a recording, and no program",
            hint="tracekit extract makes features of other traces; ./NAME starts a program",
        )


def _features(args: argparse.Namespace) -> int:
    import tracekit
    from tracekit.cli.trace_notes import tell_limits
    from tracekit.errors import TracekitError, UsageError
    from tracekit.io.arrays import save_array
    from tracekit.mixture import load_model
    from tracekit.neuroscalar import is_cycle_model
    from tracekit.text import note

    unused = [
        o
        for o in (*cmd_predict_program.RECORDING, *OF_QEMU, "engine")
        if o not in ("every", "insts", "seed")
    ]
    refuse(args, unused, "of a feats.zst, which is there")
    plan = plan_of(args)
    refuse(args, ("here", "plot"), "of a feats.zst: intervals are those of sampled programs")
    if args.model and is_cycle_model(args.model):
        refuse(args, ("weights", "instructions"), "for models of instructions")
        refuse(args, OPTIONS, "for models of instructions")
        return instruction_totals.run(args)
    refuse(args, ("device",), "for PerfVec's models")
    _parts(args)
    if args.by in ("function", "line", "file", "process"):
        raise UsageError(f"--by {args.by} is for programs and recordings")
    with _first(args.what if wanted(args) else args.what[:1]) as trace:
        model = load_model(args.model, trace.arch, trace.level)
    for path in () if wanted(args) else args.what:
        with tracekit.open(path) as trace:
            tell_limits(trace)
    model = with_machine_files(model, args.machine)
    failed: list[TracekitError] = []
    if wanted(args):
        found = _many(args, model, plan)
        failed = [r for r in found if isinstance(r, TracekitError)]
        results = [r for r in found if not isinstance(r, TracekitError)]
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
                samples=plan,
                threads=args.threads,
                quiet=args.quiet,
            )
            for path in args.what
        ]
    whole = None if failed else _whole(args, results)  # of some of them it would mislead
    if args.save and whole is not None:
        save_array(args.save, whole.representation, force=args.force)
    if not reported(args, lambda: _result(results, whole, plan)):
        _print(args, results, whole)
        print_seed(plan)
    for e in failed:
        note(e)
    return 1 if failed else 0


def _result(
    results: list[PredictionResult], whole: PredictionResult | None, plan: SamplePlan | None
) -> dict[str, Any]:
    files = [{**r.to_dict(), **seed_of(plan)} for r in results]
    if whole is None:
        return {"files": files, "total": None}
    total = {**whole.to_dict(), **seed_of(plan)}
    return total if whole is results[0] else {"files": files, "total": total}


def _print(
    args: argparse.Namespace, results: list[PredictionResult], whole: PredictionResult | None
) -> None:
    several = whole is None or whole is not results[0]
    for r in results:
        print(r)
        if args.by:
            _print_parts(args, r)
        if several:
            print()
    if several and whole is not None:
        print(whole)


def _first(paths: list[str]) -> TraceFile:
    """The first of the traces that can be opened, open; the first one's error where none can."""
    import tracekit
    from tracekit.errors import TracekitError

    first: TracekitError | None = None
    for path in paths:
        try:
            return tracekit.open(path)
        except TracekitError as e:
            first = first or e
    assert first is not None
    raise first


def _many(
    args: argparse.Namespace, model: Mixture, plan: SamplePlan | None
) -> list[PredictionResult | TracekitError]:
    from dataclasses import asdict

    from tracekit.cluster import predict_many

    options = {
        "model": args.model,
        "machine_files": args.machine or [],
        "machines": args.uarch,
        "by": args.by,
        "phases": args.phases,
        "binary": args.binary,
        "own_machine": len(args.what) == 1,
        "samples": None if plan is None else asdict(plan),
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
