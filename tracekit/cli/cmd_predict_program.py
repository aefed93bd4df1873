"""What ``tracekit predict`` does with programs, processes and recordings."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tracekit.cli import cmd_record_qemu
from tracekit.cli.numbers import at_least, seconds, seconds_or_none
from tracekit.cli.predicted_machines import (
    check_named,
    only,
    this_computer,
    with_machine_files,
)
from tracekit.cli.report import reported
from tracekit.cli.unused import refuse
from tracekit.errors import UsageError
from tracekit.text import counted, note, shown

__all__ = ["RECORDING", "add_arguments", "run"]

#: How a recording is made.
RECORDING = (
    *("seconds", "epoch", "period", "count", "seed", "full", "leave", "record"),
    *("in_place", "follow_forks"),
)

_OF_STEPS = (
    *("pid", "seconds", "period", "count", "seed", "full", "leave", "in_place", "follow_forks"),
    "epoch",
)

_UNCOUNTED = (
    "a process was killed, or the recording was ended: nobody counted all instructions, so the "
    "seconds of the run are not known"
)


def add_arguments(p: Any) -> None:
    """The options of recording, and of what is made of it."""
    g = add_recording(p)
    g.add_argument(
        "--here",
        metavar="NAME|FILE",
        help="this computer: its file of `tracekit calibrate`, a real processor, or a machine of "
        "the model",
    )
    g.add_argument(
        "--plot", metavar="FILE", help="CPI of machines with intervals: .png, .svg, .pdf"
    )


def add_recording(p: Any) -> Any:
    """The options of recording; the group that they are in."""
    g = p.add_argument_group("recording (of a program or process)")
    g.add_argument("--pid", type=int, help="sample this running process")
    g.add_argument("--seconds", type=seconds, default=15.0, help="how long to sample (15)")
    g.add_argument("--epoch", type=int, default=20_000, help="instructions of an epoch (20000)")
    g.add_argument(
        "--period", type=seconds_or_none, default=0.5, help="mean seconds between epochs (0.5)"
    )
    g.add_argument("--count", type=int, metavar="N", help="stop after so many epochs")
    g.add_argument("--seed", type=at_least(0), help="of the epochs' random moments")
    g.add_argument(
        "--in-place",
        action="store_true",
        help="step the program itself; chosen where a copy would not have all of its memory",
    )
    g.add_argument(
        "--follow-forks", action="store_true", help="child processes too, with their shares"
    )
    g.add_argument("--full", action="store_true", help="step all of a short program instead")
    g.add_argument(
        "--leave", action="store_true", help="a program started here runs on after the sampling"
    )
    g.add_argument("--record", metavar="FILE", help="keep the recording (.tks)")
    cmd_record_qemu.add_arguments(p)
    return g


def check_recording(args: argparse.Namespace, command: list[str], recording: str | None) -> None:
    """Raises `UsageError` for options of recording that mean nothing together."""
    if recording is not None:
        refuse(args, (*RECORDING, "engine"), "of a recording, which is there")
    sampled = args.engine == "qemu" and args.every is not None
    cmd_record_qemu.check(args, tuple(o for o in _OF_STEPS if o != "seed" or not sampled))
    if args.engine == "qemu" and not command:
        raise UsageError("--engine qemu needs a program to start, after --")
    if args.full:
        sampling = ("seconds", "period", "count", "seed", "leave", "in_place", "follow_forks")
        refuse(args, sampling, "with --full: all is stepped")
    if args.pid is not None:
        refuse(args, ("leave",), "with --pid: the process runs on")


def record_features(
    args: argparse.Namespace, command: list[str], recording: str | None, features: Path
) -> tuple[str, Any, list[str], int | None]:
    """Records ``command`` or ``args.pid`` unless there is a ``recording``, and extracts it to
    ``features``: the recording's path, what the kernel says of the program (None where nobody
    asked), sentences on what QEMU did not show, and how many instructions the whole run had, where
    they were counted."""
    from tracekit.prediction import features_of

    usage, executed = None, None
    missing: list[str] = []
    there = recording is not None
    recording = recording or args.record or str(features.with_name("sample.tks"))
    if there:
        missing = _missing_in(recording)
    elif args.engine == "qemu":
        missing, executed = _emulate(args, command, features)
    else:
        usage = _record(args, command, recording)
    if not features.exists():
        features_of(recording, features, quiet=args.quiet)
    return recording, usage, missing, executed


def _missing_in(recording: str) -> list[str]:
    """`_missing` of a recording, as its end tells; empty where it was made by steps, or was cut
    short."""
    from tracekit.inputs.tks import TksReader

    with TksReader(recording) as reader:
        engine = reader.meta.get("engine")
        if not isinstance(engine, dict) or engine.get("name") != "qemu":
            return []
        reader.read_end()
        totals = reader.totals or {}
    silent, anomalies = (totals.get(key) for key in ("silent", "anomalies"))
    return _missing(
        silent if isinstance(silent, dict) else {}, anomalies if isinstance(anomalies, dict) else {}
    )


def _missing(silent: Mapping[str, int], anomalies: Mapping[str, int]) -> list[str]:
    """What the rows lack of the program's accesses, a sentence each.  ``silent``: runs of
    instructions whose accesses QEMU does not show; ``anomalies``: accesses that were left out, by
    what they were."""
    return [
        *(
            f"the accesses of {n} x {name} are missing: QEMU does not show them"
            for name, n in silent.items()
        ),
        *(f"left out, since nobody knows whose they were: {n} x {k}" for k, n in anomalies.items()),
    ]


def run(args: argparse.Namespace, command: list[str], recording: str | None) -> int:
    """Sample ``command`` or ``args.pid``, or read ``recording``; predict and print."""
    from tracekit import TraceFile
    from tracekit.hardware import hardware_machines
    from tracekit.io.output import scratch
    from tracekit.mixture import load_model
    from tracekit.prediction import predict_program

    check_recording(args, command, recording)
    refuse(args, ("device",), "for PerfVec's models")
    refuse(args, ("phases",), "for programs and recordings, whose phases are their epochs")
    if args.by not in ("symbol", "function", "line", "file"):
        refuse(args, ("binary",), "without --by symbol, function, line or file")
    if args.by in (None, "phase"):
        refuse(args, ("top",), "without --by pc, symbol, function, line or file")
    model = with_machine_files(load_model(args.model, "x86"), args.machine)
    here, real, kept = this_computer(args, model)
    if recording is None and args.engine == "steps":  # the model is known before the recording
        check_named(args, model, [*hardware_machines(), *([real.name] if real else [])])
    begin = time.monotonic()
    with contextlib.ExitStack() as cleanup:
        folder = cleanup.enter_context(scratch())
        features = folder / "sample.zst"
        there = recording is not None
        recording, usage, missing, executed = record_features(args, command, recording, features)
        recorded = time.monotonic()
        trace = cleanup.enter_context(TraceFile(features))
        if kept and real is not None and real.isa != trace.arch:
            real = None  # the program of another instruction set
        if args.model is None and trace.arch not in (model.arch, "unknown"):
            model = load_model(None, trace.arch)
        result = predict_program(
            model,
            trace,
            by=args.by,
            usage=usage,
            here=here,
            real=real,
            binary=args.binary,
            threads=args.threads,
            quiet=args.quiet,
        )
    result["path"] = recording if args.record or there else None
    result["executed"] = executed
    if executed is not None:  # the samples stand for all of it
        for m in result["machines"]:
            if m["ns_per_instruction"] is not None:
                m["seconds"] = 1e-9 * m["ns_per_instruction"] * executed
    result["warnings"] += missing
    check_named(args, model, [m["name"] for m in result["real_machines"]])
    if args.uarch:
        only(result, args.uarch)
    now = time.monotonic()
    result["cost"] = {"recording": recorded - begin, "analysis": now - recorded}
    if args.save:
        from tracekit.io.arrays import save_array

        save_array(args.save, result["representation"], force=args.force)
    if args.plot:
        from tracekit.plotting import machines_plot

        machines_plot(result, args.plot, force=args.force)
    if not reported(args, result):
        _print(result, args, here)
    return 0


def _emulate(
    args: argparse.Namespace, command: list[str], features: Path
) -> tuple[list[str], int | None]:
    """The whole program under QEMU, to features or to the recording that is to be kept; what it
    does not show, and how many instructions there were, of samples.

    A program that ends before its first sample is run again, and recorded whole.
    """
    import numpy as np

    from tracekit.errors import FormatError, ProcessEndedError

    if args.every is None:
        return _emulated(args, command, features)
    args.touched = True  # what caches held before a sample
    if args.skip == 0 and args.insts is not None and args.every > args.insts:
        draw = np.random.default_rng(args.seed)
        args.skip = int(draw.integers(args.every - args.insts))
    try:
        lacks, executed = _emulated(args, command, features)
    except (FormatError, ProcessEndedError):
        note("the program ended before its first sample: it is run again, and recorded whole")
        args.every, args.insts, args.skip, args.touched = None, None, 0, False
        return _emulated(args, command, features)
    return (lacks if executed is not None else [*lacks, _UNCOUNTED]), executed


def _emulated(
    args: argparse.Namespace, command: list[str], features: Path
) -> tuple[list[str], int | None]:
    from tracekit.record.qemu import extract_qemu, record_qemu

    options = cmd_record_qemu.options_of(args, to_error=args.json)
    if args.record:
        totals = record_qemu(command, args.record, options, force=args.force)
        return _missing(totals.silent, totals.anomalies), totals.executed
    session = extract_qemu(command, features, options)[1]
    executed = sum(session.executed().values()) if session.counted else None
    return _missing(session.silent(), session.anomalies()), executed


def _record(args: argparse.Namespace, command: list[str], output: str) -> Any:
    from tracekit.prediction import sample
    from tracekit.record import RecordOptions

    if args.full and args.pid is not None:
        raise UsageError("--full steps a program from its start: it cannot join --pid")
    options = RecordOptions(
        epoch=args.epoch,
        period=args.period,
        random=not args.full and args.period > 0,
        seed=args.seed,
        duration=None if args.full else args.seconds,
        copy_seconds=min(60.0, max(args.seconds, 1.0)),
        full=args.full,
        in_place=args.in_place,
        count=None if args.full else args.count,
        follow_exec=True,
        follow_forks=args.follow_forks,
        lowest_priority=False,
    )
    on_terminal = sys.stderr.isatty() and not args.json
    begin = time.monotonic()

    def progress(epochs: int, message: str) -> None:
        if on_terminal:
            left = "" if args.full else f" of {args.seconds:.0f}"
            sys.stderr.write(
                f"\r{counted(epochs, 'epoch')}, {time.monotonic() - begin:.0f}{left} s "
            )
            sys.stderr.flush()

    usage = sample(
        output,
        options,
        command=command or None,
        pid=args.pid,
        leave=args.leave,
        force=args.force,
        standard_output=2 if args.json else None,
        progress=progress,
    )
    if on_terminal:
        sys.stderr.write("\r\x1b[K")
    return usage


def _print(result: dict[str, Any], args: argparse.Namespace, here: str | None) -> None:
    name = shown(" ".join(result["command"] or ["?"]))
    kind = " sampled" if result["sampled"] else ", all of it"
    many = counted(result["instructions"], "instruction")
    print(f"{name}: {many} in {counted(result['epochs'], 'epoch')}{kind}")
    if (u := result.get("usage")) and u["user"] is not None:
        many = f" of {u['processes']} processes" if u["processes"] > 1 else ""
        print(
            f"meanwhile {u['user']:.1f} s of user code, {u['system']:.1f} s in the kernel, "
            f"{u['threads']} thread{'s' * (u['threads'] != 1)}{many}"
        )
    for warning in result["warnings"]:
        print(f"warning: {warning}")
    _print_real(result["real_machines"])
    if result["machines"]:
        _print_machines(result, here)
        if args.by:
            top = None if args.by == "phase" else args.top
            _print_parts(result, args.by, result["parts"][:top])
        elif "processes" in result:
            _print_parts(result, "process", result["processes"])
        print("±: of the samples and of the model; ~: perhaps as fast as the fastest")
    for line in result["notes"]:
        print(f"note: {shown(line)}")


def _print_machines(result: dict[str, Any], here: str | None) -> None:
    """The model's, the fastest first."""
    best = result["machines"][0]["ns_per_instruction"]
    timed = result["machines"][0]["seconds"] is not None
    print(
        f"{'machine':<16}{'ns/instr':>10}{'± 95 %':>9}{'x best':>8}{'CPI':>8}"
        + (f"{'this run':>12}" if timed else "")
    )
    for m in result["machines"]:
        ns, half = m["ns_per_instruction"], m["ns_half_interval"]
        if ns is None:
            print(f"{m['name']:<16}{'?':>10}{'':>9}{'':>8}{m['cpi']:>8.2f}")
            continue
        wide = "?" if half is None else f"{half / ns:.1%}"
        wide += "~" if m["tied_with_fastest"] and m is not result["machines"][0] else " "
        run = _run_time(m["seconds"]) if timed else ""
        mark = "  (this computer)" if m["name"] == here else ""
        print(f"{m['name']:<16}{ns:>10.3f}{wide:>9}{ns / best:>8.2f}{m['cpi']:>8.2f}{run}{mark}")


