"""What the kernel tells of the processes that are recorded (/proc), and is told (personality)."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tracekit.errors import ProcessEndedError, TracekitError
from tracekit.symbols import Mapped

_ADDR_NO_RANDOMIZE: Final = 0x0040000  # linux/personality.h


def stat_fields(path: Path) -> list[str]:
    """The fields of a stat file from the third on; [] when it is gone."""
    try:
        return path.read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def threads(pid: int) -> list[int]:
    """The thread numbers of a process, increasing; none where it is gone."""
    try:
        return sorted(int(t.name) for t in Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return []


def state(pid: int, tid: int) -> str:
    """R running, S sleeping, D in an uninterruptible wait, T stopped, Z dead; "" when gone."""
    fields = stat_fields(Path(f"/proc/{pid}/task/{tid}/stat"))
    return fields[0] if fields else ""


def children(pid: int) -> list[int]:
    """Direct children, but no copies of ours: those have no exit signal."""
    out: list[int] = []
    for tid in threads(pid):
        try:
            text = Path(f"/proc/{pid}/task/{tid}/children").read_text()
        except OSError:
            continue
        for child in map(int, text.split()):
            fields = stat_fields(Path(f"/proc/{child}/stat"))
            if len(fields) > 35 and fields[35] != "0" and fields[0] != "Z":
                out.append(child)
    return out


def descendants(pid: int) -> list[int]:
    """Children, their children, and so on."""
    found: list[int] = []
    todo = [pid]
    while todo:
        for child in children(todo.pop()):
            if child not in found:
                found.append(child)
                todo.append(child)
    return found


def program(pid: int) -> tuple[str, str]:
    """Which program a process runs: changes when it calls exec, even of the same file."""
    fields = stat_fields(Path(f"/proc/{pid}/stat"))
    try:
        exe = str(Path(f"/proc/{pid}/exe").readlink())
    except OSError:
        exe = ""
    return exe, fields[25] if len(fields) > 25 else ""  # the stack's start, which is random


def alive(pid: int) -> bool:
    """Whether a process is there and has not ended."""
    return stat_fields(Path(f"/proc/{pid}/stat"))[:1] not in ([], ["Z"], ["X"])


def real_path(pid: int, path: str) -> str:
    """The real path of what a process that still runs calls ``path``."""
    own = f"/proc/{pid}/"
    if path.startswith("/proc/self/"):
        path = own + path.removeprefix("/proc/self/")
    return os.path.realpath(Path(own, "cwd", path))


def file_name(shown: str) -> str:
    """The name of a file that a /proc/PID/maps shows: the end of a line is \\012 there."""
    name = shown.replace("\\012", "\n")
    return name if name != shown and not Path(shown).exists() else shown


def code_maps(text: bytes) -> list[Mapped]:
    """The executable memory in the text of a /proc/PID/maps, without build-ids."""
    out = []
    for line in text.decode(errors="surrogateescape").split("\n"):
        fields = line.split(None, 5)
        if len(fields) >= 5 and "x" in fields[1]:
            begin, _, end = fields[0].partition("-")
            path = file_name(fields[5]) if len(fields) == 6 else ""
            out.append(Mapped(int(begin, 16), int(end, 16), int(fields[2], 16), path, None))
    return out


def command(pid: int) -> list[str]:
    """The command line of a process; TracekitError where there is none."""
    try:
        text = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="surrogateescape")
    except FileNotFoundError:
        raise ProcessEndedError(f"there is no process {pid}") from None
    except OSError as e:
        raise TracekitError(f"process {pid}: {e.strerror}") from None
    return text.rstrip("\0").split("\0")


def waited_seconds(pid: int) -> float:
    """How long the threads of a process could have run but had no processor, together.

    0 where the kernel does not count it (CONFIG_SCHED_INFO) or the process is gone.
    """
    total = 0
    for tid in threads(pid):
        with contextlib.suppress(OSError, IndexError, ValueError):
            total += int(Path(f"/proc/{pid}/task/{tid}/schedstat").read_text().split()[1])
    return total / 1e9


def counts_waiting() -> bool:
    """Whether the kernel counts what `waited_seconds` asks for."""
    return Path("/proc/self/schedstat").exists()


@contextlib.contextmanager
def without_aslr() -> Iterator[None]:
    """What is started within has its memory at the same addresses in each run (personality(2)).

    Raises `TracekitError` where that is not permitted.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    before = libc.personality(0xFFFFFFFF)
    if before == -1 or libc.personality(before | _ADDR_NO_RANDOMIZE) == -1:
        reason = os.strerror(ctypes.get_errno())
        raise TracekitError(
            f"addresses cannot be kept from being random: {reason}", hint="leave out --no-aslr"
        )
    try:
        yield
    finally:
        libc.personality(before)
