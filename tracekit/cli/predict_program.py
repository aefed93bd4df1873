"""What ``tracekit predict`` does with programs, processes and recordings."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tracekit.errors import UsageError

__all__ = ["add_arguments", "run"]


def add_arguments(p: Any) -> None:
    """The options of recording."""
    g = p.add_argument_group("recording (of a program or process)")
    g.add_argument("--pid", type=int, help="sample this running process")
    g.add_argument("--seconds", type=float, default=15.0, help="how long to sample (15)")
    g.add_argument("--epoch", type=int, default=20_000, help="instructions of an epoch (20000)")
    g.add_argument("--period", type=float, default=0.5, help="mean seconds between epochs (0.5)")
    g.add_argument("--count", type=int, metavar="N", help="stop after so many epochs")
    g.add_argument("--seed", type=int, help="of the epochs' random moments")
    g.add_argument("--full", action="store_true", help="step all of a short program instead")
    g.add_argument(
        "--leave", action="store_true", help="a program started here runs on after the sampling"
    )
    g.add_argument("--record", metavar="FILE", help="keep the recording (.tks)")
    g.add_argument("--here", metavar="NAME", help="the --machine that this computer is")
    g.add_argument("--plot", metavar="FILE", help="machines x CPI with intervals (.png, .svg)")


def run(args: argparse.Namespace, command: list[str], recording: str | None) -> int:
    """Sample ``command`` or ``args.pid``, or read ``recording``; predict and print."""
    from tracekit.perfvec import load_model
    from tracekit.perfvec.live import features_of
    from tracekit.perfvec.program import predict_program
    from tracekit.perfvec.tune import add_machines
    from tracekit.store.reader import TraceFile

    model = load_model(args.model, "x86")
    if args.machine:
        model = add_machines(model, args.machine)
    here = args.here or _measured(model, args.machine)
    if here:
        model.index([here])
    begin = time.monotonic()
    with contextlib.ExitStack() as cleanup:
        folder = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="tracekit-")))
        usage = None
        if recording is None:
            recording = args.record or str(folder / "sample.tks")
            usage = _record(args, command, recording)
        recorded = time.monotonic()
        features = folder / "sample.zst"
        features_of(recording, features)
        trace = cleanup.enter_context(TraceFile(features))
        result = predict_program(
            model,
            trace,
            by=args.by,
            usage=usage,
            here=here,
            binary=args.binary,
            threads=args.threads,
        )
    result["path"] = recording if args.record or usage is None else None
    if args.uarch:
        model.index(args.uarch)
        result["machines"] = [m for m in result["machines"] if m["name"] in args.uarch]
        for part in result.get("parts", []):
            for key in ("share", "cpi"):
                if key in part:
                    part[key] = {k: v for k, v in part[key].items() if k in args.uarch}
    now = time.monotonic()
    result["cost"] = {"recording": recorded - begin, "analysis": now - recorded}
    if args.save:
        import numpy as np

        np.save(args.save, np.array(result["representation"]))
    if args.plot:
        from tracekit.perfvec.plot import machines_plot

        machines_plot(result, args.plot)
    if args.json:
        print(json.dumps(result, indent=1))
    else:
        _print(result, args, here)
    return 0


def _measured(model: Any, files: list[str] | None) -> str | None:
    """The machine among ``files`` that was measured on this computer (tune --measure)."""
    for m in model.machines if files else ():
        if m.get("measured"):
            return str(m["name"])
    return None


def _record(args: argparse.Namespace, command: list[str], output: str) -> Any:
    from tracekit.perfvec.live import sample
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
        count=None if args.full else args.count,
        follow_exec=True,
        lowest_priority=False,
    )
    shown = sys.stderr.isatty() and not args.json
    begin = time.monotonic()

    def progress(epochs: int, message: str) -> None:
        if shown:
            left = "" if args.full else f" of {args.seconds:.0f}"
            sys.stderr.write(f"\r{epochs} epochs, {time.monotonic() - begin:.0f}{left} s ")
            sys.stderr.flush()

    usage = sample(
        output,
        options,
        command=command or None,
        pid=args.pid,
        leave=args.leave,
        progress=progress,
    )
    if shown:
        sys.stderr.write("\r\x1b[K")
    return usage


def _print(result: dict[str, Any], args: argparse.Namespace, here: str | None) -> None:
    name = " ".join(result["command"] or ["?"])
    kind = "epochs sampled" if result["sampled"] else "epochs, all of it"
    print(f"{name}: {result['instructions']:,} instructions in {result['epochs']} {kind}")
    if u := result.get("usage"):
        print(
            f"meanwhile {u['user']:.1f} s of user code, {u['system']:.1f} s in the kernel, "
            f"{u['threads']} thread{'s' * (u['threads'] != 1)}"
        )
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
        run = f"{m['seconds']:>10.2f} s" if timed else ""
        mark = "  (this computer)" if m["name"] == here else ""
        print(f"{m['name']:<16}{ns:>10.3f}{wide:>9}{ns / best:>8.2f}{m['cpi']:>8.2f}{run}{mark}")
    if args.by:
        _print_parts(result, args)
    for note in result["notes"]:
        print(f"note: {note}")


def _print_parts(result: dict[str, Any], args: argparse.Namespace) -> None:
    first, last = result["machines"][0]["name"], result["machines"][-1]["name"]
    print(f"share of the time by {args.by}{'':<34}{first:>14}{last:>14}")
    for part in result["parts"][: None if args.by == "phase" else args.top]:
        share = part["share"]
        print(f"  {part['name']:<50}{share[first]:>14.1%}{share[last]:>14.1%}")
