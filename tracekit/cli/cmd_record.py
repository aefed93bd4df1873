"""``tracekit record``: what a running program does, instruction by instruction, in epochs."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from tracekit.cli import cmd_record_qemu
from tracekit.cli.common_options import add_force
from tracekit.cli.numbers import at_least, seconds, seconds_or_none
from tracekit.cli.report import add_json, reported
from tracekit.cli.unused import refuse
from tracekit.errors import UsageError
from tracekit.text import counted, note

if TYPE_CHECKING:
    from tracekit.record import RecordOptions, Totals


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit record``."""
    p = sub.add_parser(
        "record",
        help=help_text,
        description="Records epochs of a program's user code by stepping copy-on-write copies of "
        "it (Linux, x86-64; docs/record.md), or a whole program of three instruction sets under "
        "QEMU (--engine qemu; docs/qemu.md).",
        usage="%(prog)s [options] -- PROGRAM [ARGUMENTS]\n       %(prog)s [options] --pid PID",
    )
    p.add_argument("program", nargs=argparse.REMAINDER, help="what to start and record, after --")
    p.add_argument("--pid", type=int, help="record this running process instead")
    p.add_argument("-o", "--output", default="recording.tks", help="the file (recording.tks)")
    add_force(p)
    p.add_argument(
        "--epoch", type=int, default=100_000, metavar="N", help="instructions of an epoch (100000)"
    )
    p.add_argument(
        "--period",
        type=seconds_or_none,
        default=10.0,
        metavar="S",
        help="seconds from epoch to epoch (10)",
    )
    p.add_argument(
        "--random", action="store_true", help="at random moments, on average a period apart"
    )
    p.add_argument("--seed", type=at_least(0), help="of the moments of --random")
    p.add_argument("--count", type=int, metavar="N", help="stop after so many epochs")
    p.add_argument("--duration", type=seconds, metavar="S", help="stop after so many seconds")
    p.add_argument(
        "--threads", default="all", metavar="WHICH", help="all in turn, main, or a thread's number"
    )
    p.add_argument(
        "--wait",
        type=seconds_or_none,
        default=1.0,
        metavar="S",
        help="how long to wait for a thread in a system call (1)",
    )
    p.add_argument(
        "--copy-seconds",
        type=seconds,
        default=60.0,
        metavar="S",
        help="longest life of a copy (60)",
    )
    p.add_argument(
        "--max-overhead",
        type=_fraction,
        metavar="P%",
        help="choose the period so that the program loses less, e.g. 0.1%%",
    )
    p.add_argument("--follow-forks", action="store_true", help="record child processes too")
    p.add_argument("--follow-exec", action="store_true", help="go on after the program calls exec")
    p.add_argument(
        "--in-place",
        action="store_true",
        help="step the program itself, through its system calls: slow",
    )
    p.add_argument(
        "--full",
        action="store_true",
        help="every instruction from the first one on: small programs",
    )
    p.add_argument(
        "--normal-priority",
        action="store_true",
        help="copies run at normal priority, not at the lowest (needed on a busy computer)",
    )
    p.add_argument(
        "--no-aslr",
        action="store_true",
        help="start it with its memory at the same addresses in each run",
    )
    cmd_record_qemu.add_arguments(p)
    add_json(p, "the totals as JSON on standard error")
    p.add_argument("-q", "--quiet", action="store_true", help="the summary alone")
    p.set_defaults(func=run, parser=p)


def _fraction(text: str) -> float:
    try:
        return float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError("give a percentage, as in 0.1%") from None


def _in_place(totals: Totals, options: RecordOptions) -> str:
    from tracekit.record import described

    if options.in_place or options.full or not totals.in_place:
        return ""
    why = f" ({described(totals.missing)})" if totals.missing else ""
    return (
        f"; {counted(totals.in_place, 'epoch')} stepped in the program itself: copies would lack "
        f"memory{why}"
    )


def _longer(options: RecordOptions) -> dict[str, str]:
    """What gives longer epochs, by why they ended."""
    busy = "--normal-priority where other programs keep the processors busy, else "
    busy = busy if options.lowest_priority else ""
    ended = f"{busy}--full, which records all of a short program"
    return {
        "time": f"{busy}longer --copy-seconds",
        "system_call": "--in-place steps through system calls",
        "shared_memory": "--in-place steps through writes to shared memory",
        **dict.fromkeys(("program_ended", "exited"), ended),
    }


