"""This computer's own row of the table, from the total times of programs that run on it.

A program's time is linear in the sum of its instructions' representations, so that its total is
enough: each program is stepped once from start to end (its representation), and run many times
(its time).  The row is a mix of the known machines that is never negative, and the start of a
process costs a constant of its own.
"""

from __future__ import annotations

import ctypes
import os
import platform
import statistics
import struct
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.calibration.machine_rows import FORMAT, VERSION
from tracekit.errors import FormatError, TracekitError, UsageError
from tracekit.io.files import read_json
from tracekit.io.output import kept_folder, scratch
from tracekit.mixture.least_squares import nnls
from tracekit.mixture.model import Mixture
from tracekit.record.totals import ending
from tracekit.sim import totals
from tracekit.sim.clock import period
from tracekit.store.reader import TraceFile

__all__ = [
    "BASELINES",
    "Measured",
    "Native",
    "fit_mix",
    "leave_one_out",
    "load_natives",
    "machine_of",
    "measure",
    "run_times",
]

F64 = npt.NDArray[np.float64]

#: What the leave-one-out inside the training programs chooses from: how firmly the mix is held
#: near all machines in equal parts.
STRENGTHS = (0.001, 0.01, 0.1, 1.0)
#: The system call's number.
_PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}
#: Seconds of a batch of runs of a short program.
BATCH = 0.02
#: What the mix is shown beside.
BASELINES = ("constant ns/instruction", "nearest known machine")


@dataclass(frozen=True)
class Native:
    """A program to run: ``command`` from the folder of the manifest."""

    name: str
    family: str
    command: tuple[str, ...]


@dataclass(frozen=True)
class Measured:
    """``seconds``: median time of a run; ``representation`` [cores] of all its instructions."""

    name: str
    family: str
    instructions: int
    seconds: float
    spread: float
    representation: F64


def load_natives(path: str | Path) -> list[Native]:
    """{"programs": [{"name": …, "family": …, "command": ["./prog", "arg"]}, …]} as JSON."""
    path = Path(path)
    data = read_json(path)
    listed = data.get("programs") if isinstance(data, dict) else None
    if not isinstance(listed, list) or len(listed) < 3:
        raise FormatError("programs: a list of at least three", path=str(path))
    out = []
    for i, entry in enumerate(listed):
        given = entry if isinstance(entry, dict) else {}
        command, name = given.get("command"), given.get("name")
        plain = isinstance(name, str) and name.isprintable() and "/" not in name
        if not plain or not name or name.startswith("."):
            raise FormatError(f"programs[{i}]: name: a plain name", path=str(path))
        if (
            not isinstance(command, list)
            or not command
            or not all(isinstance(c, str) for c in command)
        ):
            raise FormatError(f"programs[{i}]: command: a list of words", path=str(path))
        out.append(Native(name, str(given.get("family", name)), tuple(command)))
    if len({n.name for n in out}) < len(out):
        raise FormatError("a program is named twice", path=str(path))
    return out


# ---- times


def counters_offered() -> bool:
    """Whether the kernel counts instructions in hardware (most virtual machines do not): asks
    perf_event_open for such a counter of this process."""
    number = _PERF_EVENT_OPEN.get(platform.machine())
    if number is None:
        return False
    # struct perf_event_attr: type, size, config, …, flags: disabled, exclude_kernel, exclude_hv.
    flags = 1 | 1 << 5 | 1 << 6
    attr = struct.pack("<IIQQQQQ", 0, 112, 1, 0, 0, 0, flags).ljust(112, b"\0")
    libc = ctypes.CDLL(None, use_errno=True)
    fd = int(libc.syscall(number, ctypes.create_string_buffer(attr, 112), 0, -1, -1, 8))
    if fd >= 0:
        os.close(fd)
    return fd >= 0


def run_times(program: Native, folder: Path, runs: int, cpu: int) -> list[float]:
    """Seconds of processor time of a run, pinned to one processor: ``runs`` numbers, each the mean
    of a batch that is long enough to be told.  Raises `TracekitError` where a run fails.

    The time is what the scheduler counted for the process, user and system: on a process of a
    millisecond the two cannot be told apart by the clock's ticks.
    """
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {cpu})
        name, command = program.name, program.command
        first = max(_batch(name, command, folder, 1), 1e-5)
        batch = min(200, max(1, round(BATCH / first)))
        return [_batch(name, command, folder, batch) / batch for _ in range(runs)]
    finally:
        os.sched_setaffinity(0, before)


