"""How a program is recorded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tracekit.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class RecordOptions:
    """Times in seconds.

    ``epoch``: instructions of an epoch.  ``period``: from the start of one epoch to the start of
    the next; with ``random`` the mean of exponentially distributed ones.  ``count``, ``duration``:
    when to stop.  ``threads``: "all" (epochs go round the threads), "main", or a thread's number.
    ``wait``: how long an epoch waits for a thread that is in a system call.  ``copy_seconds``: the
    longest life of a copy.  ``accesses``: the most that an epoch holds.  ``max_overhead``: a
    fraction (0.001 = 0.1 %) from which the period is chosen, by measured costs.  ``in_place``: step
    the program itself, through its system calls.  ``full``: all of it, from the first instruction.
    ``snapshots_only``: an epoch that a copy could not be stepped for is skipped, never stepped in
    the program.  ``lowest_priority``: the copy runs only when nothing else wants the processor.
    ``aslr``: False starts the program with its memory at the same addresses in each run.
    """

    epoch: int = 100_000
    period: float = 10.0
    random: bool = False
    seed: int | None = None
    count: int | None = None
    duration: float | None = None
    threads: Literal["all", "main"] | int = "all"
    wait: float = 1.0
    copy_seconds: float = 60.0
    accesses: int = 1 << 24
    max_overhead: float | None = None
    follow_forks: bool = False
    follow_exec: bool = False
    in_place: bool = False
    snapshots_only: bool = False
    full: bool = False
    lowest_priority: bool = True
    aslr: bool = True

    def check(self) -> None:
        """Raises `UsageError` where the numbers make no sense."""
        if self.epoch < 1 or self.epoch > 1 << 28:
            raise UsageError("an epoch has 1 to 2^28 instructions")
        if self.period < 0 or self.wait < 0 or self.copy_seconds <= 0:
            raise UsageError("times cannot be negative")
        if self.count is not None and self.count < 1:
            raise UsageError("the number of epochs must be positive")
        if self.max_overhead is not None and not 0 < self.max_overhead < 1:
            raise UsageError("the overhead must lie between 0 and 100 %")
        if self.full and self.in_place:
            raise UsageError("--full steps the program itself anyway: leave out --in-place")
        if self.full and (self.max_overhead is not None or self.random):
            raise UsageError("--full records every instruction: there is nothing to choose")
        if self.snapshots_only and (self.in_place or self.full):
            raise UsageError("snapshots_only: neither in_place nor full")
        if self.in_place and self.max_overhead is not None:
            raise UsageError(
                "--max-overhead is for snapshots; --in-place stops the program while it steps"
            )
