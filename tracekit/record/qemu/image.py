"""Where the file of a program that runs under QEMU lies in its memory."""

from __future__ import annotations

import os

from tracekit.record.qemu.launch import loaded_at
from tracekit.record.qemu.session import QemuSession


def program_image(session: QemuSession) -> tuple[int, int] | None:
    """The first address of the program's file, and the one behind its last.

    None before its code runs, where the recording begins later than the program, and where another
    process or program has run, or the same one again: their addresses mean other memory.
    """
    maps = session.maps.get(session.pid, [])
    own = os.path.realpath(session.program.program)
    if not maps or maps[-1].path != own:  # which is the newest program's
        return None
    if len(session.ran) > 1 or not session.options.from_the_start:
        return None
    return loaded_at(session.program.segments, maps[-1])