def _batch(name: str, command: Sequence[str], folder: Path, n: int) -> float:
    """Seconds of so many runs.  Raises `TracekitError` where one fails: its time would be that of a
    failure."""
    spent = 0.0
    for _ in range(n):
        try:
            child = subprocess.Popen(
                list(command),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                close_fds=False,
            )
        except OSError as e:
            raise TracekitError(f"cannot start it: {e.strerror}", path=command[0]) from None
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)  # nobody else is to wait for it
        if status != 0:
            raise TracekitError(f"{name} ended with {ending(status)}", path=command[0])
        spent += used.ru_utime + used.ru_stime
    return spent


def measure(
    model: Mixture,
    programs: Sequence[Native],
    folder: Path,
    work: Path,
    *,
    runs: int = 15,
    cpu: int | None = None,
    report: Callable[[Mapping[str, Any]], None] = lambda _: None,
) -> list[Measured]:
    """Each program stepped once and timed; recordings are kept in ``work`` and not made again.

    Raises `TracekitError` where a program cannot be run, or fails: before anything is stepped.
    """
    chosen = max(os.sched_getaffinity(0)) if cpu is None else cpu
    of = {"event": "program", "of": len(programs)}
    out = []
    for p in programs:
        _batch(p.name, p.command, folder, 1)
    with kept_folder(work):
        for i, p in enumerate(programs):
            report({**of, "done": i, "name": f"{p.name}: stepping"})
            place = work / f"{p.name}.tks"
            if not _complete(place, p.command):
                _step(p, folder, place)
            if not _complete(place, p.command):
                raise TracekitError(
                    "the recording does not reach the program's end", path=str(place)
                )
            instructions, total = _represent(model, place)
            report({**of, "done": i, "name": f"{p.name}: timing"})
            times = run_times(p, folder, runs, chosen)
            middle = statistics.median(times)
            if middle <= 0:
                raise TracekitError(
                    "its runs take no time that the kernel counts", path=p.command[0]
                )
            spread = statistics.median(abs(t - middle) for t in times) / middle
            out.append(Measured(p.name, p.family, instructions, middle, spread, total))
    return out


def _complete(place: Path, command: Sequence[str]) -> bool:
    """Whether it is a recording of all of that command."""
    from tracekit.inputs.tks import TksReader

    if not place.exists():
        return False
    with TksReader(place) as reader:
        reader.read_end()
        done = (reader.totals or {}).get("end") == "program_ended"
        return done and reader.meta.get("command") == list(command)


def _step(p: Native, folder: Path, place: Path) -> None:
    from tracekit.prediction.live import sample
    from tracekit.record import RecordOptions

    options = RecordOptions(full=True, lowest_priority=False)
    quiet = os.open(os.devnull, os.O_WRONLY)
    try:
        sample(place, options, command=p.command, force=True, standard_output=quiet, folder=folder)
    finally:
        os.close(quiet)


def _represent(model: Mixture, place: Path) -> tuple[int, F64]:
    from tracekit.prediction.live import features_of

    with scratch() as folder:
        features = folder / "all.zst"
        features_of(place, features)
        with TraceFile(features) as trace:
            return len(trace), totals(trace, model.cores)[0]


# ---- the fit


def _design(model: Mixture, programs: Sequence[Measured]) -> F64:
    """Seconds on each known machine, [programs, machines], and a column of ones: the start of a
    process."""
    periods = np.array([period(m) for m in model.machines])
    known = np.isfinite(periods)
    x = np.stack([model.cycles(p.representation)[known] * periods[known] for p in programs])
    return np.hstack([x, np.ones((len(programs), 1))])


def _solve(x: F64, seconds: F64, strength: float) -> F64:
    """Coefficients >= 0 of relative least squares; those of machines are held near equal parts of
    the scale that fits best."""
    a = x / seconds[:, None]
    machines = x.shape[1] - 1
    mean = np.stack([x[:, :-1].mean(axis=1), x[:, -1]], 1) / seconds[:, None]
    scale = nnls(mean, np.ones(len(seconds)))[0]
    size = np.sqrt((a[:, :-1] ** 2).mean(axis=0))
    pull = np.hstack([np.diag(size), np.zeros((machines, 1))]) * np.sqrt(strength * len(seconds))
    wanted = size * scale / machines * np.sqrt(strength * len(seconds))
    return nnls(np.vstack([a, pull]), np.concatenate([np.ones(len(seconds)), wanted]))


