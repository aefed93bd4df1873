"""User time in rounds, each beside the clock that an add chain shows at that moment.

A processor's clock moves by a tenth within minutes, and so do times; cycles (time x the clock of
the moment) move less.  So each program is timed once a round, between two chains.

A virtual processor is often one thread of a core whose other one is somebody else's.  So a program
stands still while that one is busy.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tracekit import _core
from tracekit.errors import FormatError, TracekitError, UsageError
from tracekit.hardware.measure.shared_core import SharedCore
from tracekit.io.files import MAX_JSON, parse_json, read_limited
from tracekit.io.output import append_line
from tracekit.record.totals import ending

__all__ = ["SPREAD", "Timed", "clock_ghz", "host_of", "medians", "read_times", "time_once"]

#: Interquartile range over the median, above which a program is measured again.
SPREAD: Final = 0.05
_ROUNDS: Final = 100_000  # of 64 additions: some 1.6 ms
_ENOUGH: Final = 10
#: Seconds from look to look, and that one run may stand still.
_SLICE, _PATIENCE = 0.003, 60.0


@dataclass(frozen=True)
class Timed:
    """``cycles``: median over the rounds of user time x clock; ``spread``: their interquartile
    range over it; ``seconds``: median user time; ``system``: the system's share of all time."""

    cycles: float
    spread: float
    seconds: float
    system: float
    rounds: int


def clock_ghz() -> float:
    """The clock now: the quickest of a few dependent add chains.

    Raises `UsageError` on processors that no chain is written for.
    """
    best = min(_core.add_chain_seconds(_ROUNDS) for _ in range(5))
    if best <= 0:
        raise UsageError("no add chain for this processor: x86-64 and AArch64 have one")
    return 64e-9 * _ROUNDS / best


def _attended(name: str, pid: int, core: SharedCore) -> tuple[int, Any, float]:
    """Waits for a process group's leader, which stands still while another thread shares the core:
    status, resource usage, seconds that it stood still."""
    still = 0.0
    while True:
        ended, status, usage = os.wait4(pid, os.WNOHANG)
        if ended:
            return status, usage, still
        if core.shared():
            begin = time.monotonic()
            os.killpg(pid, signal.SIGSTOP)
            while core.shared():
                if still + time.monotonic() - begin > _PATIENCE:
                    raise TracekitError(
                        f"{name}: another thread shares the core, for {_PATIENCE:.0f} s of one run",
                        hint="name a free processor with --cpu, or time on another computer",
                    )
                time.sleep(_SLICE / 10)
            os.killpg(pid, signal.SIGCONT)
            still += time.monotonic() - begin
        time.sleep(_SLICE)


def time_once(
    name: str,
    command: Sequence[str],
    standard_input: Path | None,
    environment: Mapping[str, str],
    core: SharedCore | None = None,
) -> dict[str, Any]:
    """Runs it once between two chains; its output is dropped.  Children that it waits for count.
    It stands still while another thread shares ``core``, the one that this thread is pinned to.

    Raises `TracekitError` where it cannot be started, or fails, or the core stays shared.
    """
    core = core or SharedCore()
    before = clock_ghz()
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, str(standard_input or os.devnull), os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
    ]
    begin = time.monotonic()
    try:
        pid = os.posix_spawnp(
            command[0], list(command), {**os.environ, **environment}, file_actions=actions,
            setpgroup=0,
        )  # fmt: skip
    except OSError as e:
        raise TracekitError(f"{name}: {e.strerror}", path=command[0]) from None
    try:
        status, usage, still = _attended(name, pid, core)
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise
    wall = time.monotonic() - begin
    if status != 0:
        raise TracekitError(f"{name}: ended with {ending(status)}")
    return {
        "program": name,
        "user": usage.ru_utime,
        "system": usage.ru_stime,
        "wall": wall,
        "still": still,
        "clock": (before + clock_ghz()) / 2,
        "time": time.time(),
    }


def add_time(path: Path, timed: Mapping[str, Any]) -> None:
    """One line more of a file of times."""
    append_line(path, json.dumps(timed))


def read_times(path: Path) -> list[dict[str, Any]]:
    """The lines of a file of times.  Raises `FormatError` for a damaged one."""
    if not path.exists():
        return []
    out = []
    for number, line in enumerate(read_limited(path, MAX_JSON).splitlines(), 1):
        try:
            entry = parse_json(line)
            numbers = [float(entry[k]) for k in ("user", "system", "clock")]
            texts = entry["program"], entry.get("host", "")
            right = all(isinstance(t, str) for t in texts) and all(map(math.isfinite, numbers))
            if not right or any(isinstance(entry[k], str) for k in ("user", "system", "clock")):
                raise ValueError
        except (ValueError, KeyError, TypeError, OverflowError):
            raise FormatError(f"line {number} is no time of a program", path=str(path)) from None
        out.append(entry)
    return out


def host_of(times: Iterable[Mapping[str, Any]], path: Path) -> str | None:
    """The processor that was timed; None where not all ``times``, which are of the file ``path``,
    tell it.  Raises `TracekitError` where they are of several."""
    told = [t.get("host") for t in times]
    if len(known := sorted({str(host) for host in told if host is not None})) > 1:
        raise TracekitError(
            f"times of several processors: {', '.join(known)}",
            path=str(path),
            hint="-o names another folder for each",
        )
    return known[0] if known and None not in told else None


def medians(times: Iterable[Mapping[str, Any]]) -> dict[str, Timed]:
    """Program → its times put together.  Where ten rounds or more spread by over `SPREAD`, the
    later half of them counts: it was measured again."""
    by_name: dict[str, list[Mapping[str, Any]]] = {}
    for t in times:
        by_name.setdefault(str(t["program"]), []).append(t)
    out = {}
    for name, all_of_it in by_name.items():
        out[name] = _together(all_of_it)
        if out[name].spread > SPREAD and len(all_of_it) >= _ENOUGH:
            out[name] = _together(all_of_it[len(all_of_it) // 2 :])
    return out


def _together(times: Sequence[Mapping[str, Any]]) -> Timed:
    cycles = [t["user"] * t["clock"] * 1e9 for t in times]
    middle = statistics.median(cycles)
    low, high = (cycles[0], cycles[0])
    if len(cycles) > 1:
        low, _, high = statistics.quantiles(cycles, n=4)
    everything = sum(t["user"] + t["system"] for t in times)
    return Timed(
        middle,
        (high - low) / middle if middle > 0 else float("inf"),
        statistics.median(t["user"] for t in times),
        sum(t["system"] for t in times) / everything if everything > 0 else 0.0,
        len(times),
    )
