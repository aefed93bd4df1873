"""From a program, a process or a recording to features: what ``tracekit predict`` samples."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tracekit.errors import TracekitError
from tracekit.extraction import extract
from tracekit.inputs.tks import is_tks
from tracekit.io.files import first_bytes
from tracekit.record import Recording, RecordOptions, procfs
from tracekit.record.usage import Times, Watch

__all__ = ["Usage", "features_of", "is_recording", "is_trace_file", "sample"]

_GRACE = 2.0
#: What gives longer epochs, by why they ended.
_LONGER = {
    "time": "sample longer (--seconds), or while other programs leave a processor free",
    "system_call": "--in-place steps through system calls",
    "shared_memory": "--in-place steps through writes to shared memory",
    **dict.fromkeys(("program_ended", "exited"), "--full steps all of a short program"),
}


@dataclass
class Usage:
    """What the kernel says of the program, with all its threads and child processes, while it was
    recorded: seconds, ``queued`` those that threads waited for a processor (one after another),
    ``children`` the processor time of its child processes, and the most threads and processes.

    What stepping costs is not in it.  ``stepped``: the program itself was stepped, all of the time,
    so that its times say nothing.  ``in_place`` of ``epochs`` were stepped in the program itself,
    for the kinds of memory in ``missing`` (bytes).
    """

    wall: float = 0.0
    user: float = 0.0
    system: float = 0.0
    queued: float = 0.0
    children: float = 0.0
    threads: int = 0
    processes: int = 0
    ended: bool = True
    stepped: bool = False
    followed: bool = False
    epochs: int = 0
    in_place: int = 0
    missing: dict[str, int] = field(default_factory=dict)
    short: str | None = None
    """A sentence where epochs have far fewer instructions than was asked for."""

    @property
    def system_share(self) -> float:
        """Of its processor time."""
        return self.system / max(self.user + self.system, 1e-9)


def _look(usage: Usage, watch: Watch, stepped: Times) -> None:
    """Brings ``usage`` up to date: all times but those of stepping."""
    watch.look()
    times, children = watch.times.since(stepped), watch.children
    usage.user, usage.system = max(usage.user, times.user), max(usage.system, times.system)
    usage.queued = max(usage.queued, times.queued)
    usage.children = max(usage.children, children.user + children.system)
    usage.threads, usage.processes = watch.threads, watch.processes


def is_trace_file(path: str | Path) -> bool:
    """Whether a file is a feats.zst, or at least no program."""
    head = first_bytes(path, 4)
    return head in (b"\x28\xb5\x2f\xfd", b"\x5e\x2a\x4d\x18") or (
        not head and str(path).endswith(".zst")
    )


def is_recording(path: str | Path) -> bool:
    """Whether a file is a .tks, or at least no program."""
    if not Path(path).exists():
        return str(path).endswith(".tks")
    return is_tks(first_bytes(path, 16))


def sample(
    output: str | Path,
    options: RecordOptions,
    *,
    command: Sequence[str] | None = None,
    pid: int | None = None,
    leave: bool = False,
    force: bool = False,
    standard_output: int | None = None,
    folder: str | Path | None = None,
    progress: Callable[[int, str], None] = lambda _epochs, _message: None,
) -> Usage:
    """Record epochs of a program to ``output``; one that was started here is ended with the
    recording (SIGTERM, then SIGKILL) unless ``leave``.  ``standard_output``: the descriptor that
    what it prints goes to, ours unless given; ``folder``: where it runs, with ``options.full``.
    ``progress``: epochs so far, what happened.

    ``force``: ``output`` may be replaced.  Raises `TracekitError` where nothing could be recorded.
    """
    usage = Usage(stepped=options.full, followed=options.follow_forks)
    watch: list[Watch] = []

    def tell(message: str) -> None:
        for w in watch:
            _look(usage, w, recording.stepped)
        progress(recording.totals.epochs, message)

    def finish(number: int) -> None:
        _look(usage, watch[0], recording.stepped)  # while it is there to be asked
        if not leave:
            _end(number)

    own = list(command) if command is not None else procfs.command(pid or 0)
    with Recording(own, output, options, tell, force) as recording:
        if command is not None:
            recording.start(output=standard_output, folder=folder)
        else:
            recording.attach(pid or 0)
        reaped = command is not None and not options.follow_forks
        watch.append(Watch(recording.pid, reaped=reaped))
        recording.finish = finish
        try:
            totals = recording.run()
        except BaseException:  # a signal that asks us to end, say
            if command is not None and not leave and recording.totals.exit_status is None:
                _end(recording.pid)
            raise
        _look(usage, watch[0], recording.stepped)
    usage.wall = totals.seconds
    usage.epochs, usage.in_place, usage.missing = totals.epochs, totals.in_place, totals.missing
    usage.short = totals.shortfall(_LONGER)
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


def features_of(recording: str | Path, output: str | Path, *, quiet: bool = True) -> None:
    """Extract a recording, all its threads' epochs in the order in which they were taken."""
    extract(recording, output, level="macro", threads="interleaved", force=True, quiet=quiet)


def usage_dict(usage: Usage) -> dict[str, Any]:
    """For JSON; times are None where stepping the whole program was all of them."""
    out = {**asdict(usage), "system_share": usage.system_share}
    del out["short"]  # it is among the notes
    if usage.stepped:
        out |= dict.fromkeys(("user", "system", "queued", "children", "system_share"))
    return out
