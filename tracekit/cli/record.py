"""``tracekit record``: what a running program does, instruction by instruction, in epochs."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from types import FrameType
from typing import Any

from tracekit.errors import UsageError


def add_parser(sub: Any, help_text: str) -> None:
    p = sub.add_parser(
        "record",
        help=help_text,
        description="Records epochs of a program's user code by stepping copy-on-write copies of "
        "it (Linux, x86-64; docs/record.md).",
        usage="%(prog)s [options] -- PROGRAM [ARGUMENTS]\n       %(prog)s [options] --pid PID",
    )
    p.add_argument("program", nargs=argparse.REMAINDER, help="what to start and record, after --")
    p.add_argument("--pid", type=int, help="record this running process instead")
    p.add_argument("-o", "--output", default="recording.tks", help="the file (recording.tks)")
    p.add_argument(
        "--epoch", type=int, default=100_000, metavar="N", help="instructions of an epoch (100000)"
    )
    p.add_argument(
        "--period", type=float, default=10.0, metavar="S", help="seconds from epoch to epoch (10)"
    )
    p.add_argument(
        "--random", action="store_true", help="at random moments, on average a period apart"
    )
    p.add_argument("--seed", type=int, help="of those moments")
    p.add_argument("--count", type=int, metavar="N", help="stop after so many epochs")
    p.add_argument("--duration", type=float, metavar="S", help="stop after so many seconds")
    p.add_argument(
        "--threads",
        default="all",
        metavar="WHICH",
        help="all (in turn), main, or a thread's number",
    )
    p.add_argument(
        "--wait", type=float, default=1.0, metavar="S", help="for a system call to return (1)"
    )
    p.add_argument(
        "--copy-seconds", type=float, default=60.0, metavar="S", help="longest life of a copy (60)"
    )
    p.add_argument(
        "--max-overhead",
        type=_fraction,
        metavar="P%",
        help="choose the period so that the program loses less, e.g. 0.1%%",
    )
    p.add_argument("--follow-forks", action="store_true", help="record child processes too")
    p.add_argument(
        "--follow-exec", action="store_true", help="go on when the program becomes another one"
    )
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
        help="of the copy: on a machine that is always busy it never runs at the lowest",
    )
    p.add_argument(
        "--no-aslr",
        action="store_true",
        help="start it with its memory at the same addresses in each run",
    )
    p.add_argument("--json", action="store_true", help="the totals as JSON on standard error")
    p.add_argument("-q", "--quiet", action="store_true", help="no line for each epoch")
    p.set_defaults(func=run)


def _fraction(text: str) -> float:
    try:
        return float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError("give a percentage, as in 0.1%") from None


def _end(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def run(args: argparse.Namespace) -> int:
    from tracekit.record import RecordOptions, record_command, record_pid

    argv = args.program[1:] if args.program[:1] == ["--"] else args.program
    if (args.pid is None) == (not argv):
        raise UsageError("give a program to start, after --, or --pid")
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
            sys.stderr.write(f"tracekit: {message}\n")

    if options.in_place:
        tell("stepping the program itself: while an epoch lasts it runs some thousand times slower")
    if options.full:
        tell("stepping the whole program: it runs some thousand times slower")
    signal.signal(signal.SIGTERM, _end)
    if args.pid is None:
        totals = record_command(argv, args.output, options, progress=tell)
    else:
        totals = record_pid(args.pid, args.output, options, progress=tell)
    if args.json:
        sys.stderr.write(json.dumps(totals.as_dict()) + "\n")
    else:
        skipped = "".join(f", {n} skipped ({why})" for why, n in totals.skipped.items())
        tell(
            f"{args.output}: {totals.epochs} epochs, {totals.instructions} instructions{skipped}; "
            f"the program lost {100 * totals.overhead:.3g} % of {totals.seconds:.1f} s: pauses "
            f"{1e3 * totals.paused:.1f} ms, copied pages {1e3 * totals.page_copies:.1f} ms, "
            f"waited for a processor {1e3 * totals.contended:.1f} ms while copies ran "
            f"({totals.processor:.2f} s)"
            + (f"; period chosen {totals.period} s" if totals.period is not None else "")
        )
    if totals.exit_status is None:
        return 0
    if os.WIFSIGNALED(totals.exit_status):
        return 128 + os.WTERMSIG(totals.exit_status)
    return os.waitstatus_to_exitcode(totals.exit_status)
