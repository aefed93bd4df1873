"""Names of what is not finished yet, and what killed runs left under them.

A temporary is ``.NAME.tracekit-RANDOM.tmp`` in the folder of its target, and its maker holds a lock
(flock) on it for as long as it lives, whatever ends it.  One that nobody holds belongs to nobody:
the next run that writes into that folder removes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

__all__ = ["claim", "collect", "taken", "temporary_name"]

_PATTERN = re.compile(r"\..*\.tracekit-[0-9a-f]{16}\.tmp", re.DOTALL)
_NAME_BYTES = 200  # of the target's name: with the rest, a name has at most 255
_TRIES = 100
_seen: set[str] = set()  # folders that this process has looked through


def temporary_name(path: Path) -> Path:
    """A name beside ``path`` that nobody can guess."""
    name = os.fsdecode(os.fsencode(path.name)[:_NAME_BYTES])
    return path.with_name(f".{name}.tracekit-{os.urandom(8).hex()}.tmp")


def claim(
    path: Path, make: Callable[[Path], int], name: Callable[[Path], Path]
) -> tuple[Path, int]:
    """A temporary for ``path``, made and opened by ``make``, and its descriptor, which holds the
    lock.  Raises OSError."""
    collect(path.parent)
    tries = 0
    while True:
        temporary = name(path)
        try:
            fd = make(temporary)
        except FileNotFoundError:
            tries += 1
            # Some folders are there and hold no new file: those of /proc.
            if not path.parent.is_dir() or tries == _TRIES:
                raise
            continue  # a folder, which a collector took between making and opening
        with contextlib.suppress(OSError):  # without locks nothing is collected either
            fcntl.flock(fd, fcntl.LOCK_EX)
        if os.path.lexists(temporary):
            return temporary, fd
        os.close(fd)  # a collector was faster than the lock


@contextlib.contextmanager
def taken(path: Path) -> Iterator[bool]:
    """Whether ``path`` is a file or folder of this user whose maker is gone; if so, this process
    has the lock on it within the block, and may remove it: a maker that is only about to lock it
    then finds it gone, and makes another."""
    flags = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        folder = stat.S_ISDIR(path.lstat().st_mode)
        fd = os.open(path, flags | (os.O_RDONLY | os.O_DIRECTORY if folder else os.O_RDWR))
    except OSError:
        yield False
        return
    try:
        status = os.fstat(fd)
        free = status.st_uid == os.geteuid() and (folder or stat.S_ISREG(status.st_mode))
        if free:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                free = False
        yield free
    finally:
        os.close(fd)


def collect(folder: Path, *, again: bool = False) -> None:
    """Removes what killed runs left in ``folder``; once in a process unless ``again``."""
    key = os.path.abspath(folder)  # noqa: PTH100 (resolve would follow links at every write)
    if key in _seen and not again:
        return
    _seen.add(key)
    try:
        with os.scandir(folder) as entries:
            names = [e.name for e in entries if _PATTERN.fullmatch(e.name)]
    except OSError:
        return
    for name in names:
        path = folder / name
        with taken(path) as free, contextlib.suppress(OSError):
            if free and path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif free:
                path.unlink()