def _why_none(totals: Totals, options: RecordOptions) -> str:
    """Why a recording holds no epoch, and what to do."""
    if totals.skipped:
        reasons = ", ".join(f"{n} x {why}" for why, n in totals.skipped.items())
        return (
            f"no epoch was recorded; tried in vain: {reasons} (--wait is the time that an epoch "
            "waits for a thread in a system call)"
        )
    if options.full:
        return "nothing was recorded"
    return (
        f"no epoch was recorded: it was over after {totals.seconds:.2g} s, before the first one "
        f"(--period {min(options.period, max(totals.seconds, 0.1)):.1g} records more often, "
        "--full all of a short program)"
    )


def _check_steps(args: argparse.Namespace) -> None:
    """Raises `UsageError` for options that mean nothing in the chosen way of stepping."""
    if not args.random:
        refuse(args, ("seed",), "without --random")
    if args.full:
        names = ("period", "duration", "wait", "copy_seconds", "threads")
        refuse(args, names, "with --full, which records the whole program")
    if args.in_place:
        refuse(args, ("copy_seconds",), "with --in-place, which makes no copies")
    if args.pid is not None:
        refuse(args, ("no_aslr",), "with --pid: the program runs already")


def run(args: argparse.Namespace) -> int:
    """Run ``tracekit record``; returns the exit code."""
    from tracekit.record import EndSignals, RecordOptions, exit_code, record_command, record_pid

    argv = args.program[1:] if args.program[:1] == ["--"] else args.program
    cmd_record_qemu.check(args)
    if (args.pid is None) == (not argv):
        other = "" if args.engine == "qemu" else ", or --pid"
        raise UsageError(f"give a program to start, after --{other}")
    if args.engine == "steps":
        _check_steps(args)
    if args.engine == "qemu":
        EndSignals()
        return cmd_record_qemu.run(args, argv)
    if args.threads not in ("all", "main") and not args.threads.isdigit():
        raise UsageError("--threads is all, main or a thread's number")
    options = RecordOptions(
        **{
            k: getattr(args, k)
            for k in (
                *("epoch", "period", "random", "seed", "count", "duration", "wait", "copy_seconds"),
                *("max_overhead", "follow_forks", "follow_exec", "in_place", "full"),
            )
        },
        lowest_priority=not args.normal_priority,
        aslr=not args.no_aslr,
        threads=int(args.threads) if args.threads.isdigit() else args.threads,
    )

    def tell(message: str) -> None:
        if not args.quiet:
            note(message)

    if options.in_place:
        tell("stepping the program itself: while an epoch lasts it runs some thousand times slower")
    if options.full:
        tell(
            "stepping the whole program: it runs some thousand times slower "
            "(--engine qemu: some tens of times, on QEMU's processor)"
        )
    signals = EndSignals()
    if args.pid is None:
        totals = record_command(argv, args.output, options, progress=tell, force=args.force)
    else:
        totals = record_pid(args.pid, args.output, options, progress=tell, force=args.force)
    if totals.epochs == 0:
        note(f"warning: {_why_none(totals, options)}")
    elif short := totals.shortfall(_longer(options)):
        tell(f"warning: {short}")
    if not reported(args, totals.as_dict(), to=sys.stderr, indent=None):
        skipped = "".join(f", {n} skipped ({why})" for why, n in totals.skipped.items())
        note(
            f"{args.output}: {counted(totals.epochs, 'epoch')}, "
            f"{counted(totals.instructions, 'instruction')}{skipped}; "
            f"the program lost {100 * totals.overhead:.3g} % of {totals.seconds:.1f} s: pauses "
            f"{1e3 * totals.paused:.1f} ms, copied pages {1e3 * totals.page_copies:.1f} ms, "
            f"waited for a processor {1e3 * totals.contended:.1f} ms while copies ran "
            f"({totals.processor:.2f} s)"
            + _in_place(totals, options)
            + (f"; period chosen {totals.period} s" if totals.period is not None else "")
        )
    if totals.exit_status is None and signals.number is not None:
        return 128 + signals.number
    return exit_code(totals.exit_status)
