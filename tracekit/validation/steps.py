"""The steps of a validation, each of which keeps what it did in a folder: build, time, record,
predict."""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from tracekit.errors import FormatError, TracekitError, UsageError
from tracekit.hardware import HardwareMachine, cpu_name
from tracekit.hardware.digest import hardware_digest
from tracekit.hardware.measure.shared_core import SharedCore
from tracekit.io.files import read_json
from tracekit.io.output import replacing, scratch, write_json
from tracekit.schema import OP_CLASSES
from tracekit.store.reader import TraceFile
from tracekit.validation.digests import digest_of_build, digest_of_program
from tracekit.validation.judging import Judged, Judgement, judge
from tracekit.validation.program_list import FITTING, HALVES, ListedProgram, ProgramList
from tracekit.validation.sampling import (
    Counts,
    Sampled,
    executions,
    read_counts,
    sample,
    sampled_rows,
)
from tracekit.validation.timing import (
    SPREAD,
    Timed,
    add_time,
    host_of,
    medians,
    read_times,
    time_once,
)

__all__ = ["STEPS", "Validation"]

STEPS: Final = ("build", "time", "record", "predict")
#: Histograms of pcs of samples and run that differ by more say that the samples are of other code.
DISTANCE: Final = 0.25
#: The share of native pcs that QEMU's run never executed, from which on a program ran other code.
FOREIGN: Final = 0.03


