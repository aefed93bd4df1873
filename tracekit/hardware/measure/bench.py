"""What the experiments share: memory to test with, rings of pointers, and what is known so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tracekit.errors import TracekitError
from tracekit.hardware.measure.kernels import Kernel, family, kernel
from tracekit.hardware.measure.library import Call, DataPages, time_calls
from tracekit.hardware.measure.timing import CHAIN, CHAIN_LOOPS, Run, Timer

__all__ = ["PAGE", "Bench", "Experiment", "family", "first_above"]

PAGE = 4096
Offsets = npt.NDArray[np.int64]


def first_above(
    measure: Callable[[int], float], sizes: Sequence[int], threshold: float, step: int = 1
) -> int | None:
    """The least size from which on ``measure`` exceeds ``threshold``, to ``step``: the first two
    successive ones of the rising ``sizes`` that do, then halves; None where none does."""
    below, above = 0, None
    for i, n in enumerate(sizes):
        if measure(n) <= threshold:
            below = n
        elif i + 1 == len(sizes) or measure(sizes[i + 1]) > threshold:
            above = n
            break
    if above is None:
        return None
    while above - below > step:
        middle = (above + below) // 2
        if float(np.median([measure(middle) for _ in range(3)])) > threshold:
            above = middle
        else:
            below = middle
    return above


class Bench:
    """``megabytes``: memory to test with, of which ``data`` asks for large pages and ``small`` for
    small ones; ``found``: what experiments before this one found."""

    def __init__(self, megabytes: int = 256, seed: int = 1) -> None:
        self.timer = Timer()
        self.data = DataPages(megabytes << 20, large=True)
        self.small = DataPages(megabytes << 19, large=False)
        self.rng = np.random.default_rng(seed)
        self.found: dict[str, float] = {}
        self.chase, self.pair = kernel(["chase_a"] * 16, 16), kernel(["chase_a"] * 2, 2)

    def close(self) -> None:
        """Give the memory back."""
        self.data.close()
        self.small.close()
        self.timer.close()

    def cycles(
        self, body: Sequence[str] | bytes, steps: int, setup: Sequence[str] = (), rounds: int = 11
    ) -> float:
        """Cycles a step of a loop with this body (`kernel`)."""
        found = self.timer.cycles(Run(kernel(body, steps, setup)), rounds)
        if found is None:
            raise TracekitError("this processor lacks an instruction of calibrate's own kernels")
        return found

    @property
    def scratch(self) -> int:
        """The address of 64 KiB that experiments may write."""
        return self.timer.data.address

    def lines(self, size: int, spacing: int = 64) -> Offsets:
        """Every place of ``size`` bytes that is a multiple of ``spacing``, in random order."""
        return self.rng.permutation(size // spacing).astype(np.int64) * spacing

    def ring(self, offsets: Offsets, data: DataPages | None = None) -> None:
        """Link these places of ``data`` in a ring, in this order."""
        pages = data or self.data
        after = np.roll(offsets, -1).astype(np.uint64) + np.uint64(pages.address)
        pages.words[offsets // 8] = after

    def walk(
        self,
        offsets: Offsets,
        data: DataPages | None = None,
        *,
        steps: int = 16_000,
        rounds: int = 7,
        chase: Kernel | None = None,
        warm: bool = True,
        link: bool = True,
    ) -> npt.NDArray[np.float64]:
        """Cycles a step of a walk along the ring of these places, float64 [rounds]: rounds go on
        where the one before ended, unless the ring is short; ``warm``: two laps before; ``link``:
        make the ring first, which leaves its lines in caches."""
        pages, walked = data or self.data, chase or self.chase
        if link:
            self.ring(offsets, pages)
        n, each = len(offsets), walked.steps
        lap = max(1, n // each)
        count = max(1, steps // each) if n > steps else max(steps // each // lap, 1) * lap
        at = [pages.address + int(offsets[(i * count * each) % n]) for i in range(rounds)]
        reference = self.timer.reference()
        calls = [Call(walked.entry, at[0], at[0], self.scratch, 2 * lap if warm else 1), reference]
        for a in at:
            calls += [Call(walked.entry, a, a, self.scratch, count), reference]
        times = time_calls(calls, 1)
        if times is None:
            raise TracekitError("a walk along pointers failed")
        clock = times[0, 1::2] / (CHAIN * CHAIN_LOOPS)
        self.timer.ns_per_cycle.append(float(clock.min()))
        walks = times[0, 2::2] / (count * each)
        out: npt.NDArray[np.float64] = walks / np.minimum(clock[:-1], clock[1:])
        return out

    def latency(
        self,
        offsets: Offsets,
        data: DataPages | None = None,
        *,
        steps: int = 16_000,
        rounds: int = 7,
        warm: bool = True,
    ) -> float:
        """Cycles a step of a `walk` along these places: the low quantile of its rounds."""
        return float(
            np.quantile(self.walk(offsets, data, steps=steps, rounds=rounds, warm=warm), 0.3)
        )

    def flush(self, data: DataPages | None = None) -> None:
        """Push what the caches hold out of them: 48 MB of other lines are read."""
        pages = data or self.small
        pages.words[: (48 << 20) // 8 : 8].sum()


Measured = Mapping[str, float]


@dataclass(frozen=True)
class Experiment:
    """One experiment: ``run`` gives values by name; two rounds agree where each differs by at most
    ``relative`` of itself or ``absolute``.  ``label`` is what is shown meanwhile; ``alone``: it
    needs the whole core, which another thread may not share."""

    name: str
    label: str
    run: Callable[[Bench], Measured]
    relative: float = 0.05
    absolute: float = 0.3
    own: Mapping[str, float] = field(default_factory=dict)
    alone: bool = True

    def agree(self, name: str, a: float, b: float) -> bool:
        """Whether two rounds' values of ``name`` agree."""
        relative = self.own.get(name, self.relative)
        return abs(a - b) <= max(self.absolute, relative * max(abs(a), abs(b)))
