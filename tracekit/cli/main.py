"""``tracekit COMMAND``: finds the command, runs it, and turns errors into one line and an exit code."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

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
    "mrc": "miss ratios of fully associative LRU caches of every size",
    "train": "a model folder from a dataset",
    "evaluate": "errors on unseen programs and machines, beside the baselines",
    "predict": "time of a program on every known machine",
    "tune": "a new machine's row from short traces",
    "dse": "rank a grid of designs by an objective",
    "join": "targets on many machines beside one copy of the features",
}

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


def main(argv: Sequence[str] | None = None) -> int:
    args = list(sys.argv[1:] if argv is None else argv)
    command = next((a for a in args if not a.startswith("-")), None)
    known = command if command in COMMANDS else None
    try:
        parsed = create_parser(known).parse_args(args)
        code: int = parsed.func(parsed)
        sys.stdout.flush()
        return code
    except UsageError as e:
        return _fail(e, USAGE)
    except TracekitError as e:
        return _fail(e, BAD_INPUT)
    except KeyboardInterrupt:
        sys.stderr.write("tracekit: interrupted\n")
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output went away
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except MemoryError:
        return _fail("out of memory", BAD_INPUT)
    except OSError as e:
        place = f"{e.filename}: " if e.filename else ""
        return _fail(f"{place}{e.strerror or e}", BAD_INPUT)


def _fail(error: object, code: int) -> int:
    sys.stderr.write(f"tracekit: {error}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
