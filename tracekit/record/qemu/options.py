"""What of a program is recorded under QEMU, and how QEMU is started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tracekit.errors import UsageError

ISAS: Final = ("auto", "x86", "arm", "riscv")


_APART: Final = 1024  # more than a block of QEMU's


@dataclass(frozen=True, kw_only=True)
class QemuOptions:
    """``isa``: what the program must be for, or "auto".  ``qemu``: the emulator's file, found by
    name unless given.  ``root``: where the program's libraries lie (QEMU's -L).  ``cpu``: QEMU's
    -cpu.  ``epoch``: most instructions of one epoch.  ``follow_exec``: programs that the program
    executes run under QEMU too.  ``aslr``: False for the same addresses in each run.

    The region: ``start`` and ``stop`` are pcs or functions of the program; recording begins before
    the first instruction at ``start`` (or with the program), leaves out ``skip`` instructions, and
    ends after ``insts`` or before the first one at ``stop``.  ``skip`` and ``insts`` count all
    threads of each process.  Afterwards the program runs on unrecorded.

    ``marks``: the region begins and ends where instructions of the program say so (docs/qemu.md).

    ``every``: samples of ``insts`` instructions each, one starting that many instructions after the
    start of the one before, in each thread; all instructions of the run are counted. ``touched``: a
    sample begins with an epoch of the lines that were touched since the one before.

    ``discard`` makes the events and drops them, for measurements.  ``output_to_error``: the
    program's standard output is our standard error; ``drop_output``: it is thrown away.  ``input``:
    a file that is its standard input; ours unless given.  ``env``: the program's whole environment;
    ours unless given.
    """

    isa: str = "auto"
    qemu: str | None = None
    root: str | None = None
    cpu: str | None = None
    epoch: int = 1 << 18
    follow_exec: bool = True
    aslr: bool = True
    skip: int = 0
    insts: int | None = None
    start: str | None = None
    stop: str | None = None
    marks: bool = False
    every: int | None = None
    touched: bool = False
    discard: bool = False
    output_to_error: bool = False
    drop_output: bool = False
    input: str | None = None
    env: Mapping[str, str] | None = field(default=None, repr=False)

    @property
    def whole(self) -> bool:
        """Whether every instruction is recorded."""
        bounds = (self.insts, self.start, self.stop, self.every)
        return not self.skip and not self.marks and all(b is None for b in bounds)

    @property
    def from_the_start(self) -> bool:
        """Whether the recording knows all memory that the program has used before its last row."""
        if self.every is not None:
            return self.touched
        return not self.skip and not self.marks and self.start is None

    def check(self) -> None:
        """Raises `UsageError` where the numbers make no sense."""
        if self.isa not in ISAS:
            raise UsageError(f"isa: {', '.join(ISAS)}, not {self.isa!r}")
        if not 1 <= self.epoch <= 1 << 24:
            raise UsageError("an epoch under QEMU has 1 to 2^24 instructions")
        if self.marks and (self.start is not None or self.stop is not None):
            raise UsageError("--marks, or --start and --stop, say where the region is")
        if self.every is not None:
            if self.insts is None or self.every < self.insts + _APART:
                raise UsageError(
                    f"--every is at least {_APART} more than --insts, a sample's length"
                )
            if self.marks or self.start is not None or self.stop is not None:
                raise UsageError(
                    "--every takes samples of the whole run: no --marks, --start, --stop"
                )
        elif self.touched:
            raise UsageError("--touched belongs to samples (--every)")
        if self.skip < 0:
            raise UsageError("--skip: at least 0")
        if self.insts is not None and self.insts < 1:
            raise UsageError("--insts: at least 1")
