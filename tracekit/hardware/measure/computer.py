"""Measures the computer that it runs on, as a machine of `tracekit.hardware`."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tracekit.cpus import check_processor
from tracekit.errors import TracekitError, UsageError
from tracekit.hardware.machine import HardwareMachine
from tracekit.hardware.measure import (
    branches,
    front_end,
    loads_and_stores,
    memory,
    prefetchers,
    windows,
)
from tracekit.hardware.measure.bench import Bench
from tracekit.hardware.measure.forms import FormTimes, measure_forms, split_round_trips
from tracekit.hardware.measure.library import clock_step, isa
from tracekit.hardware.measure.machine_file import measured_forms, parameters_of, schedulers_of
from tracekit.hardware.measure.processor import cpu_name, nearest_machine
from tracekit.hardware.measure.settling import SHARE, Outcome, Settling, quiet_share

__all__ = ["EXPERIMENTS", "Calibration", "calibrate"]

EXPERIMENTS = (
    *memory.EXPERIMENTS,
    *windows.EXPERIMENTS,
    *branches.EXPERIMENTS,
    *front_end.EXPERIMENTS,
    *loads_and_stores.EXPERIMENTS,
    *prefetchers.EXPERIMENTS,
)
#: A clock whose steps are longer cannot time kernels of 20 us.
_COARSE = 2_000.0
#: By how much the clock's quarters may lie apart before it is told.
_STEADY = 0.05
#: Seconds to wait for a processor that is taken.
_PATIENCE = 10

Report = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Calibration:
    """What `calibrate` found.

    ``machine``: the computer as a machine; ``outcomes``: every value with its rounds; ``forms``:
    latency and reciprocal throughput of instruction forms; ``curve``: cycles of a load along a
    random ring, by its bytes; ``notes``: what disturbed it, and what is the known machine's.
    """

    machine: HardwareMachine
    outcomes: dict[str, Outcome]
    forms: FormTimes
    curve: dict[int, float]
    seconds: float
    notes: list[str] = field(default_factory=list)

    @property
    def unsettled(self) -> list[str]:
        """Values, then forms, of which no two rounds agree."""
        return [k for k, o in self.outcomes.items() if not o.settled] + self.forms.unsettled

    def plot(self, path: str, *, force: bool = False) -> None:
        """A picture into ``path``: loads by footprint and by stride, instruction forms."""
        from tracekit.hardware.measure.pictures import calibration_plot

        calibration_plot(
            f"{self.machine.cpu}, {self.machine.clock_ghz:.2f} GHz",
            {k: o.value for k, o in self.outcomes.items()},
            self.curve,
            self.forms,
            path,
            force=force,
        )

    def to_dict(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        return {
            "machine": self.machine.to_dict(),
            "values": {
                k: {"value": o.value, "settled": o.settled, "rounds": o.rounds}
                for k, o in self.outcomes.items()
            },
            "forms": self.forms.to_dict(),
            "unsettled": self.unsettled,
            "unknown_forms": self.forms.unknown,
            "curve": [[size, cycles] for size, cycles in self.curve.items()],
            "seconds": self.seconds,
            "notes": self.notes,
        }


@contextlib.contextmanager
def _pinned(cpu: int | None) -> Iterator[int]:
    """This thread on one processor: ``cpu``, else the freest one that it may use."""
    check_processor(cpu)
    allowed = os.sched_getaffinity(0)
    try:
        best = cpu if cpu is not None else _freest(sorted(allowed))
        os.sched_setaffinity(0, {best})
        yield best
    finally:
        os.sched_setaffinity(0, allowed)


def _freest(processors: list[int]) -> int:
    shares = {}
    for cpu in processors[:64]:
        os.sched_setaffinity(0, {cpu})
        wall, used = time.perf_counter(), time.thread_time()
        while time.perf_counter() - wall < 0.01:
            pass
        shares[cpu] = (time.thread_time() - used) / (time.perf_counter() - wall)
    return max(shares, key=lambda c: round(shares[c], 2))


def calibrate(
    *,
    seconds: float = 180.0,
    name: str = "here",
    base: HardwareMachine | None = None,
    cpu: int | None = None,
    megabytes: int = 256,
    report: Report | None = None,
) -> Calibration:
    """Measure this computer within about ``seconds``.

    ``base``: the machine whose parameters stand for what cannot be measured (the known one that
    this processor is, or is nearest to); ``cpu``: which processor to measure; ``megabytes``: of
    memory to test with; ``report(done, of, label)``.

    Raises TracekitError where other programs take the processor, the clock does not hold still,
    or the library of kernels is missing.
    """
    start = time.monotonic()
    told = report or (lambda done, of, label: None)
    notes = []
    if base is None:
        known, note = nearest_machine()
        base, notes = HardwareMachine.load(known), [note] if note else []
    if base.isa != isa():
        raise UsageError(f"{base.name} is a machine of {base.isa}, and this computer is {isa()}")
    if (step := clock_step()) > _COARSE:
        raise TracekitError(f"this system's clock has steps of {step:.0f} ns: too coarse")
    with _pinned(cpu) as here, contextlib.closing(Bench(megabytes)) as bench:
        notes += _wait_for_quiet(bench, here)
        settling = Settling(bench, start + 0.6 * seconds, told)
        settling.run(EXPERIMENTS)
        forms = measure_forms(bench, start + 0.9 * seconds, told)
        curve = memory.latency_curve(bench)
        clock = np.array(bench.timer.ns_per_cycle)
    notes += settling.notes
    settled = {k: o.value for k, o in settling.outcomes.items() if o.settled}
    _move_out(forms, base, settled)
    low, middle, high = np.quantile(clock, (0.25, 0.5, 0.75))
    if high / low > 1 + _STEADY:
        notes.append(
            f"the clock moved: half of the time between {1 / high:.2f} and {1 / low:.2f} GHz"
        )
    unsettled = [k for k, o in settling.outcomes.items() if not o.settled] + forms.unsettled
    if unsettled:
        notes.append(f"did not settle, left at {base.name}'s value: {', '.join(unsettled)}")
    parameters = parameters_of(settled, float(middle))
    machine = base.replace(
        name=name,
        cpu=cpu_name(),
        **parameters,
        retire_width=max(base.retire_width, int(parameters.get("width", base.width))),
        schedulers=schedulers_of(base, settled),
        measured=measured_forms(forms),
        checked=None,
        sources=f"measured by tracekit calibrate; else as {base.name}: {base.sources}",
        notes=notes,
        calibration={k: round(v, 4) for k, v in settled.items()},
    )
    return Calibration(machine, settling.outcomes, forms, curve, time.monotonic() - start, notes)


def _wait_for_quiet(bench: Bench, cpu: int) -> list[str]:
    """Notes of how long another program had the processor; raises where it keeps it."""
    for attempt in range(_PATIENCE):
        if (share := quiet_share(bench)) >= SHARE:
            return [f"waited {attempt} s for another program to end"] if attempt else []
        time.sleep(1.0)
    raise TracekitError(
        f"another program takes {1 - share:.0%} of processor {cpu}",
        hint="end it, or name a free processor with --cpu",
    )


def _move_out(forms: FormTimes, base: HardwareMachine, found: dict[str, float]) -> None:
    """A chain of a vector load and a plain move out of the register tells the move's cycles, where
    the load's are known: the table's."""
    chain = found.get("vector_load_cycles")
    split_round_trips(forms, None if chain is None else max(chain - base.vector_load_latency, 1.0))
