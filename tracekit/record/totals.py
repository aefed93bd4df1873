"""What a recording did, and what it cost the program."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Totals:
    """What was done, in seconds where not counts; the end block of the file."""

    epochs: int = 0
    instructions: int = 0
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

    def as_dict(self) -> dict[str, Any]:
        """For JSON (docs/json.md)."""
        return {
            **{k: getattr(self, k) for k in ("epochs", "instructions", "end", "exit_status")},
            **{
                k: round(float(getattr(self, k)), 6)
                for k in ("seconds", "paused", "page_copies", "contended", "processor", "overhead")
            },
            "skipped": dict(self.skipped),
            "in_place": self.in_place,
            "missing_memory": dict(self.missing),
            "period": self.period,
        }
