"""Samples and counts of a program under QEMU, and whether it ran the same code as natively."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from tracekit.analysis.epoch_hashes import gaps
from tracekit.errors import FormatError, RecordError, TracekitError
from tracekit.io.files import read_json
from tracekit.io.output import scratch, write_json
from tracekit.record.qemu.traits import TOUCHED_PCS
from tracekit.record.totals import ending
from tracekit.store.reader import TraceFile

if TYPE_CHECKING:
    from tracekit.record.qemu import QemuSession

__all__ = [
    "LENGTH",
    "WARM",
    "Counts",
    "Sampled",
    "executions",
    "native_share",
    "sample",
    "sampled_rows",
]

#: Instructions of a sample, and how many of them at its beginning only warm the core.
LENGTH, WARM = 150_000, 50_000
#: Samples that are enough, and the distance of the first try: programs of under a second give
#: between 10 and 100 with it, and those with fewer are run again.
ENOUGH, FIRST_DISTANCE, NEAREST = 30, 64_000_000, 2 * LENGTH
#: Code of so many bytes is one bar of the histogram of pcs.
_BAR_BITS: Final = 8
#: What tells that a native run executes what QEMU's does not: its own kernel's pages apart.
_NATIVE_EPOCH, _NATIVE_PERIOD, _FEW = 24, 0.004, 20


@dataclass(frozen=True)
class Counts:
    """``instructions`` of the whole run; ``every``: from sample to sample; ``distance``: half the
    sum of differences of the histograms of pcs of samples and run, bars of 256 bytes of code;
    ``foreign``: the share of native pcs that the run under QEMU never executes, None = not looked
    at; ``seconds`` that the recording took; ``digest`` of what ran."""

    instructions: int
    every: int
    samples: int
    distance: float
    foreign: float | None
    seconds: float
    digest: str = ""


@dataclass(frozen=True)
class Sampled:
    """``begins``: rows at which ranges begin, from 0 on; ``measured``: whether a range counts (the
    others only warm the core)."""

    begins: list[int]
    measured: npt.NDArray[np.bool_]


def sample(
    command: Sequence[str],
    standard_input: Path | None,
    environment: Mapping[str, str],
    cpu: str | None,
    folder: Path,
    name: str,
    digest: str,
    tell: Callable[[str], None] = lambda message: None,
) -> Counts:
    """Runs a program under QEMU and keeps NAME.feats.zst and NAME.counts.json in the folder.

    Runs it a second time with closer samples where the first gave fewer than ``ENOUGH``.  Raises
    `TracekitError` where it cannot run there, or ends with another status than 0.
    """
    every = FIRST_DISTANCE
    out = folder / f"{name}.feats.zst"
    seconds = 0.0
    while True:
        session, took = _run(command, standard_input, environment, cpu, every, out)
        seconds += took
        executed = session.executed()
        instructions = sum(executed.values())
        if instructions >= ENOUGH * every or every == NEAREST:
            break
        every = max(NEAREST, instructions // (ENOUGH + 10))
        tell(f"{name}: {instructions:,} instructions; samples every {every:,}")
    if not out.exists():
        raise TracekitError(f"only {instructions:,} instructions: no sample is in it")
    with TraceFile(out) as trace:
        rows = sampled_rows(trace)
        distance = _distance(trace, rows, session, executed)
    foreign = native_share(command, standard_input, environment, session, executed)
    samples = int(rows.measured.sum())
    counts = Counts(instructions, every, samples, distance, foreign, round(seconds, 3), digest)
    write_json(folder / f"{name}.counts.json", asdict(counts), force=True)
    return counts


def _run(
    command: Sequence[str],
    standard_input: Path | None,
    environment: Mapping[str, str],
    cpu: str | None,
    every: int,
    out: Path,
) -> tuple[QemuSession, float]:
    import os
    import time

    from tracekit.extraction import Extraction
    from tracekit.extraction_types import Options
    from tracekit.record.qemu import QemuOptions, QemuSession, QemuSource

    options = QemuOptions(
        cpu=cpu,
        every=every,
        insts=LENGTH,
        skip=min(every // 2, every - LENGTH - 1),
        touched=True,
        env={**os.environ, **environment},
        input=None if standard_input is None else str(standard_input),
        drop_output=True,
    )
    begin = time.monotonic()
    session = QemuSession(list(command), options)
    rows = Extraction(QemuSource(session), out, Options(level="macro", force=True))
    try:
        rows.run()
    except FormatError:  # no row: the run ended before its first sample
        if not session.executed():
            raise
        out.unlink(missing_ok=True)
    finally:
        session.close()
    if session.status != 0:
        raise RecordError(
            f"{command[0]} ended under QEMU with {ending(session.status or 0)}",
            hint=session.explain(),
        )
    return session, time.monotonic() - begin


def read_counts(path: Path) -> Counts:
    """What `sample` kept.  Raises `FormatError` for another file."""
    data = read_json(path)
    try:
        return Counts(**data)
    except TypeError:
        raise FormatError("no counts of a program", path=str(path)) from None


def sampled_rows(trace: TraceFile) -> Sampled:
    """Which rows of a recording's features only warm the core, and which are measured."""
    pcs = np.asarray(trace.statics.pc)
    touched = np.flatnonzero(np.isin(pcs, np.asarray(TOUCHED_PCS, np.uint64)))
    begins: list[int] = []
    measured: list[bool] = []
    breaks = [int(g) for g in gaps(trace)]
    for begin, end in itertools.pairwise(breaks):
        warm = int(trace.column("static_id", (begin, begin + 1))[0]) in touched
        begins.append(begin)
        measured.append(False)
        if not warm and end - begin > WARM:
            begins.append(begin + WARM)
            measured.append(True)
    return Sampled(begins, np.asarray(measured, bool))


