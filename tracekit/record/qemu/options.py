"""What of a program is recorded under QEMU, and how QEMU is started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tracekit.errors import UsageError

ISAS: Final = ("auto", "x86", "arm", "riscv")


@dataclass(frozen=True, kw_only=True)
class QemuOptions:
    """``isa``: what the program must be for, or "auto".  ``qemu``: the emulator's file, found by
    name unless given.  ``root``: where the program's libraries lie (QEMU's -L).  ``cpu``: QEMU's
    -cpu.  ``epoch``: most instructions of one epoch.  ``follow_exec``: programs that the program
    executes run under QEMU too.

    The region: ``start`` and ``stop`` are pcs or functions of the program; recording begins before
    the first instruction at ``start`` (or with the program), leaves out ``skip`` instructions, and
    ends after ``insts`` or before the first one at ``stop``.  ``skip`` and ``insts`` count all
    threads of each process.  Afterwards the program runs on unrecorded.

    ``marks``: the region begins and ends where instructions of the program say so (docs/qemu.md).

    ``discard`` makes the events and drops them, for measurements.  ``output_to_error``: the
    program's standard output is our standard error.  ``env``: the program's whole environment;
    ours unless given.
    """

    isa: str = "auto"
    qemu: str | None = None
    root: str | None = None
    cpu: str | None = None
    epoch: int = 1 << 18
    follow_exec: bool = True
    skip: int = 0
    insts: int | None = None
    start: str | None = None
    stop: str | None = None
    marks: bool = False
    discard: bool = False
    output_to_error: bool = False
    env: Mapping[str, str] | None = field(default=None, repr=False)

    @property
    def whole(self) -> bool:
        """Whether every instruction is recorded."""
        bounds = (self.insts, self.start, self.stop)
        return not self.skip and not self.marks and all(b is None for b in bounds)

    def check(self) -> None:
        """Raises `UsageError` where the numbers make no sense."""
        if self.isa not in ISAS:
            raise UsageError(f"isa: {', '.join(ISAS)}, not {self.isa!r}")
        if not 1 <= self.epoch <= 1 << 24:
            raise UsageError("an epoch under QEMU has 1 to 2^24 instructions")
        if self.marks and (self.start is not None or self.stop is not None):
            raise UsageError("--marks, or --start and --stop, say where the region is")
        if self.skip < 0 or (self.insts is not None and self.insts < 1):
            raise UsageError("--skip: at least 0; --insts: at least 1")
