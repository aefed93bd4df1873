"""The one family of exceptions; each message names the file and, where known, the place in it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path


class TracekitError(Exception):
    """Bad input or an unusable file.

    Attributes: ``path`` (the file, or "<stdin>"), ``offset`` (byte in the decompressed stream) and
    ``hint`` (what to do), each None where unknown.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        offset: int | None = None,
        hint: str | None = None,
    ) -> None:
        self.message, self.path, self.offset, self.hint = message, path, offset, hint
        where = path or ""
        if offset is not None:
            where += f"{':' if where else ''}byte {offset}"
        text = f"{where}: {message}" if where else message
        super().__init__(f"{text} ({hint})" if hint else text)


class FormatError(TracekitError):
    """The bytes are not what the format says."""


class UsageError(TracekitError):
    """The call's arguments do not fit together."""


@contextlib.contextmanager
def values_of_a_file(path: str | Path, where: str) -> Iterator[None]:
    """What is wrong with values that a file holds, at ``where`` in it, is the file's fault: a
    `UsageError` becomes a `FormatError` of the file."""
    try:
        yield
    except UsageError as e:
        raise FormatError(f"{where}: {e.message}", path=str(path), hint=e.hint) from None


def raise_under_name(error: BaseException | None, temporary: Path, path: Path) -> None:
    """An error of a file below ``temporary`` is raised anew as of one below ``path``, the name that
    users know; any other one is left alone."""
    if isinstance(error, TracekitError) and (error.path or "").startswith(f"{temporary}/"):
        place = f"{path}{str(error.path)[len(str(temporary)) :]}"
        raise type(error)(error.message, path=place, offset=error.offset, hint=error.hint) from None


class RecordError(TracekitError):
    """A running program that cannot be recorded: no permission, a filter, a tracer, 32-bit code."""


class ProcessEndedError(RecordError):
    """A program that was to be recorded has ended."""