class Validation:
    """A list of programs and the folder in which the steps keep what they did.

    ``half``: "development", "test" or None for both; ``only``: names of programs.  ``report``
    takes events with ``done``, ``of`` and ``name``.
    """

    def __init__(
        self,
        programs: ProgramList,
        folder: Path,
        *,
        half: str | None = None,
        only: Sequence[str] = (),
        report: Callable[[Mapping[str, Any]], None] = lambda event: None,
        tell: Callable[[str], None] = lambda message: None,
    ) -> None:
        if unknown := set(only) - {p.name for p in programs.programs}:
            raise UsageError(f"{programs.path} has no program {sorted(unknown)[0]!r}")
        self.list = programs
        self.folder = folder
        both = (*HALVES, FITTING) if only else HALVES  # those to fit on are there by name alone
        halves = both if half is None else (half,)
        self.programs = [
            p for p in programs.programs if p.half in halves and (not only or p.name in only)
        ]
        self.report, self._tell = report, tell
        self._missing: dict[str, str] = {}
        self._environment = dict(programs.environment)
        # Digests of programs, and of builds and inputs, as they are since the last build.
        self._digests: dict[str, str] = {}
        self._built: dict[str, str] = {}

    # --- build

    def build(self) -> None:
        """Makes what is missing of the builds and inputs that the chosen programs need, or was
        made by another command or from other files."""
        needed = self.list.needed(self.programs)
        self._digests.clear()
        self._built.clear()
        kept = self._read_made()
        for done, (kind, name, command) in enumerate(needed):
            out, what = self.folder / f"{kind}-{name}", f"{kind} {name}"
            self.report({"done": done, "of": len(needed), "name": name})
            digest = digest_of_build(self.list, command, self.folder)
            if not out.exists() or kept.get(what) != digest:
                self._make(what, command, out)
                kept[what] = digest
                write_json(self._made, kept, force=True)
            if kind == "build" and not os.access(out, os.X_OK):  # a kill may have come before
                out.chmod(0o755)

    @property
    def _made(self) -> Path:
        return self.folder / "made.json"

    def _read_made(self) -> dict[str, Any]:
        kept = read_json(self._made) if self._made.exists() else {}
        if not isinstance(kept, dict):
            raise FormatError("no digests of builds", path=str(self._made))
        return kept

    def _make(self, what: str, command: Sequence[str], out: Path) -> None:
        with replacing(out, force=True) as file, scratch([self.folder]) as place:
            made = place / out.name
            try:
                done = subprocess.run(
                    self.list.filled(command, self.folder, made),
                    capture_output=True, text=True, errors="replace",
                )  # fmt: skip
                if done.returncode != 0:
                    last = (done.stderr.strip().splitlines() or ["no message"])[-1]
                    raise TracekitError(f"{what} failed: {last}", path=self.list.path)
                file.write(made.read_bytes())
            except OSError as e:
                raise TracekitError(f"{what}: {e.strerror}", path=command[0]) from None

    def _command(self, p: ListedProgram) -> tuple[list[str], Path | None]:
        source = self.folder / f"input-{p.input}" if p.input else None
        return self.list.filled(p.command, self.folder), source

    def there(self, p: ListedProgram) -> bool:
        """Whether it is installed; else why it is left out is kept."""
        import shutil

        made = self._read_made()
        for kind, name, command in self.list.needed([p]):
            what = f"{kind} {name}"
            if what not in self._built:
                self._built[what] = digest_of_build(self.list, command, self.folder)
            if made.get(what) != self._built[what]:
                self._missing[p.name] = f"{kind} {name} is not what the list says: --steps build"
                return False
        first = self._command(p)[0][0]
        if shutil.which(first) is None:
            self._missing[p.name] = f"{first} is not installed"
            return False
        return True

    def _digest(self, p: ListedProgram) -> str:
        """Of what runs under a program's name now."""
        if p.name not in self._digests:
            self._digests[p.name] = digest_of_program(self.list, p, self.folder)
        return self._digests[p.name]

    # --- time

    @property
    def _times(self) -> Path:
        return self.folder / "times.jsonl"

    def _own_times(self) -> list[dict[str, Any]]:
        """Times of the programs as the list has them now; others of their names do not count."""
        of = {p.name: self._digest(p) for p in self.programs if self.there(p)}
        times = read_times(self._times)
        return [t for t in times if t.get("digest", "") == of.get(t["program"])]

    def time(self, rounds: int, cpu: int | None = None) -> None:
        """Times each program once a round, until each has ``rounds``; those that spread by more
        than 5 % get as many again, once."""
        affinity = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {cpu if cpu is not None else max(affinity)})
        try:
            self._rounds([p for p in self.programs if self.there(p)], rounds)
            found = medians(self._own_times())
            again = [
                p
                for p in self.programs
                if p.name in found
                and found[p.name].spread > SPREAD
                and found[p.name].rounds < 2 * rounds
            ]
            if again:
                self._tell(f"once more, for their spread: {', '.join(p.name for p in again)}")
                self._rounds(again, 2 * rounds)
        finally:
            os.sched_setaffinity(0, affinity)

    def _rounds(self, programs: Sequence[ListedProgram], rounds: int) -> None:
        counts = {p.name: 0 for p in programs}
        for t in self._own_times():
            if t["program"] in counts:
                counts[t["program"]] += 1
        of = sum(max(0, rounds - n) for n in counts.values())
        done = 0
        core, host = None, cpu_name()
        if of:
            host_of([*self._own_times(), {"host": host}], self._times)
            core = SharedCore()
        for number in range(rounds):
            for p in programs:
                if counts[p.name] > number:
                    continue
                command, source = self._command(p)
                found = time_once(p.name, command, source, self._environment, core)
                add_time(self._times, {**found, "digest": self._digest(p), "host": host})
                done += 1
                self.report({"done": done, "of": of, "name": p.name})

    # --- record

    def record(self) -> None:
        """Samples and counts of those programs that have none yet."""
        todo = [p for p in self.programs if self.there(p) and self._counts(p) is None]
        for done, p in enumerate(todo):
            self.report({"done": done, "of": len(todo), "name": p.name})
            command, source = self._command(p)
            self._simulated_path(p).unlink(missing_ok=True)  # of samples that were there before
            try:
                sample(
                    command, source, self._environment, self.list.cpu, self.folder, p.name,
                    self._counted(p), self._tell,
                )  # fmt: skip
            except TracekitError as e:
                self._tell(f"{p.name}: {e}")

    def _counted(self, p: ListedProgram) -> str:
        """The digest of counts and samples, which depend on QEMU's processor, too."""
        return f"{self._digest(p)} {self.list.cpu}"

    def _counts(self, p: ListedProgram) -> Counts | None:
        """What was counted of the program as the list has it now."""
        path = self.folder / f"{p.name}.counts.json"
        counts = read_counts(path) if path.exists() else None
        return counts if counts and counts.digest == self._counted(p) else None

    # --- predict

    def predict(
        self, machine: HardwareMachine, others: Sequence[HardwareMachine] = (), threads: int = 1
    ) -> Judgement:
        """Simulates the samples of every program that was timed and recorded, and judges.

        Raises `TracekitError` where no program was, or machines have one name.
        """
        times = self._own_times()
        timed = medians(times)
        machines = [machine, *others]
        names = [m.name for m in machines]
        if twice := {n for n in names if names.count(n) > 1}:
            raise UsageError(f"two machines are called {min(twice)}")
        why = self.left_out()
        ready = [(p, c) for p in self.programs if p.name not in why and (c := self._counts(p))]
        if not ready:
            of = "; ".join(f"{name}: {reason}" for name, reason in list(why.items())[:1])
            raise TracekitError(
                f"every program is left out; {of or 'none is chosen'}", path=str(self.folder)
            )
        host = host_of(times, self._times)
        clock = statistics.median(t["clock"] for t in times) * 1e9
        judged = []
        for done, (p, counts) in enumerate(ready):
            self.report({"done": done, "of": len(ready), "name": p.name})
            cycles, mix = self._simulated(p, machines, counts, threads)
            seconds = {m.name: cycles[k] / (m.clock_ghz * 1e9) for k, m in enumerate(machines)}
            judged.append(
                Judged(
                    p,
                    timed[p.name],
                    counts.instructions,
                    timed[p.name].cycles / clock,
                    seconds.pop(machine.name),
                    mix,
                    seconds,
                )
            )
        return replace(judge(judged, self.list.groups), host=host)

    def _simulated(
        self,
        p: ListedProgram,
        machines: Sequence[HardwareMachine],
        counts: Counts,
        threads: int,
    ) -> tuple[list[float], dict[str, float]]:
        """Cycles of the whole run on each machine, and the samples' mix; kept by machine."""
        from tracekit.hardware.simulation import simulate_hardware

        path = self._simulated_path(p)
        kept = read_json(path) if path.exists() else {}
        keys = [_key(m) for m in machines]
        new = [(k, m) for k, m in zip(keys, machines, strict=True) if k not in kept]
        if new or "mix" not in kept:
            with TraceFile(self.folder / f"{p.name}.feats.zst") as trace:
                rows = sampled_rows(trace)
                if not rows.measured.any():
                    raise TracekitError("no sample is in it", path=trace.path)
                kept["mix"] = _mix(trace, rows)
                if new:
                    result = simulate_hardware(
                        trace, [m for _, m in new], ranges=rows.begins, threads=threads
                    )
                    ends = np.diff([*rows.begins, len(trace)])
                    measured = float(ends[rows.measured].sum())
                    per_row = result.cycles_by_range[rows.measured].sum(axis=0) / measured
                    for (key, _), value in zip(new, per_row.tolist(), strict=True):
                        kept[key] = value
            write_json(path, kept, force=True)
        return [kept[k] * counts.instructions for k in keys], kept["mix"]

    def _simulated_path(self, p: ListedProgram) -> Path:
        return self.folder / f"{p.name}.simulated.json"

    # --- what is left out

    def left_out(self) -> dict[str, str]:
        """Program → why it does not count: not installed, not timed or recorded, unsteady, or
        other code natively than under QEMU."""
        timed = medians(self._own_times())
        ever = {t["program"] for t in read_times(self._times)}
        out = {}
        for p in self.programs:
            if not self.there(p):
                out[p.name] = self._missing[p.name]
            elif p.name not in timed:
                out[p.name] = "not timed as it is now" if p.name in ever else "not timed"
            elif (counts := self._counts(p)) is None:
                old = (self.folder / f"{p.name}.counts.json").exists()
                out[p.name] = "not recorded as it is now" if old else "not recorded"
            elif (why := _why_left_out(timed[p.name], counts)) is not None:
                out[p.name] = why
        return out


def _why_left_out(timed: Timed, counts: Counts) -> str | None:
    """Why a program that was timed and recorded does not count, or None."""
    if timed.spread > SPREAD:
        return f"rounds spread by {timed.spread:.1%}"
    if counts.distance > DISTANCE:
        return f"samples are of other code than the run: {counts.distance:.0%} apart"
    if counts.foreign is not None and counts.foreign > FOREIGN:
        return f"{counts.foreign:.0%} of the native run is code that QEMU's did not execute"
    return None


def _key(machine: HardwareMachine) -> str:
    """Under which a program's cycles on a machine are kept: another machine or another build of
    the simulator has another."""
    # the error that was measured of a machine changes none of its times
    numbers = {k: v for k, v in machine.to_dict().items() if k != "checked"}
    text = hardware_digest() + json.dumps(numbers, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _mix(trace: TraceFile, rows: Sampled) -> dict[str, float]:
    """Shares of the measured rows by operation class."""
    counts = executions(trace, rows)
    shares = np.bincount(np.asarray(trace.statics.op), weights=counts) / counts.sum()
    return {OP_CLASSES[k]: float(s) for k, s in enumerate(shares) if s > 0}
