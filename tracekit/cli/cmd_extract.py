"""``tracekit extract INPUT -o FEATS``: a trace (of gem5, DynamoRIO, ChampSim, QEMU, Valgrind, or a
recording) to a feats.zst, with a row for each micro-op or instruction (docs/inputs.md)."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path
from typing import Any

from tracekit.cli.clustered import add_cluster, run_of, wanted
from tracekit.cli.common_options import add_force
from tracekit.cli.main import end_with_signals
from tracekit.cli.numbers import at_least
from tracekit.cli.report import add_json, reported
from tracekit.cli.unused import refuse
from tracekit.cpus import available_cores
from tracekit.errors import TracekitError, UsageError
from tracekit.extraction import extract
from tracekit.extraction_types import CHUNK_ROWS, HARMLESS, ExtractionResult
from tracekit.inputs import STDIN
from tracekit.io.output import kept_folder
from tracekit.io.remote import expanded, public_name, remote_url
from tracekit.progress import Progress
from tracekit.store.debug_flags import sentences
from tracekit.text import counted, note, shown


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit extract``."""
    p = sub.add_parser("extract", help=help_text, description=__doc__)
    p.add_argument(
        "input",
        nargs="+",
        help="trace, plain or .gz .zst .xz, or a feats.zst of micro-ops; - = standard input",
    )
    p.add_argument(
        "-o", "--output", required=True, help="file; for several inputs, a folder (ends in /)"
    )
    p.add_argument(
        "--level",
        choices=("auto", "micro", "macro"),
        default="auto",
        help="a row is a micro-op or an instruction (auto: a micro-op where the input has them)",
    )
    p.add_argument("--cpu", help="keep this CPU only; else each gets a file")
    p.add_argument(
        "--start",
        type=at_least(0),
        default=0,
        metavar="N",
        help="rows to leave out (they warm up the features)",
    )
    p.add_argument("--cold", action="store_true", help="rows before --start do not warm up")
    p.add_argument("--count", type=at_least(1), metavar="N", help="rows to keep")
    p.add_argument(
        "--binary", metavar="ELF", help="the traced program: its machine code is decoded"
    )
    p.add_argument(
        "--gem5-operands", action="store_true", help=".tkt: gem5's own registers and access sizes"
    )
    p.add_argument("--history", type=int, default=8, help="outcomes in a branch history (8)")
    p.add_argument("--line-bytes", type=int, default=64, help="cache line (64)")
    p.add_argument("--clock-ps", type=int, help="the CPU's clock period; else found from the ticks")
    p.add_argument(
        "--chunk-rows", type=int, default=CHUNK_ROWS, help=f"rows a chunk ({CHUNK_ROWS})"
    )
    add_force(p)
    p.add_argument("--strict", action="store_true", help="an anomaly in the input is an error")
    p.add_argument("--sha256", action="store_true", help="hash the input with SHA-256, too")
    p.add_argument(
        "--verify", action="store_true", help="read the file back and compare it with its rows"
    )
    p.add_argument("-j", "--jobs", type=int, default=1, metavar="N", help="inputs at a time (1)")
    p.add_argument(
        "--threads",
        choices=("separate", "interleaved"),
        default="separate",
        help="of a drmemtrace folder: a file a thread, or one by timestamps",
    )
    p.add_argument("--isa", choices=("x86", "arm", "riscv"), help="of a QEMU execlog; else found")
    p.add_argument("-q", "--quiet", action="store_true", help="no progress, no summary")
    add_json(p, "the summary as JSON on standard output")
    add_cluster(p)
    p.set_defaults(func=run, parser=p)


_OPTIONS = (
    *("level", "cpu", "start", "count", "cold", "binary", "gem5_operands", "history", "line_bytes"),
    *("clock_ps", "chunk_rows", "force", "strict", "sha256", "threads", "isa", "verify"),
)


def _output_of(path: str, folder: str) -> str:
    name = Path(public_name(path)).name if path != STDIN else "stdin"
    for suffix in (".gz", ".zst", ".xz"):
        name = name.removesuffix(suffix)
    for suffix in (".out", ".txt"):
        name = name.removesuffix(suffix)
    return f"{folder.rstrip('/')}/{name}.feats.zst"


#: Input, output, quiet, options.
_Job = tuple[str, str, bool, dict[str, Any]]


def _one(job: _Job) -> ExtractionResult | TracekitError:
    path, output, quiet, options = job
    try:
        return extract(path, output, quiet=quiet, **options)
    except TracekitError as e:
        return e