def fit_mix(x: F64, seconds: F64) -> tuple[F64, float]:
    """Coefficients of ``_design``'s columns, and the strength that leaving one program out
    chose."""
    best, least = STRENGTHS[-1], np.inf
    for strength in STRENGTHS:
        errors = []
        for i in range(len(seconds)):
            keep = np.arange(len(seconds)) != i
            errors.append(abs(x[i] @ _solve(x[keep], seconds[keep], strength) / seconds[i] - 1))
        if np.mean(errors) < least:
            best, least = strength, float(np.mean(errors))
    return _solve(x, seconds, best), best


def _constant(n: F64, seconds: F64) -> F64:
    """Seconds an instruction and a start, >= 0."""
    a = np.stack([n, np.ones(len(n))], 1) / seconds[:, None]
    return nnls(a, np.ones(len(n)))


def _nearest(x: F64, seconds: F64) -> F64:
    """The known machine that, at some clock and with a start, explains the times best."""
    best, least = np.zeros(x.shape[1]), np.inf
    for j in range(x.shape[1] - 1):
        a = x[:, [j, -1]] / seconds[:, None]
        found = nnls(a, np.ones(len(seconds)))
        miss = float(((a @ found - 1) ** 2).sum())
        if miss < least:
            best = np.zeros(x.shape[1])
            best[[j, -1]] = found
            least = miss
    return best


def leave_one_out(model: Mixture, programs: Sequence[Measured]) -> dict[str, Any]:
    """Relative errors of each program's time by all others: of the mix, of a constant time an
    instruction, and of the nearest known machine; each may have a cost of starting a process.
    ``net``: relative to the time without that cost."""
    x = _design(model, programs)
    seconds = np.array([p.seconds for p in programs])
    n = np.array([p.instructions for p in programs], np.float64)
    start = float(fit_mix(x, seconds)[0][-1])
    found: dict[str, list[float]] = {"mix": [], **{b: [] for b in BASELINES}}
    for i in range(len(programs)):
        keep = np.arange(len(programs)) != i
        mix, _ = fit_mix(x[keep], seconds[keep])
        constant = _constant(n[keep], seconds[keep])
        near = _nearest(x[keep], seconds[keep])
        found["mix"].append(float(x[i] @ mix))
        found[BASELINES[0]].append(float(constant @ [n[i], 1.0]))
        found[BASELINES[1]].append(float(x[i] @ near))
    net = np.maximum(seconds - start, 0.1 * seconds)
    out: dict[str, Any] = {"start_seconds": start, "programs": {}}
    for name, values in found.items():
        error = np.array(values) / seconds - 1
        netted = (np.array(values) - seconds) / net
        out[name] = {
            "mean": float(np.abs(error).mean()),
            "median": float(np.median(np.abs(error))),
            "net_mean": float(np.abs(netted).mean()),
            "net_median": float(np.median(np.abs(netted))),
        }
        for p, e in zip(programs, error.tolist(), strict=True):
            out["programs"].setdefault(p.name, {})[name] = e
    return out


def machine_of(model: Mixture, programs: Sequence[Measured], name: str) -> dict[str, Any]:
    """The machine ``name`` as ``tracekit predict --machine`` reads it, with its errors.

    Its clock is unknown and of no matter: a cycle of it is a nanosecond.
    """
    if len(programs) < 3:
        raise UsageError("at least three programs are needed")
    if name in model.names:
        raise UsageError(f"the model already knows a machine {name}")
    x = _design(model, programs)
    seconds = np.array([p.seconds for p in programs])
    mix, strength = fit_mix(x, seconds)
    periods = np.array([period(m) for m in model.machines])
    known = np.isfinite(periods)
    row = 1e9 * (mix[:-1] * periods[known]) @ model.table[known]
    names = [n for n, k in zip(model.names, known.tolist(), strict=True) if k]
    errors = leave_one_out(model, programs)
    return {
        "format": FORMAT,
        "version": VERSION,
        "name": name,
        "machine": {"name": name, "clock_ghz": 1.0, "measured": platform.node() or "here"},
        "cores": [],
        "columns": [str(c["name"]) for c in model.cores],
        "row": row.tolist(),
        "mix": {n: float(v) for n, v in zip(names, mix[:-1], strict=True) if v > 0},
        "strength": strength,
        "hardware_counters": counters_offered(),
        "leave_one_out": errors,
        "measured_on": [
            {
                "name": p.name,
                "family": p.family,
                "instructions": p.instructions,
                "seconds": p.seconds,
                "spread": p.spread,
            }
            for p in programs
        ],
    }
