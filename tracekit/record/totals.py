"""What a recording did, and what it cost the program."""

from __future__ import annotations

import os
import signal
import statistics
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

#: Of what was asked for, the part below which epochs are called short.
_SHORT = 0.5


def ending(status: int) -> str:
    """How a program ended, of what waitpid gave: "exit status 1", "signal 7 (SIGBUS)"."""
    if not os.WIFSIGNALED(status):
        return f"exit status {os.waitstatus_to_exitcode(status)}"
    number = os.WTERMSIG(status)
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:  # one of the real-time signals, which have no names
        return f"signal {number}"


def exit_code(status: int | None) -> int:
    """How a program ended, of what waitpid gave, as a shell's exit code: 128 and the signal's
    number where a signal ended it; 0 where nothing is known (None)."""
    if status is None:
        return 0
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


@dataclass
class Totals:
    """What was done, in seconds where not counts; the end block of the file."""

    epochs: int = 0
    instructions: int = 0
    asked: int = 0
    """Instructions that each epoch was to have; 0 where all of the program is recorded."""
    lengths: list[int] = field(default_factory=list)
    """Instructions of each epoch."""
    ended: Counter[str] = field(default_factory=Counter)
    """Why the epochs ended (END_REASONS) -> how many."""
    skipped: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    paused: float = 0.0
    page_copies: float = 0.0
    contended: float = 0.0
    processor: float = 0.0
    in_place: int = 0
    """Epochs that were stepped in the program itself."""
    missing: dict[str, int] = field(default_factory=dict)
    """Why, where nobody asked for that: kind of memory that copies would not have -> bytes."""
    period: float | None = None
    end: str = "program_ended"
    exit_status: int | None = None
    """The program's, as waitpid gives it; None where it is not our child or still runs."""

    @property
    def overhead(self) -> float:
        """The program's slow-down as measured: pauses, copied pages, contended processor time."""
        cost = self.paused + self.page_copies + self.contended
        return cost / self.seconds if self.seconds else 0.0

    def shortfall(self, helps: Mapping[str, str]) -> str | None:
        """A sentence where the median epoch has less than half of the instructions asked for, with
        what would help: reason of ending -> advice."""
        if not self.asked or not self.lengths:
            return None
        median = int(statistics.median(self.lengths))
        if median >= _SHORT * self.asked:
            return None
        early = Counter({why: n for why, n in self.ended.items() if why != "length"})
        (most, _), *_ = early.most_common(1)
        reasons = ", ".join(f"{n} x {why}" for why, n in early.most_common())
        told = f"; {helps[most]}" if most in helps else ""
        return (
            f"epochs have {median} of the {self.asked} instructions that were asked for (median; "
            f"they ended early by: {reasons}){told}"
        )

    def as_dict(self) -> dict[str, Any]:
        """For JSON (docs/json.md)."""
        return {
            **{k: getattr(self, k) for k in ("epochs", "instructions", "end", "exit_status")},
            **{
                k: round(float(getattr(self, k)), 6)
                for k in ("seconds", "paused", "page_copies", "contended", "processor", "overhead")
            },
            "skipped": dict(self.skipped),
            "ended": dict(self.ended),
            "in_place": self.in_place,
            "missing_memory": dict(self.missing),
            "period": self.period,
        }
