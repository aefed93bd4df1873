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
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TextIO

from tracekit._version import __version__
from tracekit.cli.commands import COMMANDS
from tracekit.cli.intermixed import Intermixed
from tracekit.cli.report import check_outputs
from tracekit.cli.suggesting import OfAllCommands
from tracekit.entry_points import EntryPointWarning
from tracekit.errors import TracekitError, UsageError
from tracekit.extras import needed
from tracekit.old_names import OldNameWarning, current_arguments, current_command
from tracekit.text import Escaped, shown

#: Those that neither multiply matrices nor start programs.  OpenBLAS, which NumPy brings, would
#: start a thread for each core, which spins for a while: a third of the processor time of a start.
WITHOUT_BLAS = {
    *(
        "extract",
        "info",
        "verify",
        "dump",
        "export",
        "epochs",
        "diff",
        "hot",
        "mrc",
        "plugin",
        "runs",
    ),
}

_PLAIN = warnings.formatwarning

DONE, BAD_INPUT, USAGE, INTERRUPTED = 0, 1, 2, 130


def create_parser(only: str | None = None) -> argparse.ArgumentParser:
    """The whole parser, or that of one command (the others' modules are not imported; of "" none
    is)."""
    parser = OfAllCommands(
        prog="tracekit",
        description="Instruction traces to features, datasets and fast predictions.",
        epilog="`tracekit COMMAND --help` has a command's options.",
    )
    parser.add_argument("--version", action="version", version=f"tracekit {__version__}")
    sub = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True, parser_class=Intermixed
    )
    for name, help_text in COMMANDS.items():
        if only not in (None, name):
            sub.add_parser(name, help=help_text)
            continue
        module = importlib.import_module(f"tracekit.cli.cmd_{name.replace('-', '_')}")
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


def retried(unraisable: Any) -> None:
    """For sys.unraisablehook: Ctrl-C that came where no exception can be raised comes again."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        # By a timer, not by a thread: starting one may take longer than until the signal comes.
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
    else:
        sys.__unraisablehook__(unraisable)


def main(argv: Sequence[str] | None = None, ready: Callable[[], None] = lambda: None) -> int:
    """Runs one command; its exit code.  ``argv``: the process's own arguments unless given;
    ``ready`` is called when everything is imported that is needed before the command starts."""
    args = list(sys.argv[1:] if argv is None else argv)
    command = next((a for a in args if not a.startswith("-")), None)
    known = command if command in COMMANDS or command is None else ""
    if argv is None:
        _open_standard_files()
        if known in WITHOUT_BLAS:
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if isinstance(sys.stdout, io.TextIOWrapper):
        # The text of a trace may not fit the terminal's encoding.
        sys.stdout.reconfigure(errors="backslashreplace")
    before, format_before = sys.stdout, warnings.formatwarning
    warnings.formatwarning = _one_line  # type: ignore[assignment]
    out = sys.stdout = Escaped(before)
    try:
        return _run(args, known, ready, out)
    except TracekitError as e:
        return _fail(e, USAGE if isinstance(e, UsageError) else BAD_INPUT)
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    except Stopped as e:
        return _fail(f"stopped by {signal.Signals(e.number).name}", 128 + e.number)
    except BrokenPipeError:  # the reader of our output went away
        _mute(before)
        return DONE
    except MemoryError:
        return _fail("out of memory", BAD_INPUT)
    except OSError as e:
        if e.filename is None:
            _mute(before)
        place = f"{e.filename}: " if e.filename else ""
        return _fail(f"{place}{e.strerror or e}", BAD_INPUT)
    except Exception as e:
        return _unforeseen(e)
    finally:
        sys.stdout = before
        warnings.formatwarning = format_before
        try:
            sys.stderr.flush()
        except (OSError, ValueError):  # it is full: the exit code is that of the command
            _mute(sys.stderr)


def _run(args: list[str], known: str | None, ready: Callable[[], None], out: Escaped) -> int:
    with stoppable():
        try:
            known, args = current_command(known, args)
            parsed = create_parser(known).parse_args(current_arguments(known, args))
        except SystemExit:  # of --help, which may not have been written
            if out.failed is not None:
                raise out.failed from None
            sys.stdout.flush()
            raise
        ready()
        check_outputs(parsed)
        code: int = parsed.func(parsed)
        sys.stdout.flush()
        return code


def _unforeseen(e: Exception) -> int:
    """The last resort: one line for what nobody thought of."""
    if os.environ.get("TRACEKIT_DEBUG") == "1":
        import traceback

        traceback.print_exc()
    if isinstance(e, ModuleNotFoundError) and (missing := needed(e.name or "")) is not None:
        return _fail(missing, USAGE)
    what = f"{type(e).__name__}: {e}" if str(e) else type(e).__name__
    return _fail(f"{what[:1000]} (TRACEKIT_DEBUG=1 tells where; please report it)", BAD_INPUT)


def _open_standard_files() -> None:
    """Where the shell closed one (``>&-``), a file that cannot be used takes its number, so that no
    other file gets it."""
    for number, flags in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, flags)  # the lowest number that is free
            os.set_inheritable(number, True)
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115


def _mute(stream: TextIO) -> None:
    """A standard stream takes nothing more: what is left in its buffer must not fail once more at
    exit."""
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


def _one_line(message: Warning | str, category: type[Warning], *where: Any) -> str:
    """How ``warnings`` prints: what is about a user's files has no place in our sources."""
    if issubclass(category, OldNameWarning | EntryPointWarning):
        return f"tracekit: {shown(message)}\n"
    return _PLAIN(message, category, *where)


def _fail(error: object, code: int) -> int:
    """One line, whatever a file's name or a message holds; none where standard error takes none."""
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"tracekit: {shown(error)}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
