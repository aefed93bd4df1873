"""``tracekit report FEATS -o report.html``: one file that shows where a program's time goes on
machines, and why.

Of features, of a recording (.tks), or of a program that is started and recorded first, as
``tracekit predict`` does it (Linux on x86-64; --engine qemu: a whole program of three instruction
sets).  The file needs no network and no other file.  At most 200 functions and 2,000 instructions
are in it, the costliest ones; it counts the others.
"""

from __future__ import annotations

import argparse
import contextlib
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit.cli import cmd_predict_program
from tracekit.cli.common_options import add_force, add_quiet, add_threads
from tracekit.cli.intermixed import Traces
from tracekit.cli.report import add_json, reported
from tracekit.text import counted

if TYPE_CHECKING:
    from tracekit import TraceFile

#: Shown unless others are named: those of the NeuroScalar paper.
MACHINES = ("ns_8w", "ns_6w_ls", "ns_rob", "ns_lsq", "ns_4w_mem")


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit report``."""
    p = sub.add_parser(
        "report",
        help=help_text,
        description=__doc__,
        usage="%(prog)s [options] FEATS.zst | RECORDING.tks\n"
        "       %(prog)s [options] -- PROGRAM [ARGUMENTS]\n       %(prog)s [options] --pid PID",
    )
    p.__class__ = Traces
    p.add_argument("what", nargs="*", help="a feats.zst, a recording, or after -- a program")
    p.add_argument(
        "-m",
        "--machine",
        nargs="+",
        action="extend",
        metavar="NAME|FILE",
        help=f"names, or JSON files; the first one's limits are shown ({', '.join(MACHINES)})",
    )
    p.add_argument("-o", "--output", required=True, metavar="HTML", help="the page's file")
    p.add_argument("--title", help="instead of the file's or the program's name")
    p.add_argument("--binary", metavar="ELF", help="the program, of a trace that does not tell it")
    add_force(p)
    add_threads(p)
    add_quiet(p)
    add_json(p, "its numbers as JSON too (docs/json.md)")
    cmd_predict_program.add_recording(p)
    p.set_defaults(func=run, parser=p)


def run(args: argparse.Namespace) -> int:
    """Run ``tracekit report``; returns the exit code."""
    from tracekit import TraceFile
    from tracekit.errors import UsageError
    from tracekit.io.output import check_output, scratch
    from tracekit.prediction import is_recording, is_trace_file

    if (args.pid is None) == (not args.what):
        raise UsageError("give a file, a program after --, or --pid")
    check_output(args.output, args.force)
    one = args.what[0] if len(args.what) == 1 else None
    if one is None and args.what and (is_trace_file(args.what[0]) or is_recording(args.what[0])):
        raise UsageError(f"{args.what[0]} is a trace, and a report is of one")
    with contextlib.ExitStack() as cleanup:
        if one is not None and is_trace_file(one):
            cmd_predict_program.check_recording(args, [], one)
            trace = cleanup.enter_context(TraceFile(one))
            return _write(args, trace, trace.path, [])
        recording = one if one is not None and is_recording(one) else None
        command = [] if recording is not None else args.what
        cmd_predict_program.check_recording(args, command, recording)
        features = cleanup.enter_context(scratch()) / "features.zst"
        path, usage, missing, _ = cmd_predict_program.record_features(
            args, command, recording, features
        )
        notes = [sentence[0].upper() + sentence[1:] for sentence in missing]
        if usage is not None and not usage.stepped and usage.system_share >= 0.01:
            notes.append(f"{usage.system_share:.0%} of its processor time was the kernel's")
        trace = cleanup.enter_context(TraceFile(features))
        kept = args.record is not None or recording is not None
        name = path if kept else shlex.join(args.what or [f"process {args.pid}"])
        return _write(args, trace, name, notes)


def _write(args: argparse.Namespace, trace: TraceFile, name: str, notes: list[str]) -> int:
    from tracekit.cli.machine_option import named_machine, told_apart
    from tracekit.io.output import write_bytes
    from tracekit.io.remote import public_name
    from tracekit.report import collect, page
    from tracekit.sim import machines as known

    arch = trace.arch
    if args.machine:
        named = told_apart(args.machine, lambda name: named_machine(name, arch))
        machines = [m.to_dict() for m in named]
    else:
        machines = [known()[m].to_dict() for m in MACHINES]
    data = collect(
        trace,
        machines,
        name=name,
        binary=args.binary,
        title=args.title or f"{Path(name).name} on {counted(len(machines), 'machine')}",
        command=shlex.join(["tracekit", *map(public_name, sys.argv[1:])]),
        threads=args.threads,
    )
    data["notes"] += notes
    write_bytes(args.output, page(data).encode(), force=args.force)
    if not reported(args, data):
        print(f"{args.output}: {data['machines'][0]['paragraph']}")
    return 0
