"""A run under QEMU to a recording (.tks)."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracekit._core import END_REASONS, tks_code_block, tks_epoch_block
from tracekit.errors import ProcessEndedError, TracekitError
from tracekit.inputs.tks import MAPS, TksWriter
from tracekit.record.interruption import asked_first
from tracekit.record.qemu.image import program_image
from tracekit.record.qemu.options import QemuOptions
from tracekit.record.qemu.session import Piece, QemuSession
from tracekit.record.totals import ending

_LENGTH = END_REASONS.index("length")


@dataclass
class QemuTotals:
    """What was done: the end block of the file.  ``silent``: runs of instructions whose accesses
    QEMU does not show, by mnemonic.  ``executed``: instructions of the whole run, recorded or not,
    where they were counted (samples) and no process was killed."""

    epochs: int = 0
    instructions: int = 0
    accesses: int = 0
    seconds: float = 0.0
    processes: int = 0
    threads: int = 0
    silent: dict[str, int] = field(default_factory=dict)
    anomalies: dict[str, int] = field(default_factory=dict)
    end: str = "program_ended"
    exit_status: int | None = None
    executed: int | None = None
    explanation: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """For JSON (docs/json.md)."""
        out = {k: v for k, v in vars(self).items() if k != "explanation"}
        return {**out, "engine": "qemu", "seconds": round(self.seconds, 6)}


def record_qemu(
    argv: Sequence[str],
    output: str | Path,
    options: QemuOptions | None = None,
    *,
    force: bool = False,
    progress: Callable[[str], None] = lambda message: None,
    done: Callable[[QemuSession], None] = lambda session: None,
) -> QemuTotals:
    """Runs a program under QEMU to its end and records it to ``output`` (.tks).

    ``force`` replaces a file.  ``done`` is called with the session when the run is over.  Ctrl-C
    ends the recording and the program, and the file has all until then.  Raises `TracekitError`
    where it cannot run there, where no instruction was recorded (a file that ``force`` would
    replace stays), and where the file cannot be written: the epochs until then stay.
    """
    options = options or QemuOptions()
    totals = QemuTotals()
    begin = time.monotonic()
    with QemuSession(list(argv), options, progress) as session:
        program = session.program
        kept = {k: v for k, v in vars(options).items() if v is not None and k != "env"}
        meta = {
            "command": list(argv),
            "engine": {"name": "qemu", "version": program.version, "cpu": options.cpu},
            "host": {"machine": platform.machine(), "kernel": platform.release()},
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "options": {**kept, "full": options.whole},
        }
        with TksWriter(output, arch=program.arch, meta=meta, force=force) as writer:
            target = _Target(writer, session, totals)

            def end(number: int) -> None:
                totals.end = "user"
                session.end(number)

            try:
                with asked_first(end):
                    for piece in session.pieces():
                        target.add(piece)
            except KeyboardInterrupt:
                totals.end = "user"
            totals.seconds = time.monotonic() - begin
            totals.processes = session.processes
            totals.silent, totals.anomalies = session.silent(), session.anomalies()
            if session.counted:
                totals.executed = sum(session.executed().values())
            totals.exit_status, totals.explanation = session.status, session.explain()
            if totals.instructions == 0:
                kind = TracekitError if totals.end == "user" else ProcessEndedError
                raise kind(f"nothing was recorded: {_why_nothing(options, totals)}")
            writer.close(totals.as_dict())
            done(session)
    return totals


def _why_nothing(options: QemuOptions, totals: QemuTotals) -> str:
    if totals.end == "user":
        return "it was told to end before"
    if options.marks:
        return "the program met no mark"
    if options.start is not None:
        return f"the program never came to --start {options.start}"
    if options.skip or options.every is not None:
        what = f"--skip {options.skip}" if options.skip else "its first sample"
        return f"the program ended before {what}"
    how = "" if totals.exit_status is None else f" with {ending(totals.exit_status)}"
    return f"it ended{how} before its first instruction"


class _Target:
    """Epochs, code and maps on their way to the file."""

    def __init__(self, writer: TksWriter, session: QemuSession, totals: QemuTotals) -> None:
        self._writer, self._session, self._totals = writer, session, totals
        self._code = 0
        self._maps: dict[int, int] = {}  # of each process the version that is written
        self._threads: set[tuple[int, int]] = set()

    def add(self, piece: Piece) -> None:
        s = self._session
        if s.map_version != self._maps.get(piece.pid):
            self._maps[piece.pid] = s.map_version
            maps = s.maps.get(piece.pid, [])
            block = {"pid": piece.pid, "maps": [list(m) for m in maps]}
            self._writer.text(MAPS, {**block, "image": program_image(s)})
        self._writer.block(tks_code_block(s.table, self._code))
        self._code = len(s.table)
        info = {
            "number": self._totals.epochs,
            "pid": piece.pid,
            "tid": piece.tid,
            "in_place": 1,
            "start_ns": piece.ns,
            "requested": s.options.epoch,
            "unrecorded": piece.silent,
            "reason": _LENGTH,
        }
        self._writer.block(tks_epoch_block(info, piece.rows))
        self._writer.flush()
        t = self._totals
        t.epochs += 1
        t.instructions += len(piece.rows)
        t.accesses += len(piece.rows.address)
        self._threads.add((piece.pid, piece.tid))
        t.threads = len(self._threads)