def executions(trace: TraceFile, rows: Sampled) -> npt.NDArray[np.float64]:
    """How many of the measured rows each static instruction has: [static instructions]."""
    counts = np.zeros(len(trace.statics))
    ends = [*rows.begins[1:], len(trace)]
    for begin, end, counted in zip(rows.begins, ends, rows.measured, strict=True):
        if counted:
            ids = np.asarray(trace.column("static_id", (begin, end)), np.int64)
            counts += np.bincount(ids, minlength=len(counts))
    return counts


def _distance(
    trace: TraceFile, rows: Sampled, session: QemuSession, executed: Mapping[int, int]
) -> float:
    """Between the histograms of pcs of the samples and of the whole run, 0 to 1."""
    whole: dict[int, int] = {}
    for encoding, n in executed.items():
        bar = session.table[encoding][0] >> _BAR_BITS
        whole[bar] = whole.get(bar, 0) + n
    bars = np.asarray(trace.statics.pc).astype(np.uint64) >> np.uint64(_BAR_BITS)
    counts = executions(trace, rows)
    sampled: dict[int, float] = {}
    for bar, n in zip(bars.tolist(), counts.tolist(), strict=True):
        if n:
            sampled[bar] = sampled.get(bar, 0.0) + n
    a, b = float(sum(whole.values())), float(sum(sampled.values()))
    if not a or not b:
        return 1.0
    return 0.5 * sum(
        abs(whole.get(k, 0) / a - sampled.get(k, 0) / b) for k in whole.keys() | sampled.keys()
    )


def native_share(
    command: Sequence[str],
    standard_input: Path | None,
    environment: Mapping[str, str],
    session: QemuSession,
    executed: Mapping[int, int],
) -> float | None:
    """The share of pcs of a native run, taken evenly in time, that lie in a file's code that the
    run under QEMU never executed.  None where there are few, or nobody may step a program."""
    import os

    from tracekit.inputs.tks import TksReader
    from tracekit.record import RecordOptions, available, record_command

    if available() is not None:
        return None
    places: dict[str, set[int]] = {}
    for encoding in executed:
        pc = session.table[encoding][0]
        for maps in session.maps.values():
            for m in maps:
                if m.begin <= pc < m.end and m.path:
                    places.setdefault(os.path.realpath(m.path), set()).add(pc - m.begin + m.offset)
    options = RecordOptions(
        epoch=_NATIVE_EPOCH, period=_NATIVE_PERIOD, in_place=True, follow_forks=True,
        lowest_priority=False,
    )  # fmt: skip
    seen = strange = 0
    with scratch() as folder:
        recording = folder / "native.tks"
        words = _redirected(command, standard_input)
        record_command(words, recording, options, env={**os.environ, **environment})
        with TksReader(recording) as reader:
            for epoch in reader.epochs():
                rows: Any = epoch.rows
                if not len(rows):
                    continue
                pc = reader.table[int(rows.encoding[0])][0]
                for m in reader.maps.get(epoch.info["pid"], []):
                    if m.begin <= pc < m.end and m.path.startswith("/"):
                        known = places.get(os.path.realpath(m.path))
                        seen += 1
                        strange += known is None or pc - m.begin + m.offset not in known
                        break
    return strange / seen if seen >= _FEW else None


def _redirected(command: Sequence[str], standard_input: Path | None) -> list[str]:
    """The command with its streams redirected by a shell, which it replaces."""
    source = "/dev/null" if standard_input is None else str(standard_input)
    return ["sh", "-c", 'exec "$@" <"$0" >/dev/null', source, *command]
