"""What was built, timed or counted: digests by which a folder's results are known as those of the
list as it is now.

A name says nothing of what ran under it.  A digest is of the words of a command as the list has
them, so that a folder may move, and of the contents of the files that they name."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from tracekit.io.files import open_file
from tracekit.validation.program_list import ListedProgram, ProgramList

__all__ = ["digest_of_build", "digest_of_program"]

_PIECE = 1 << 20


def digest_of_build(programs: ProgramList, command: Sequence[str], work: Path) -> str:
    """Of a build's or an input's command, and of the files that it names behind its first word: a
    compiler is known by its name alone."""
    filled = programs.filled(command, work)
    return _digest([list(command), [_contents(w) for w in filled[1:]]])


def digest_of_program(programs: ProgramList, p: ListedProgram, work: Path) -> str:
    """Of a program's command, its file, its standard input, the files that it names, and the
    environment."""
    filled = programs.filled(p.command, work)
    files = [shutil.which(filled[0]) or "", *filled[1:]]
    files += [str(work / f"input-{p.input}")] if p.input else []
    told = [list(p.command), p.input, dict(programs.environment)]
    return _digest([*told, [_contents(f) for f in files]])


def _digest(told: list[object]) -> str:
    text = json.dumps(told, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _contents(word: str) -> str | None:
    """The SHA-256 of the file that a word names, or None where it names none."""
    try:
        if not Path(word).is_file():
            return None
    except (OSError, ValueError):  # too long for a name, or a zero byte
        return None
    digest = hashlib.sha256()
    if not os.access(word, os.R_OK):  # a program that may be executed alone
        status = Path(word).stat()
        return f"{status.st_size} {status.st_mtime_ns}"
    with open_file(word) as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()
