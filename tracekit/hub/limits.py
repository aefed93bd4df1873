"""How often somebody may ask: a bucket of tokens each, which fills with time."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Rate"]

MAX_KEPT = 50_000


@dataclass
class Rate:
    """``each`` requests a second on average, ``burst`` at once."""

    each: float
    burst: float

    def __post_init__(self) -> None:
        self._left: dict[str, tuple[float, float]] = {}

    def wait(self, who: str, now: float) -> float:
        """0 where ``who`` may ask, which is counted; else the seconds until it may."""
        left, then = self._left.get(who, (self.burst, now))
        left = min(self.burst, left + max(0.0, now - then) * self.each)  # a clock that is set back
        if left < 1:
            self._left[who] = (left, now)
            return (1 - left) / self.each
        if len(self._left) >= MAX_KEPT:
            self._forget_full(now)
        self._left[who] = (left - 1, now)
        return 0.0

    def _forget_full(self, now: float) -> None:
        kept = {
            who: (left, then)
            for who, (left, then) in self._left.items()
            if left + (now - then) * self.each < self.burst
        }
        self._left = kept if len(kept) < MAX_KEPT else {}
