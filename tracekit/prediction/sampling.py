"""A program's figures on every machine from a sample of its instructions: the epochs of a
recording.

Epochs start in the middle of a program, and nothing is known of what its caches held.  The sample
is walked twice: the first time an epoch finds what earlier ones touched, the second time what the
whole sample touches, as far as a machine's caches hold it.  The second is at most a little above
the truth.  What an epoch's second half takes longer in the first walk than in the second is at most
a little below what the truth adds: it reuses nothing from before but what the first half touched.
The truth lies between: `NEW` of the way, give or take `NEW_SPREAD` (docs/predict.md has the
measurements), which goes into the interval beside what the epochs differ.

Epochs are taken evenly in time, so that slow phases have more of them than their share of the
instructions.  Each epoch therefore weighs by its speed: on this computer, where the model has a row
for it, else on the average machine.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tracekit.analysis.epoch_hashes import gaps
from tracekit.errors import UsageError
from tracekit.estimation.student import student
from tracekit.mixture.model import Mixture, check_trace
from tracekit.prediction.warm_samples import of_program, sample_sums_of, tells_touched
from tracekit.progress import Progress
from tracekit.sim import walk
from tracekit.store.reader import TraceFile

__all__ = [
    "Estimate",
    "Sums",
    "estimate",
    "interleaved_threads",
    "interval",
    "sums_of",
    "walk_epochs",
]

F64 = npt.NDArray[np.float64]
Range = tuple[int, int]

#: Share of the late misses of the first walk that are the program's own (lines that are new, or
#: were not used for long), and twice its standard deviation.
NEW, NEW_SPREAD = 0.3, 0.6
#: What an epoch's beginning and end, in an empty core, may cost, as a share.
EDGES = 0.01
#: Epochs that are shorter say nothing.
SHORTEST = 200


@dataclass(frozen=True)
class Sums:
    """``rows`` [epochs] instructions, ``warm`` [epochs, cores] cycles of the simulated cores in the
    second walk, ``unwarmed`` [epochs, cores] how many more there would be if all of an epoch took
    as much longer in the first walk as its second half does, ``parts`` [epochs, labels, cores] the
    ``warm`` ones by label, where asked for."""

    rows: F64
    warm: F64
    unwarmed: F64
    parts: F64 | None


@dataclass(frozen=True)
class Estimate:
    """Per machine: ``cpi`` cycles an instruction, ``half`` half the width of its 95 % interval (NaN
    where one epoch is all there is, 0 where nothing was sampled), ``cold`` by how much the figure
    would be higher if nothing was in the caches but what half an epoch had touched before;
    ``weights`` [epochs] of an instruction of each epoch, mean 1 over the instructions;
    ``sampling`` the part of ``half`` that more epochs would make smaller."""

    cpi: F64
    half: F64
    cold: F64
    weights: F64
    sampling: F64


def ranges_of(trace: TraceFile) -> list[Range]:
    """The epochs' ranges of rows, without those that are too short to say anything."""
    pairs = of_program(trace, list(itertools.pairwise(gaps(trace))))
    return [p for p in pairs if p[1] - p[0] >= SHORTEST] or pairs


def threads_of(trace: TraceFile, ranges: Sequence[Range]) -> list[tuple[int, int]]:
    """The process and thread that each of a recording's epochs was taken of; [] where the features
    do not tell."""
    source = trace.index.get("source", {})
    names, lengths = source.get("epoch_threads"), source.get("epoch_lengths")
    if not isinstance(names, dict) or not isinstance(lengths, dict) or len(lengths) != 1:
        return []
    (key,) = lengths
    start = int(trace.index["options"].get("start") or 0)
    of: dict[int, tuple[int, int]] = {}
    at = -start
    for name, rows in zip(names.get(key, []), lengths[key], strict=False):
        pid, _, tid = str(name).partition(".")
        if rows and pid.isdigit() and tid.isdigit():
            of[max(at, 0)] = (int(pid), int(tid))
        at += rows
    return [of[a] for a, _ in ranges] if all(a in of for a, _ in ranges) else []


def interleaved_threads(trace: TraceFile) -> int:
    """How many threads a trace's rows are of, which are walked as one; 1 where it does not tell.
    Of a recording they stand epoch by epoch, of a drmemtrace in the order of its timestamps."""
    source = trace.index.get("source", {})
    if source.get("format") == "drmemtrace" and source.get("interleaved") is True:
        counts = source.get("counts")
        count = counts.get("threads") if isinstance(counts, dict) else None
        return count if isinstance(count, int) and count > 1 else 1
    return max(1, len(set(threads_of(trace, ranges_of(trace)))))


