"""Opening files that somebody else may have named: never waiting for ever, never reading without
end.

Paths that come from a user, a manifest or a card are opened here.  Regular files are, and pipes
where an input is read from front to back; a device, a socket or a folder is refused.  A pipe that
nobody writes is told by ``O_NONBLOCK``, and no size that the file system reports is believed.
"""

from __future__ import annotations

import json
import os
import select
import stat
import time
from pathlib import Path
from typing import IO, Any, Final

from tracekit.errors import FormatError, TracekitError, UsageError
from tracekit.io.remote import open_remote, public_name, remote_stamp, remote_url

Name = str | os.PathLike[str]

PATIENCE: Final = 2.0
"""Seconds that a named pipe has to get its writer."""
TRACE_PATIENCE: Final = 60.0
"""The same for a trace, whose writer is a simulator that may take its time to start."""
MAX_JSON: Final = 16 << 20
"""Bytes of a manifest, a space, a card or any other JSON or TOML that people write."""
MAX_VALUES: Final = 1 << 20
"""Commas and opening brackets in one: each value that they part takes up to 100 bytes when read."""
MAX_KEY_STEPS: Final = 10_000_000
"""Steps that the dotted keys of a TOML may take its parser: a second."""

_KINDS: Final = {
    stat.S_IFDIR: "a folder",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFIFO: "a pipe",
}
_PIECE: Final = 1 << 20


def open_descriptor(path: Name) -> int:
    """A descriptor of a regular file; `TracekitError` where the path is none or cannot be
    opened."""
    fd, kind = _open(path)
    if kind != stat.S_IFREG:
        os.close(fd)
        raise _refused(path, kind, "a file")
    return fd


def open_stream(path: Name, patience: float = PATIENCE) -> tuple[int, bytes]:
    """A descriptor of a regular file or a pipe, and what was already read from it.

    Raises `TracekitError` where the path is neither, cannot be opened, or is a pipe that nobody
    opens for writing within ``patience`` seconds.
    """
    fd, kind = _open(path)
    try:
        if kind == stat.S_IFIFO:
            return fd, _await_writer(fd, os.fspath(path), patience)
        if kind != stat.S_IFREG:
            raise _refused(path, kind, "a file or a pipe")
    except BaseException:
        os.close(fd)
        raise
    return fd, b""


def _open(path: Name) -> tuple[int, int]:
    name = os.fspath(path)
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError) as e:
        reason = getattr(e, "strerror", None) or str(e)
        raise TracekitError(f"cannot open: {reason}", path=name) from None
    try:
        return fd, stat.S_IFMT(os.fstat(fd).st_mode)
    except OSError as e:
        os.close(fd)
        raise TracekitError(f"cannot open: {e.strerror}", path=name) from None


def _refused(path: Name, kind: int, wanted: str) -> TracekitError:
    found = _KINDS.get(kind, "of another kind")
    return TracekitError(f"is {found}; {wanted} is needed", path=public_name(path))


def _await_writer(fd: int, name: str, patience: float) -> bytes:
    """Waits for a pipe's writer, and makes reads wait from then on.  A read that does not wait is
    what tells the two apart, and may bring a first byte."""
    poll = select.poll()
    poll.register(fd, select.POLLIN | select.POLLHUP)
    until = time.monotonic() + patience
    head = b""
    while not poll.poll(0):
        try:
            head = os.read(fd, 1)
        except BlockingIOError:  # it has a writer, who is silent so far
            break
        if head:
            break
        if time.monotonic() >= until:
            raise TracekitError(f"is a pipe that nobody writes (waited {patience:g} s)", path=name)
        poll.poll(20)
    os.set_blocking(fd, True)
    return head


def open_file(path: Name) -> IO[bytes]:
    """A regular file or one elsewhere (remote.py), open for reading; `TracekitError` where the path
    is none."""
    if (url := remote_url(path)) is not None:
        return open_remote(url)
    return os.fdopen(open_descriptor(path), "rb")


def size_of(path: Name) -> int:
    """Bytes of a file; 0 of one elsewhere whose server does not tell."""
    if (url := remote_url(path)) is not None:
        return int(remote_stamp(url)[0] or 0)
    try:
        return Path(path).stat().st_size
    except OSError as e:
        raise TracekitError(f"cannot open: {e.strerror}", path=public_name(path)) from None


