"""Latency and reciprocal throughput of instruction forms."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tracekit.hardware.measure.bench import Bench
from tracekit.hardware.measure.kernels import Kernel, kernel
from tracekit.hardware.measure.library import FormKernel, form_kernels, snippets
from tracekit.hardware.measure.timing import Run

__all__ = ["FormTimes", "measure_forms", "split_round_trips"]

#: Instances in a loop, kernels that take turns, rounds of a form at the most.
_INSTANCES, _TOGETHER, _ROUNDS = 96, 12, 6
#: Two rounds agree where they differ by less than this share, or by these cycles of an instance.
_RELATIVE, _ABSOLUTE = 0.03, 0.02


@dataclass
class FormTimes:
    """What was measured of forms, in cycles: latency and reciprocal throughput of each, None where
    there is no kernel of it or no two rounds agree.

    ``unsettled`` names the latter, ``unknown`` those that this processor does not have;
    ``round_trip`` has cycles from a general register to a vector one and back.
    """

    latency: dict[str, float] = field(default_factory=dict)
    throughput: dict[str, float] = field(default_factory=dict)
    unsettled: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    round_trip: dict[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, dict[str, float | None]]:
        """As a machine's file has them."""
        return {
            form: {"latency": self.latency.get(form), "throughput": self.throughput.get(form)}
            for form in dict.fromkeys([*self.throughput, *self.latency])
        }


def _kernel(form: FormKernel) -> Kernel:
    known = snippets()
    times = max(1, -(-_INSTANCES // form.instances))
    wide = "leave_wide" if form.form.startswith("v") and "leave_wide" in known else "leave"
    return kernel(form.body * times, form.instances * times, form.setup, leave=wide)


def measure_forms(bench: Bench, end: float, report: Callable[[int, int, str], None]) -> FormTimes:
    """Every form of the library, each twice and again while rounds disagree, until ``end``
    (time.monotonic's seconds); ``report(done, of, label)`` is told how far it is."""
    kernels = form_kernels()
    bench.timer.alone = True
    found = FormTimes()
    rounds: dict[int, list[float]] = {i: [] for i in range(len(kernels))}
    left = list(rounds)
    missing: set[str] = set()
    for number in range(_ROUNDS):
        waiting = []
        for at in range(0, len(left), _TOGETHER):
            if number and time.monotonic() > end:
                break
            group = [i for i in left[at : at + _TOGETHER] if kernels[i].form not in missing]
            report(min(number, 1) * len(kernels) + at, 2 * len(kernels), "instruction forms")
            for i, cycles in zip(group, _times(bench, [kernels[i] for i in group]), strict=True):
                if cycles is None:
                    missing.add(kernels[i].form)
                    continue
                rounds[i].append(cycles)
                if _agreed(rounds[i]) is None:
                    waiting.append(i)
        left = waiting
        if not left or (number and time.monotonic() > end):
            break
    _take(found, kernels, rounds)
    found.unknown = sorted(missing)
    return found


def _times(bench: Bench, forms: list[FormKernel]) -> list[float | None]:
    a, b = bench.scratch + (128 << 10), bench.scratch + (192 << 10)
    made = [_kernel(f) for f in forms]
    return bench.timer.cycles_many([Run(k, a, b) for k in made], 9, 8_000.0)


def _agreed(values: list[float]) -> float | None:
    """The mean of the last two rounds that agree."""
    for i in range(len(values) - 1, 0, -1):
        near = min(values[:i], key=lambda v: abs(v - values[i]))
        if abs(near - values[i]) <= max(_ABSOLUTE, _RELATIVE * values[i]):
            return (near + values[i]) / 2
    return None


def _take(
    found: FormTimes, kernels: tuple[FormKernel, ...], rounds: dict[int, list[float]]
) -> None:
    settled = {i: v for i, r in rounds.items() if (v := _agreed(r)) is not None}
    for i, k in enumerate(kernels):
        if i not in settled:
            if rounds[i]:
                found.unsettled.append(f"{k.form} ({'latency' if k.chain else 'throughput'})")
        elif not k.chain:
            found.throughput[k.form] = _rounded(settled[i])
        elif k.others >= 0:
            found.latency[k.form] = _rounded(max(settled[i] - k.others, 0.0))
        else:
            found.round_trip[k.form] = settled[i]


def split_round_trips(found: FormTimes, out: float | None) -> None:
    """Latencies of what moves between general and vector registers: only there and back can be
    measured.  ``out``: cycles of a plain move from a vector register; half of there and back unless
    given."""
    trips = found.round_trip
    plain = {
        v: min(
            (trips[f] for f in (f"{v}movd r32, xmm", f"{v}movd xmm, r32") if f in trips),
            default=None,
        )
        for v in ("", "v")
    }
    for form, cycles in trips.items():
        both = plain["v" if form.startswith("v") else ""]
        if both is None:
            continue
        leaving = both / 2 if out is None else min(out, both - 1)
        back = both - leaving if re.search(r" r\d\d", form.partition(",")[0]) else leaving
        found.latency[form] = _rounded(max(cycles - back, 0.0))


def _rounded(cycles: float) -> float:
    """To hundredths; whole cycles where it is one within the clock's error."""
    near = round(cycles)
    return float(near) if near and abs(cycles - near) <= 0.012 * near + 0.01 else round(cycles, 3)