def _print_real(machines: list[dict[str, Any]]) -> None:
    """This computer and the real processors, in front of gem5's machines."""
    if not machines:
        return
    timed = machines[0]["seconds"] is not None
    title = f"{'real processor':<16}{'ns/instr':>10}{'CPI':>8}"
    print(title + (f"{'this run':>12}" if timed else "") + "  checked on hardware")
    for m in machines:
        run = _run_time(m["seconds"]) if timed else ""
        mark = "  (this computer)" if m["here"] else ""
        told = f"{m['name']:<16}{m['ns_per_instruction']:>10.3f}{m['cpi']:>8.2f}{run}"
        print(f"{told}  {m['checked_on_hardware']}{mark}")


def _run_time(seconds: float) -> str:
    """Of the whole run, 12 characters; a short one has digits, too."""
    if seconds < 1e-3:
        return f"{1e3 * seconds:>9.3g} ms"
    return f"{seconds:>10.2f} s" if seconds >= 1 else f"{seconds:>10.3g} s"


def _print_parts(result: dict[str, Any], by: str, parts: list[dict[str, Any]]) -> None:
    # The fastest and the slowest, which may be one.
    names = dict.fromkeys(result["machines"][k]["name"] for k in (0, -1))
    print(f"share of the time by {by}{'':<34}" + "".join(f"{name:>14}" for name in names))
    for part in parts:
        shares = "".join(f"{part['share'][name]:>14.1%}" for name in names)
        print(f"  {shown(part['name']):<50}{shares}")
