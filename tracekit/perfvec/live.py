"""From a program, a process or a recording to features: what ``tracekit predict`` samples."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tracekit.errors import TracekitError
from tracekit.extraction import extract
from tracekit.record import Recording, RecordOptions, procfs
from tracekit.streams.tks import is_tks

__all__ = ["Usage", "features_of", "is_recording", "is_trace_file", "sample"]

_TICK = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_GRACE = 2.0


@dataclass
class Usage:
    """What the kernel says of the program while it was recorded: seconds, ``queued`` those that its
    main thread waited for a processor, and the most threads."""

    wall: float = 0.0
    user: float = 0.0
    system: float = 0.0
    queued: float = 0.0
    threads: int = 0
    ended: bool = True

    @property
    def system_share(self) -> float:
        """Of its processor time."""
        return self.system / max(self.user + self.system, 1e-9)


class _Watch:
    """The processor time of a process from now on."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.begin = time.monotonic()
        self.first = _times(pid)
        self.usage = Usage()
        self.look()

    def look(self) -> None:
        now = _times(self.pid)
        if now is None:
            return
        first = self.first or (0.0, 0.0, 0, 0.0)
        u = self.usage
        u.wall = time.monotonic() - self.begin
        u.user, u.system = max(u.user, now[0] - first[0]), max(u.system, now[1] - first[1])
        u.threads = max(u.threads, now[2])
        u.queued = max(u.queued, now[3] - first[3])


def _times(pid: int) -> tuple[float, float, int, float] | None:
    """User and system seconds, threads, and seconds in the run queue so far; None when it is
    gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        queue = Path(f"/proc/{pid}/schedstat").read_text().split()
    except OSError:
        return None
    if len(fields) < 18:
        return None
    queued = int(queue[1]) / 1e9 if len(queue) > 1 else 0.0
    return int(fields[11]) / _TICK, int(fields[12]) / _TICK, int(fields[17]), queued


def is_trace_file(path: str | Path) -> bool:
    """Whether a file is a feats.zst, or at least no program."""
    try:
        with Path(path).open("rb") as f:
            return f.read(4) in (b"\x28\xb5\x2f\xfd", b"\x5e\x2a\x4d\x18")
    except OSError:
        return str(path).endswith(".zst")


def is_recording(path: str | Path) -> bool:
    """Whether a file is a .tks."""
    try:
        with Path(path).open("rb") as f:
            return is_tks(f.read(16))
    except OSError:
        return False


def sample(
    output: str | Path,
    options: RecordOptions,
    *,
    command: Sequence[str] | None = None,
    pid: int | None = None,
    leave: bool = False,
    progress: Callable[[int, str], None] = lambda _epochs, _message: None,
) -> Usage:
    """Record epochs of a program to ``output``; one that was started here is ended with the
    recording (SIGTERM, then SIGKILL) unless ``leave``.  ``progress``: epochs so far, what happened.

    Raises `TracekitError` where nothing could be recorded.
    """
    watch: list[_Watch] = []

    def tell(message: str) -> None:
        for w in watch:
            w.look()
        progress(recording.totals.epochs, message)

    own = list(command) if command is not None else procfs.command(pid or 0)
    with Recording(own, output, options, tell) as recording:
        if command is not None:
            recording.start()
        else:
            recording.attach(pid or 0)
        watch.append(_Watch(recording.pid))
        recording.finish = None if leave or command is None else _end
        totals = recording.run()
        watch[0].look()
    usage = watch[0].usage
    usage.wall = totals.seconds
    usage.ended = totals.end == "program_ended"
    if totals.instructions == 0:
        why = ", ".join(f"{n} x {w}" for w, n in totals.skipped.items())
        raise TracekitError(
            "nothing was recorded: the program ended before its first epoch"
            if usage.ended
            else f"nothing was recorded: {why or totals.end}",
            hint="--full steps all of a short program; --period is the time between epochs",
        )
    return usage


def _end(pid: int) -> None:
    """The recording is over: the program, which runs for its sake only, is told to end."""
    for number, seconds in ((signal.SIGTERM, _GRACE), (signal.SIGKILL, _GRACE)):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if procfs.state(pid, pid) in ("", "Z"):
                return
            time.sleep(0.01)


def features_of(recording: str | Path, output: str | Path) -> None:
    """Extract a recording, all its threads' epochs in the order in which they were taken."""
    extract(recording, output, level="macro", threads="interleaved", force=True)


def usage_dict(usage: Usage) -> dict[str, Any]:
    """For JSON."""
    return {**asdict(usage), "system_share": usage.system_share}