def run(args: argparse.Namespace) -> int:
    """Run ``tracekit extract``; returns the exit code."""
    options = {k: getattr(args, k) for k in _OPTIONS}
    args.input = [e for p in args.input for e in (expanded(p) if remote_url(p) else [p])]
    many = wanted(args)
    several = len(args.input) > 1 or args.output.endswith("/") or Path(args.output).is_dir()
    if many:
        refuse(args, ("jobs",), "with --cluster or --run, whose workers have a task each")
    if args.jobs < 1:
        raise UsageError("--jobs: at least 1")
    if not args.start:
        refuse(args, ("cold",), "without --start")
    if not several and many:
        return _many(args, [args.output], options)
    if not several:
        result = extract(args.input[0], args.output, quiet=args.quiet, **options)
        _report(args, [result])
        return 0
    folder = Path(args.output)
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; several inputs need a folder")
    outputs = [_output_of(p, args.output) for p in args.input]
    if twice := next((o for o in outputs if outputs.count(o) > 1), None):
        same = [p for p, o in zip(args.input, outputs, strict=True) if o == twice]
        raise UsageError(
            f"{same[0]} and {same[1]} would have the same output, {twice}",
            hint="extract them one by one, each with an -o of its own",
        )
    if many:
        return _many(args, outputs, options)
    quiet = args.quiet or args.jobs > 1
    work = [(p, o, quiet, options) for p, o in zip(args.input, outputs, strict=True)]
    jobs = min(args.jobs, len(work))
    with kept_folder(folder):
        done = [_one(w) for w in work] if jobs == 1 else _at_once(work, jobs, args.quiet)
    results = [d for d in done if isinstance(d, ExtractionResult)]
    _report(args, results)
    for d in done:
        if isinstance(d, TracekitError):
            note(d)
    return 0 if len(results) == len(done) else 1


def _many(args: argparse.Namespace, outputs: list[str], options: dict[str, Any]) -> int:
    """Tasks of a run, which keeps its records beside the features where they are local."""
    from tracekit.cluster import extract_many, extraction_of, state_of, write_parquet

    if STDIN in args.input:
        raise UsageError("standard input is no task of a run", hint="name a file")
    local = remote_url(args.output) is None
    one_file = outputs == [args.output]  # which records would lie beside
    place = str(Path(args.output).parent) if local and one_file else args.output
    folder = args.run if args.run is not None else args.output if local and not one_file else None
    with kept_folder(place), run_of(args, folder) as run:
        outcomes = extract_many(run, args.input, outputs, options, force=args.force)
        if folder is not None and importlib.util.find_spec("pyarrow") is not None:
            write_parquet(state_of(folder).traces, Path(folder) / "summary.parquet", force=True)
    done = [extraction_of(o) for o in outcomes if o.error is None]
    again = sum(o.again for o in outcomes)
    _report(args, done)
    if again and not args.quiet:
        note(f"{again} of {len(outcomes)} were done before")
    for o in outcomes:
        if o.error is not None:
            note(o.error)
    return 0 if len(done) == len(outcomes) else 1


def _at_once(work: list[_Job], jobs: int, quiet: bool) -> list[ExtractionResult | TracekitError]:
    """Each in a process.  One that has no second core for itself keeps to one thread."""
    # A tenth of the start, for --jobs alone.
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import active_children, get_context

    overlap = available_cores() >= 2 * jobs
    work = [(path, output, q, {**options, "overlap": overlap}) for path, output, q, options in work]
    sizes = [Path(w[0]).stat().st_size if Path(w[0]).is_file() else 0 for w in work]
    progress = Progress(f"{len(work)} inputs", sum(sizes) or None, "B", quiet=quiet)
    done: list[ExtractionResult | TracekitError] = []
    read = rows = 0
    others = set(active_children())
    # Not multiprocessing.Pool: it waits for ever for what a killed process had taken.
    pool = ProcessPoolExecutor(jobs, get_context("spawn"), end_with_signals)
    try:
        waiting = [pool.submit(_one, w) for w in work]
        for future, (path, *_), size in zip(waiting, work, sizes, strict=True):
            one: ExtractionResult | TracekitError
            try:
                one = future.result()
            except BrokenProcessPool:
                one = TracekitError(
                    f"{path}: not extracted: one of the processes of --jobs was ended from outside"
                )
            done.append(one)
            read += size
            rows += one.rows if isinstance(one, ExtractionResult) else 0
            progress.update(read, counted(rows, "row"))
    except BaseException:
        for process in set(active_children()) - others:
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        progress.close()
    return done


def _report(args: argparse.Namespace, results: list[ExtractionResult]) -> None:
    reported(args, lambda: [r.to_dict() for r in results])
    if args.quiet:
        return
    for r in results:
        warn(r)
        for o in r.outputs:
            several = len(r.outputs) > 1
            cpu = f" ({shown(o.cpu)})" if several else ""
            shows = not several and "squashed" in r.stats
            squashed = f", {r.stats['squashed']:,} squashed" if shows else ""
            sys.stderr.write(
                f"{shown(o.path)}{cpu}: {counted(o.rows, 'row')}, {o.bytes:,} bytes "
                f"({o.bytes / o.rows:.2f} a row){squashed}\n"
            )
        of_all = r.stats if len(r.outputs) > 1 else r.stats.get("all_cpus", {})
        if isinstance(of_all, dict) and of_all.get("squashed"):
            sys.stderr.write(
                f"{of_all['squashed']:,} squashed; the text does not say which CPU's they are\n"
            )


def warn(result: ExtractionResult) -> None:
    """Tells on stderr what was survived."""
    for kind, a in result.anomalies.items():
        if kind not in HARMLESS:
            where = f", the first at byte {a['first_offset']}" if "first_offset" in a else ""
            note(f"{a['count']} x {kind.replace('_', ' ')}{where}")
    for text in sentences(result.stats.get("missing_debug_flags", ())):
        note(text)
    if unit := result.stats.get("tick_unit"):
        note(f"--clock-ps: the ticks are multiples of {unit:,} ps, so cycles are no whole numbers")