def first_bytes(path: Name, size: int) -> bytes:
    """The first ``size`` bytes of a regular file, for recognising it; b"" of anything else, whose
    opening tells what is wrong.  A pipe is not even opened: its writer would take that for its
    reader, and lose what it writes."""
    try:
        if remote_url(path) is None and not stat.S_ISREG(Path(path).stat().st_mode):
            return b""
        with open_file(path) as f:
            return f.read(size)
    except (TracekitError, OSError, ValueError):  # a name with a null byte
        return b""


def read_limited(path: Name, limit: int) -> bytes:
    """All of a file or a pipe; `FormatError` where it is longer than ``limit`` bytes, whatever its
    size is said to be, or cannot be read."""
    name = os.fspath(path)
    if remote_url(path) is not None:
        with open_file(path) as f:
            data = f.read(limit + 1)
        if len(data) > limit:
            raise FormatError(f"more than {limit} bytes", path=public_name(path))
        return data
    fd, head = _stream(name)
    try:
        return _all_of(fd, head, limit, name)
    finally:
        os.close(fd)


def read_private(path: Name, limit: int, *, of_others: bool = False) -> bytes:
    """All of a file, or of a pipe, that nobody but its owner may read: a key, a token.

    Mode and owner are those of what is read, whatever the name leads to meanwhile.  The owner is
    this user or root; where this user is root, also another one with ``of_others``.

    Raises `TracekitError` where others may read it or it is another user's, else as `read_limited`.
    """
    name = os.fspath(path)
    fd, head = _stream(name)
    try:
        status = os.fstat(fd)
        mode, user = stat.S_IMODE(status.st_mode), os.geteuid()
        if mode & 0o077:
            raise TracekitError(
                f"others may read it (mode {mode:04o})", path=name, hint=f"chmod 600 {name}"
            )
        if status.st_uid not in (0, user) and not (of_others and user == 0):
            raise TracekitError(f"is another user's (uid {status.st_uid})", path=name)
        return _all_of(fd, head, limit, name)
    finally:
        os.close(fd)


def _stream(name: str) -> tuple[int, bytes]:
    try:
        return open_stream(name)
    except TracekitError as e:
        raise FormatError(e.message.replace("cannot open", "cannot be read"), path=name) from None


def _all_of(fd: int, head: bytes, limit: int, name: str) -> bytes:
    pieces, size = [head], len(head)
    try:
        while size <= limit and (piece := os.read(fd, min(_PIECE, limit + 1 - size))):
            pieces.append(piece)
            size += len(piece)
    except OSError as e:
        raise FormatError(f"cannot be read: {e.strerror}", path=name) from None
    if size > limit:
        raise FormatError(f"more than {limit} bytes", path=name)
    return b"".join(pieces)


def parse_json(data: bytes, most_values: int = MAX_VALUES, **options: Any) -> Any:
    """``json.loads`` of UTF-8 whose values are counted first: `ValueError` for anything wrong."""
    if sum(data.count(c) for c in (b",", b"[", b"{")) > most_values:
        raise ValueError(f"more than {most_values} values")
    try:
        return json.loads(data.decode("utf-8"), **options)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def read_json(path: Name, limit: int = MAX_JSON) -> Any:
    """The JSON in a file or a pipe; `FormatError` where it is longer than ``limit`` or no JSON."""
    data = read_limited(path, limit)
    try:
        return parse_json(data)
    except ValueError as e:
        raise FormatError(f"not JSON: {e}", path=public_name(path)) from None


def read_toml(path: Name, limit: int = MAX_JSON) -> Any:
    """The TOML in a file or a pipe; as `read_json`."""
    try:
        import tomllib
    except ModuleNotFoundError:
        raise UsageError(
            "TOML needs Python 3.11", path=public_name(path), hint="write it as JSON"
        ) from None
    data = read_limited(path, limit)
    try:
        if sum(data.count(c) for c in (b",", b"[", b"{", b"=", b"\n")) > MAX_VALUES:
            raise ValueError(f"more than {MAX_VALUES} values")
        lines = data.split(b"\n")
        dots = [line.count(b".") for line in lines]
        # A key of n parts takes the parser n^2 steps, and n more on each line below it.
        if sum(n * n for n in dots) + max(dots) * len(lines) > MAX_KEY_STEPS:
            raise ValueError("its keys have too many parts")
        return tomllib.loads(data.decode("utf-8"))
    except RecursionError:
        raise FormatError("not TOML: nested too deeply", path=public_name(path)) from None
    except ValueError as e:
        raise FormatError(f"not TOML: {e}", path=public_name(path)) from None