def walk_epochs(
    model: Mixture,
    trace: TraceFile,
    ranges: Sequence[Range],
    *,
    labels: npt.NDArray[np.int64] | None = None,
    contiguous: bool = False,
    threads: int | None = None,
    quiet: bool = True,
) -> Sums:
    """Through the cores; ``labels``: a number for each static instruction.  ``contiguous``: the
    ranges are all of a program from its start, and are walked once."""
    check_trace(model, trace)
    if not ranges:
        raise UsageError("nothing was recorded", path=trace.path)
    begins = np.array([a for a, _ in ranges], np.int64)
    middles = np.array([(a + b) // 2 for a, b in ranges], np.int64)
    shape = (len(ranges), len(model.cores))
    warm, unwarmed = np.zeros(shape), np.zeros(shape)
    many = int(labels.max()) + 1 if labels is not None and len(labels) else 0
    parts = np.zeros((len(ranges), many, len(model.cores))) if many else None
    passes = 1 if contiguous else 2
    expected = sum(b - a for a, b in ranges)
    done = 0
    with Progress("simulate", passes * expected, quiet=quiet) as progress:
        for block in walk(trace, model.cores, threads, ranges=[*ranges] * passes):
            progress.update(done)
            k = int(np.searchsorted(begins, block.begin, "right")) - 1
            counted = done >= (passes - 1) * expected
            done += len(block.cycles)
            if passes == 2:
                second = block.cycles[max(0, int(middles[k]) - block.begin) :]
                unwarmed[k] += (-1 if counted else 1) * second.sum(axis=0, dtype=np.float64)
            if not counted:
                continue
            warm[k] += block.cycles.sum(axis=0, dtype=np.float64)
            if parts is not None and labels is not None:
                ids = trace.column("static_id", (block.begin, block.begin + len(block.cycles)))
                _add_by(parts[k], labels[ids], block.cycles)
    ends = np.array([b for _, b in ranges], np.int64)
    rows = (ends - begins).astype(np.float64)
    unwarmed *= (rows / np.maximum(ends - middles, 1))[:, None]
    return Sums(rows, warm, unwarmed, parts)


def _add_by(out: F64, of: npt.NDArray[np.int64], cycles: npt.NDArray[np.float32]) -> None:
    order = np.argsort(of, kind="stable")
    starts = np.flatnonzero(np.diff(of[order], prepend=-1))
    out[of[order][starts]] += np.add.reduceat(cycles[order], starts, axis=0, dtype=np.float64)


def sums_of(
    model: Mixture,
    trace: TraceFile,
    labels: npt.NDArray[np.int64] | None = None,
    threads: int | None = None,
    *,
    quiet: bool = True,
) -> Sums:
    """``walk_epochs`` over a recording's epochs; where it tells which lines were used before each,
    and no ``labels`` are asked for, once, with warm caches."""
    contiguous = bool(trace.index.get("source", {}).get("contiguous"))
    ranges = ranges_of(trace)
    if labels is None and ranges and tells_touched(trace):
        rows, warm = sample_sums_of(model, trace, ranges, threads, quiet=quiet)
        return Sums(rows, warm, np.zeros_like(warm), None)
    return walk_epochs(
        model,
        trace,
        ranges,
        labels=labels,
        contiguous=contiguous,
        threads=threads,
        quiet=quiet,
    )


def estimate(
    model: Mixture,
    sums: Sums,
    *,
    sampled: bool = True,
    here: str | None = None,
    even_in_time: bool = True,
) -> Estimate:
    """Figures of the whole program.  ``sampled``: the epochs are of a longer program, taken
    ``even_in_time`` or else evenly in its instructions; not sampled: they are all of it.  ``here``:
    the machine that they were taken on."""
    warm, unwarmed = model.cycles(sums.warm), model.cycles(sums.unwarmed)
    rate = warm / sums.rows[:, None]
    weights = np.ones(len(sums.rows))
    if sampled and even_in_time:
        if here is not None:
            slowness = rate[:, model.index([here])[0]]
        else:
            slowness = np.exp(np.log(np.maximum(rate, 1e-9)).mean(axis=1))
        weights = 1 / np.maximum(slowness, 1e-9)
    weights *= sums.rows.sum() / (weights * sums.rows).sum()
    if not sampled:
        cpi = warm.sum(axis=0) / sums.rows.sum()
        return Estimate(cpi, np.zeros_like(cpi), np.zeros_like(cpi), weights, np.zeros_like(cpi))
    cpi, sampling = interval(warm + NEW * unwarmed, sums.rows, weights)
    whole = (weights * sums.rows).sum()
    unknown = (weights[:, None] * unwarmed).sum(axis=0) / whole
    half = np.sqrt(sampling**2 + (NEW_SPREAD * unknown) ** 2 + (EDGES * cpi) ** 2)
    return Estimate(cpi, half, (1 - NEW) * unknown / cpi, weights, sampling)


def interval(cycles: F64, rows: F64, weights: F64) -> tuple[F64, F64]:
    """Weighted ratio of sums, and half its 95 % interval: ``cycles`` [epochs, machines], ``rows``
    and ``weights`` [epochs].

    The variance is the jackknife's of a ratio (Cochran 1977, section 6.15), times Student's t of
    the effective number of epochs.
    """
    w = weights * rows
    total = w.sum()
    ratio = (weights[:, None] * cycles).sum(axis=0) / total
    n = len(rows)
    if n < 2:
        return ratio, np.full(len(ratio), np.nan)
    left = total - w
    without = (ratio * total - weights[:, None] * cycles) / left[:, None]
    effective = total**2 / (w**2).sum()
    variance = (n - 1) / n * ((without - without.mean(axis=0)) ** 2).sum(axis=0)
    return ratio, student(effective - 1) * np.sqrt(variance)
