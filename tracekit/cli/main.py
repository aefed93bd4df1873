"""``tracekit COMMAND``: finds the command, runs it, and turns errors into one line and an exit
code."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence

from tracekit._version import __version__
from tracekit.errors import TracekitError, UsageError

#: Command -> what it does; each is a module of this folder with add_parser and run.
COMMANDS = {
    "record": "a running program to a recording (.tks)",
    "extract": "a trace to a feats.zst",
    "info": "what a feats.zst holds",
    "verify": "check every checksum and invariant of a feats.zst",
    "dump": "rows as CSV or JSON lines",
    "export": "to Parquet, Arrow or NumPy files",
    "quantize": "int8 weights for a model, calibrated on traces",
    "neutrino": "a model on NeuroScalar's accelerator: cycles, buffers, speed",
    "epochs": "epochs of 100,000 instructions, and how many are distinct",
    "diff": "two traces of one program, row by row and column by column",
    "hot": "the functions, lines or files that the instructions were in",
    "mrc": "miss ratios of fully associative LRU caches of every size",
    "train": "a model folder from a dataset",
    "evaluate": "errors on unseen programs and machines, beside the baselines",
    "predict": "time of a program on every known machine",
    "compare": "designs against one another, instruction by instruction",
    "tune": "a new machine's row from short traces",
    "dse": "rank a grid of designs by an objective",
    "join": "targets on many machines beside one copy of the features",
}

#: Those that neither multiply matrices nor start programs.  OpenBLAS, which NumPy brings, would
#: start a thread for each core, which spins for a while: a third of the processor time of a start.
WITHOUT_BLAS = {"extract", "info", "verify", "dump", "export", "epochs", "diff", "hot", "mrc"}

DONE, BAD_INPUT, USAGE, INTERRUPTED = 0, 1, 2, 130


def create_parser(only: str | None = None) -> argparse.ArgumentParser:
    """The whole parser, or that of one command (the others' modules are not imported)."""
    parser = argparse.ArgumentParser(
        prog="tracekit",
        description="Instruction traces to features, datasets and fast predictions.",
    )
    parser.add_argument("--version", action="version", version=f"tracekit {__version__}")
    sub = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, help_text in COMMANDS.items():
        if only not in (None, name):
            sub.add_parser(name, help=help_text)
            continue
        module = importlib.import_module(f"tracekit.cli.{name}")
        module.add_parser(sub, help_text)
    return parser


class Stopped(BaseException):
    """A signal that asks to end; raised where the main thread is, so that everything is cleaned
    up."""

    def __init__(self, number: int) -> None:
        self.number = number


def _stop(number: int, _: object) -> None:
    signal.signal(
        number, signal.SIG_IGN
    )  # one is enough; a second one must not cut the cleaning short
    raise Stopped(number)


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """SIGTERM and SIGHUP raise Stopped, as SIGINT raises KeyboardInterrupt; in the main thread
    only."""
    before = {}
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if (
                number is not None and signal.getsignal(number) == signal.SIG_DFL
            ):  # nohup ignores SIGHUP
                before[number] = signal.signal(number, _stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave(number: int, _: object) -> None:
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)


def end_with_signals() -> None:
    """For worker processes: SIGTERM ends them by way of all that is to be cleaned up.

    Ctrl-C, which a terminal sends to all, is for who started them.
    """
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def main(argv: Sequence[str] | None = None) -> int:
    args = list(sys.argv[1:] if argv is None else argv)
    command = next((a for a in args if not a.startswith("-")), None)
    known = command if command in COMMANDS else None
    if argv is None and known in WITHOUT_BLAS:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if isinstance(
        sys.stdout, io.TextIOWrapper
    ):  # the text of a trace may not fit the terminal's encoding
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with stoppable():
            parsed = create_parser(known).parse_args(args)
            code: int = parsed.func(parsed)
            sys.stdout.flush()
            return code
    except UsageError as e:
        return _fail(e, USAGE)
    except TracekitError as e:
        return _fail(e, BAD_INPUT)
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    except Stopped as e:
        return _fail(f"stopped by {signal.Signals(e.number).name}", 128 + e.number)
    except BrokenPipeError:  # the reader of our output went away
        _mute()
        return DONE
    except MemoryError:
        return _fail("out of memory", BAD_INPUT)
    except OSError as e:
        if e.filename is None:
            _mute()
        place = f"{e.filename}: " if e.filename else ""
        return _fail(f"{place}{e.strerror or e}", BAD_INPUT)


def _mute() -> None:
    """Standard output takes nothing more: what is left in its buffer must not fail once more at
    exit."""
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


def _fail(error: object, code: int) -> int:
    """One line, whatever a file's name or a message holds."""
    text = "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(error)
    )
    sys.stderr.write(f"tracekit: {text}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
