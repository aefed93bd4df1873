"""``tracekit tune``: a new machine's row of the table from one or a few short traces, the model
frozen; or this computer's, from the times of programs alone (--measure); or which programs to run
on a machine first (--suggest)."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from tracekit.cli.report import add_json, reported


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit tune``."""
    p = sub.add_parser("tune", help=help_text, description=__doc__)
    p.add_argument(
        "traces",
        nargs="*",
        metavar="FEATS[=CYCLES]",
        help="a timed feats.zst, a file that tracekit join wrote, or features and an array of "
        "cycles (.npy, .npy.zst)",
    )
    p.add_argument("-o", "--output", help="the machine's file, for predict --machine")
    p.add_argument("--force", action="store_true", help="replace it")
    p.add_argument("--name")
    p.add_argument("--column", help="which machine of the joined files it is (--name unless given)")
    p.add_argument("--parameters", help="the machine's JSON, where its parameters are known")
    p.add_argument("--model", help="a model's folder; the shipped one unless given")
    p.add_argument("--threads", type=int)
    p.add_argument(
        "--seed", type=int, default=0, help="of the cores that are drawn without --parameters"
    )
    p.add_argument(
        "--suggest",
        type=int,
        metavar="N",
        help="which N of these features' programs would tell most about a machine of unknown "
        "parameters; nothing is tuned",
    )
    g = p.add_argument_group("this computer, from the times of programs")
    g.add_argument("--measure", metavar="MANIFEST", help="programs to step once and time (JSON)")
    g.add_argument("--work", help="folder for recordings, which are made once (NAME.measured)")
    g.add_argument("--runs", type=int, default=15, help="timings of each program (15)")
    g.add_argument("--cpu", type=int, help="the processor that programs are pinned to")
    add_json(p)
    p.set_defaults(func=run, parser=p)


def run(args: argparse.Namespace) -> int:
    """Run ``tracekit tune``; returns the exit code."""
    from tracekit.cli.unused import refuse
    from tracekit.errors import UsageError
    from tracekit.io.output import check_output

    if (args.measure is None) == (not args.traces):
        raise UsageError("give traces to tune from, or --measure MANIFEST")
    if args.suggest is not None:
        if args.measure is not None:
            raise UsageError("--suggest is told by features, not by --measure")
        names = ("output", "name", "column", "parameters", "work", "runs", "cpu")
        refuse(args, names, "with --suggest: nothing is tuned")
        return _suggest(args)
    if args.measure is None:
        refuse(args, ("work", "runs", "cpu"), "without --measure")
        if args.parameters:
            refuse(args, ("seed",), "with --parameters: no core is drawn")
    else:
        refuse(args, ("column", "parameters", "threads", "seed"), "with --measure")
    if not args.output or not args.name:
        raise UsageError("--output and --name say what is made")
    check_output(args.output, args.force)
    return _traces(args) if args.measure is None else _measure(args)


