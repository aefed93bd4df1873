"""``tracekit record --engine qemu``: whole programs of three instruction sets (docs/qemu.md)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from tracekit.cli.report import reported
from tracekit.cli.unused import refuse
from tracekit.errors import UsageError
from tracekit.text import counted, note

#: Options that only stepping has, and those that only QEMU has.
_OF_STEPS = (
    *("pid", "period", "random", "seed", "count", "duration", "threads", "wait", "copy_seconds"),
    *("max_overhead", "follow_forks", "in_place", "normal_priority"),
)
_OPTIONS = (
    *("isa", "qemu", "root", "cpu", "skip", "insts", "start", "stop", "marks", "every", "touched"),
)
OF_QEMU = (*_OPTIONS, "no_follow_exec")


def add_arguments(p: argparse.ArgumentParser) -> None:
    """The options of the engine, and which one it is."""
    p.add_argument(
        "--engine",
        choices=["steps", "qemu"],
        default="steps",
        help="steps: of a copy of the running program; qemu: the whole program, emulated (steps)",
    )
    g = p.add_argument_group("recording under QEMU (--engine qemu)")
    g.add_argument(
        "--isa",
        choices=["auto", "x86", "arm", "riscv"],
        default="auto",
        help="of the program (auto: as its file says)",
    )
    g.add_argument("--qemu", metavar="FILE", help="the emulator (qemu-x86_64, qemu-aarch64, ...)")
    g.add_argument("-L", "--root", metavar="DIR", help="where the program's libraries lie")
    g.add_argument("--cpu", metavar="NAME", help="QEMU's -cpu")
    g.add_argument(
        "--skip", type=int, default=0, metavar="N", help="instructions to leave out first"
    )
    g.add_argument("--insts", type=int, metavar="N", help="record so many, then only run")
    g.add_argument(
        "--start", metavar="WHERE", help="a pc or a function: record from its first instruction on"
    )
    g.add_argument("--stop", metavar="WHERE", help="a pc or a function: record no further")
    g.add_argument(
        "--marks", action="store_true", help="record between the marks in the program's code"
    )
    g.add_argument(
        "--every",
        type=int,
        metavar="N",
        help="samples of --insts instructions, one every N; the whole run is counted",
    )
    g.add_argument(
        "--touched",
        action="store_true",
        help="before each sample an epoch of the lines touched since the one before",
    )
    g.add_argument(
        "--no-follow-exec",
        action="store_true",
        help="programs that the program executes run without QEMU",
    )


def check(args: argparse.Namespace, of_steps: tuple[str, ...] = _OF_STEPS) -> None:
    """Raises `UsageError` for options that the chosen engine does not have."""
    if args.engine == "qemu":
        if args.pid is not None:
            raise UsageError(
                "--engine qemu runs a program from its start: it cannot join --pid",
                hint="name the program after --, or leave out --engine qemu",
            )
        refuse(args, of_steps, "with --engine qemu, which runs the whole program")
    else:
        refuse(args, OF_QEMU, "without --engine qemu")


def options_of(args: argparse.Namespace, *, to_error: bool = False) -> Any:
    """The `QemuOptions` of the command line; ``to_error``: where the program's output goes."""
    from tracekit.record.qemu import QemuOptions

    return QemuOptions(
        **{k: getattr(args, k) for k in _OPTIONS},
        epoch=args.epoch,
        follow_exec=not args.no_follow_exec,
        aslr=not getattr(args, "no_aslr", False),  # predict has no such option
        output_to_error=to_error,
    )


def run(args: argparse.Namespace, argv: list[str]) -> int:
    """Run ``tracekit record qemu``; returns the exit code."""
    from tracekit.record.qemu import record_qemu

    def tell(message: str) -> None:
        if not args.quiet:
            note(message)

    if args.output.endswith(".zst"):
        return _features(args, argv, tell)
    totals = record_qemu(argv, args.output, options_of(args), force=args.force, progress=tell)
    if not reported(args, totals.as_dict(), to=sys.stderr, indent=None):
        note(
            f"{args.output}: {counted(totals.instructions, 'instruction')}, "
            f"{counted(totals.accesses, 'access', 'accesses')} of "
            f"{counted(totals.processes, 'process', 'processes')} and "
            f"{counted(totals.threads, 'thread')} in {totals.seconds:.1f} s"
        )
        for name, n in totals.silent.items():
            note(f"{n} x {name}: this QEMU does not show its accesses")
        for kind, n in totals.anomalies.items():
            note(f"{n} x {kind}")
    return _status(totals.exit_status, totals.explanation)


def _features(args: argparse.Namespace, argv: list[str], tell: Callable[[str], None]) -> int:
    """Straight to a feats.zst."""
    from tracekit.cli.cmd_extract import warn
    from tracekit.record.qemu import extract_qemu

    result, session = extract_qemu(
        argv, args.output, options_of(args), force=args.force, progress=tell
    )
    warn(result)
    outputs = [vars(o) for o in result.outputs]
    told = {"outputs": outputs, "anomalies": result.anomalies, "stats": result.stats}
    if not reported(args, told, to=sys.stderr, indent=None):
        for o in result.outputs:
            note(f"{o.path}: {counted(o.rows, 'row')}, {o.bytes} bytes")
        for name, n in session.silent().items():
            note(f"{n} x {name}: this QEMU does not show its accesses")
    return _status(session.status, session.explain())


def _status(status: int | None, explanation: str | None) -> int:
    """The program's exit status as ours."""
    from tracekit.record import exit_code

    if explanation:
        sys.stderr.write(f"tracekit: {explanation}\n")
    return exit_code(status)
