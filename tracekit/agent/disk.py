"""Room on a disk, and errors that say that there is none."""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path
from typing import Final

from tracekit.errors import TracekitError

__all__ = ["DISK_FULL", "ROOM", "of_full_disk", "room"]

DISK_FULL: Final = "disk full"
"""Why an agent waits."""
ROOM: Final = 1 << 25
"""Bytes that are free where a trace and the state are written, at least."""
_VAGUE: Final = ("disk I/O error", "unable to open")
"""What SQLite says where it can make no file beside the database, or no longer one."""


def room(folder: Path) -> int:
    """Bytes that are free on the disk of a folder, or of the one that it would be made in."""
    there = next(p for p in (folder, *folder.absolute().parents) if p.exists())
    disk = os.statvfs(there)
    return disk.f_bavail * disk.f_frsize


def of_full_disk(error: sqlite3.OperationalError | TracekitError, folder: Path) -> bool:
    """Whether what was done in ``folder`` failed since its disk is full."""
    cause = error.__context__ if isinstance(error, TracekitError) else error
    if isinstance(cause, OSError):
        return cause.errno in (errno.ENOSPC, errno.EDQUOT)
    if not isinstance(cause, sqlite3.OperationalError):
        return False
    text = str(cause)
    return "full" in text or (any(v in text for v in _VAGUE) and room(folder) < ROOM)