def _progress(message: str) -> None:
    """A line that the next one overwrites, on a terminal; an empty one clears it."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{message}")
        sys.stderr.flush()


def _suggest(args: argparse.Namespace) -> int:
    import tracekit
    from tracekit.calibration.informative_programs import core_information, informative_programs
    from tracekit.calibration.random_designs import RANDOM_DESIGNS
    from tracekit.errors import UsageError
    from tracekit.mixture import load_model

    if not 1 <= args.suggest < len(args.traces):
        raise UsageError(f"--suggest {args.suggest} of {len(args.traces)}: 1 to all but one")
    model = load_model(args.model)
    paths, programs = [], []
    for i, entry in enumerate(args.traces):
        path = entry.partition("=")[0]
        _progress(f"program {i + 1} of {len(args.traces)}: {path}")
        paths.append(path)
        with tracekit.open(path) as trace:
            programs.append(
                core_information(trace, model.cores, RANDOM_DESIGNS, args.seed, args.threads)
            )
    _progress("choosing")
    chosen = [paths[i] for i in informative_programs(programs, args.suggest)]
    _progress("")
    if not reported(args, {"suggested": chosen}):
        print("\n".join(chosen))
    return 0


def _measure(args: argparse.Namespace) -> int:
    from pathlib import Path

    from tracekit.calibration.host import load_natives, machine_of, measure
    from tracekit.calibration.machine_rows import write_machine
    from tracekit.mixture import load_model

    model = load_model(args.model, "x86")
    programs = load_natives(args.measure)
    work = Path(args.work or f"{args.name}.measured")
    shown = sys.stderr.isatty()

    def report(message: str) -> None:
        sys.stderr.write(f"\r\x1b[K{message}" if shown else f"{message}\n")
        sys.stderr.flush()

    folder = Path(args.measure).resolve().parent
    measured = measure(model, programs, folder, work, runs=args.runs, cpu=args.cpu, report=report)
    if shown:
        sys.stderr.write("\r\x1b[K")
    found = machine_of(model, measured, args.name)
    write_machine(args.output, found, force=args.force)
    if not reported(args, found):
        _print_measured(found, args.output)
    return 0


def _print_measured(found: dict[str, Any], output: str) -> None:
    from tracekit.calibration.host import BASELINES

    out = found["leave_one_out"]
    programs = found["measured_on"]
    spread = sorted(p["spread"] for p in programs)[len(programs) // 2]
    print(
        f"{len(programs)} programs, {sum(p['instructions'] for p in programs):,} instructions; "
        f"timings of one program spread by {spread:.1%} (median)"
        + ("" if found["hardware_counters"] else "; the kernel offers no hardware counters")
    )
    print(f"starting a process costs {1e3 * out['start_seconds']:.2f} ms here")
    mix = sorted(found["mix"].items(), key=lambda kv: -kv[1])
    print(
        "mix: " + (", ".join(f"{v:.2f} {k}" for k, v in mix[:6]) or "none") + " …" * (len(mix) > 6)
    )
    print(f"{'each program by all others':<32}{'mean':>8}{'median':>8}{'without the start':>20}")
    for name in ("mix", *BASELINES):
        e = out[name]
        net = f"{e['net_mean']:>12.1%}{e['net_median']:>8.1%}"
        print(f"  {name:<30}{e['mean']:>8.1%}{e['median']:>8.1%}{net}")
    better = [b for b in BASELINES if out["mix"]["mean"] < out[b]["mean"]]
    worse = [b for b in BASELINES if b not in better]
    if worse:
        print(
            f"note: the mix does not beat {' and '.join(worse)}: do not rely on this machine's row"
        )
    print(f"wrote {output}")


def _traces(args: argparse.Namespace) -> int:
    import tracekit
    from tracekit.calibration.machine_rows import tune, write_machine
    from tracekit.dataset import Dataset, read_cycles
    from tracekit.mixture import load_model
    from tracekit.sim import load_machine, machine_notes

    model = load_model(args.model)
    traces = []
    for entry in args.traces:
        path, _, array = entry.partition("=")
        trace = tracekit.open(path)
        if array:
            cycles = read_cycles(array, (args.name,), len(trace))[0]
        elif "targets" in trace.index:
            with Dataset(path) as data:
                cycles = data.cycles()[:, data.column_of(args.column or args.name)]
        else:
            cycles = trace.targets("cycles")
        traces.append((trace, cycles.astype(float)))
    parameters = load_machine(args.parameters) if args.parameters else None

    options: dict[str, Any] = {"threads": args.threads, "seed": args.seed, "report": _progress}
    found = tune(model, traces, args.name, parameters=parameters, **options)
    _progress("")
    write_machine(args.output, found, force=args.force)
    if reported(args, found):
        return 0
    for note in machine_notes(parameters or {}):
        print(f"note: {note}")
    for t in found["tuned_on"]:
        print(
            f"{t['path']}: {t['rows']:,} rows, error of total time {t['error']:+.1%}"
            " (it was tuned on this)"
        )
    print(f"wrote {args.output}")
    return 0
