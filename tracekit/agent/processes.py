"""Which processes of a user run, and how much: what the kernel tells of them (/proc)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

__all__ = ["Look", "Process", "Watcher", "idle_cores", "on_mains"]

_TICK: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass
class Process:
    """A process that the policy admits: user seconds so far, bytes in memory, and since when it is
    watched."""

    pid: int
    start: int
    executable: str
    user: float
    resident: int
    since: float


@dataclass
class Look:
    """Since the look before: ``user`` seconds by process, and processes that are refused, with the
    reason."""

    processes: dict[int, Process] = field(default_factory=dict)
    user: dict[int, float] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


class Watcher:
    """Looks at the processes of ``uid`` now and then.  ``admits(executable, cgroup)`` chooses; this
    process, those in ``ours`` with what they have started, and copies that are being stepped are
    never among them."""

    def __init__(self, uid: int, admits: Callable[[str, str], bool]) -> None:
        self._uid, self._admits = uid, admits
        self.ours = {os.getpid()}
        self._seen: dict[int, Process] = {}
        self._looked = _ticks()
        self._decided: dict[tuple[int, int, str], str | None] = {}

    def look(self, now: float) -> Look:
        """All of them."""
        out = Look()
        before, self._looked = self._looked, _ticks()
        for entry in os.scandir("/proc"):
            if not entry.name.isdigit():
                continue
            try:
                if entry.stat().st_uid not in (self._uid, 0):
                    continue
                self._one(int(entry.name), now, before, out)
            except (OSError, ValueError, IndexError):  # it is gone
                continue
        self._seen = out.processes
        alive = {(p.pid, p.start, p.executable) for p in out.processes.values()}
        self._decided = {k: v for k, v in self._decided.items() if k in alive or v is not None}
        if len(self._decided) > 20_000:
            self._decided = {k: v for k, v in self._decided.items() if k in alive}
        return out

    def _one(self, pid: int, now: float, looked: float, out: Look) -> None:
        fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
        # copies have no exit signal
        if fields[0] in "ZX" or fields[35] == "0" or pid in self.ours:
            return
        parent = int(fields[1])
        if parent in self.ours and parent != os.getpid():  # a worker's helper
            return
        executable = str(Path(f"/proc/{pid}/exe").readlink()).removesuffix(" (deleted)")
        start = int(fields[19])
        key = (pid, start, executable)
        if key not in self._decided:
            self._decided[key] = self._why_not(pid, executable)
        why = self._decided[key]
        if why is not None:
            if why:
                out.refused[executable] = why
            return
        user = int(fields[11]) / _TICK
        before = self._seen.get(pid)
        same = before is not None and (before.start, before.executable) == (start, executable)
        p = Process(pid, start, executable, user, int(fields[21]) * _PAGE, now)
        if before is not None and same:
            p.since = before.since
            out.user[pid] = max(0.0, user - before.user)
        elif before is None and start >= int(looked):  # all that it ran, it ran since
            out.user[pid] = user
        out.processes[pid] = p

    def _why_not(self, pid: int, executable: str) -> str | None:
        """None where epochs may be taken, "" where it is none of ours, else the reason."""
        uids = _read(f"/proc/{pid}/status").partition("\nUid:\t")[2].partition("\n")[0].split()
        if set(uids) != {str(self._uid)}:
            return ""
        cgroup = _read(f"/proc/{pid}/cgroup").splitlines()
        path = next((c.split(":", 2)[2] for c in cgroup if c.startswith("0:")), "/")
        if not self._admits(executable, path):
            return ""
        if Path(f"/proc/{pid}/mem").stat().st_uid != self._uid:
            return "not dumpable"
        return None


def _ticks() -> float:
    """Now, as the kernel writes when a process began."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) * _TICK


def _read(path: str) -> str:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 1 << 14).decode(errors="replace")
    finally:
        os.close(fd)


def idle_cores(before: tuple[float, float] | None) -> tuple[float, tuple[float, float]]:
    """How many cores were idle since ``before`` (all, where None), and what to give the next time:
    the sums of idle and of all time."""
    fields = _read("/proc/stat").partition("\n")[0].split()[1:9]
    ticks = [int(f) for f in fields]
    now = (float(ticks[3] + ticks[4]), float(sum(ticks)))
    cores = float(os.cpu_count() or 1)
    if before is None or now[1] <= before[1]:
        return cores, now
    return cores * max(0.0, now[0] - before[0]) / (now[1] - before[1]), now


def on_mains() -> bool:
    """Whether the computer has no battery, or is charged."""
    import psutil

    battery = psutil.sensors_battery() if hasattr(psutil, "sensors_battery") else None
    return battery is None or battery.power_plugged is not False
