"""What every command that reports has in common: --json, --json-file, and the number of what they
hold."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from tracekit.errors import UsageError

__all__ = ["SCHEMA", "add_json", "check_outputs", "reported"]


#: Of the keys in docs/json.md; raised when one of them goes or means another thing.
SCHEMA = 2


def add_json(parser: Any, help_text: str = "as JSON (docs/json.md)") -> None:
    """The options; their results go through `reported`."""
    parser.add_argument("--json", action="store_true", help=help_text)
    parser.add_argument(
        "--json-file",
        metavar="FILE",
        help="the same JSON into a file, which is replaced; what is printed stays as it is",
    )


#: Arguments that name files which a command writes, and those that name no file.  A machine's file
#: may be fitted anew in its place (--fit).
_OUTPUTS = ("json_file", "output", "save", "folded", "by_row", "plot", "summary")
_NO_FILES = ("name", "command")
#: Commands that make the folders above what they write.
_MAKE_FOLDERS = ("extract", "factory", "join", "train", "validate")


def check_outputs(args: argparse.Namespace) -> None:
    """Raises TracekitError at the start where a file could not be written at the end, or one that
    is to be written is read, too, or is to be written twice."""
    outputs, inputs = list[Path](), list[str]()
    for key, value in vars(args).items():
        names = [v for v in (value if isinstance(value, list) else [value]) if isinstance(v, str)]
        if key in _OUTPUTS:
            if "" in names:  # an unset variable of a shell, say
                raise UsageError(f"--{key.replace('_', '-')}: an empty name")
            outputs += map(Path, names)
        elif key not in _NO_FILES:  # NAME=FILE, too
            inputs += names + [n.partition("=")[2] for n in names if "=" in n]
    if not outputs:
        return
    from tracekit.errors import TracekitError
    from tracekit.io.output import ANOTHER_NAME, check_apart, check_output, check_room

    if getattr(args, "json_file", None) is not None:
        check_output(args.json_file, True)
        check_room(args.json_file)
    for path in outputs:
        if [p.absolute() for p in outputs].count(path.absolute()) > 1:
            raise TracekitError("is to be written twice", path=str(path), hint=ANOTHER_NAME)
        for name in inputs if path.is_file() else ():
            check_apart(path, name)
        check_room(path, made=args.command in _MAKE_FOLDERS)


def reported(
    args: argparse.Namespace,
    result: Callable[[], Any] | dict[str, Any] | list[Any],
    *,
    to: TextIO | None = None,
    indent: int | None = 1,
) -> bool:
    """Writes ``result`` (a function is called only where it is wanted) to --json-file, and with
    --json to standard output or ``to``.  True where it was printed: no text is to follow then.
    """
    if not args.json and args.json_file is None:
        return False
    value = _numbered(result() if callable(result) else result)
    if args.json_file is not None:
        from tracekit.io.output import write_json

        write_json(args.json_file, value, force=True)
    if args.json:
        print(json.dumps(value, indent=indent), file=to or sys.stdout)
    return bool(args.json)


def _numbered(value: dict[str, Any] | list[Any]) -> dict[str, Any] | list[Any]:
    """The object, or each of the list's, with its ``schema`` first."""
    if isinstance(value, list):
        return [_numbered(v) for v in value]
    return {"schema": SCHEMA, **value}
