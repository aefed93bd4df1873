"""Chooses when and of which thread an epoch is taken, and writes what comes back."""

from __future__ import annotations

import contextlib
import os
import platform
import random
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tracekit import _core
from tracekit.errors import ProcessEndedError, RecordError, TracekitError, UsageError
from tracekit.extras import install_command
from tracekit.inputs.tks import MAPS, TksWriter
from tracekit.record import procfs
from tracekit.record.interruption import TerminatedError
from tracekit.record.missing import described, missing_memory
from tracekit.record.options import RecordOptions
from tracekit.record.permission import check_traceable, explained
from tracekit.record.totals import Totals
from tracekit.record.usage import Times, thread_times
from tracekit.symbols import build_id

_SHORTEST_PERIOD: Final = 0.05
_SMOOTHING: Final = 0.3
"""Weight of the newest epoch in the estimate of an epoch's cost."""
_RETRY: Final = 0.1
_ENDING: Final = 0.2  # seconds from the moment a process cannot be attached to until it has ended
_FIRST: Final = 0.05
"""Of a period: when the first epoch of a program that we start is due."""


@dataclass(frozen=True)
class _Usage:
    time: float
    faults: int
    waited: float

    @classmethod
    def of(cls, pid: int) -> _Usage:
        return cls(time.monotonic(), _core.minor_faults(pid), procfs.waited_seconds(pid))


def available() -> str | None:
    """Why programs cannot be recorded here; None if they can."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return (
            f"recording needs Linux on x86-64, and this is {platform.system()} on "
            f"{platform.machine()}: trace with DynamoRIO's drmemtrace or QEMU's execlog, which "
            "tracekit extract reads"
        )
    if not hasattr(_core, "Recorder"):
        return "tracekit was built without the recorder"
    try:
        import tracekit.record.operands  # noqa: F401
    except ImportError:
        return f"recording needs capstone: {install_command('binary')}"
    return None


def record_command(
    argv: Sequence[str],
    output: str | Path,
    options: RecordOptions | None = None,
    *,
    env: Mapping[str, str] | None = None,
    progress: Callable[[str], None] | None = None,
    force: bool = False,
) -> Totals:
    """Starts a program, records it to its end (or as the options say), and waits for it.

    ``env`` is its whole environment; ours unless given.  ``force``: ``output`` may be replaced.
    Ctrl-C ends the recording; the program gets its own.  A signal of `EndSignals` ends it and is
    passed on.  Raises `TracekitError` where the program cannot be started, and `RecordError` where
    it cannot be recorded (it then runs on, and is waited for first).
    """
    options = options or RecordOptions()
    with Recording(list(argv), output, options, progress, force) as recording:
        recording.start(env)
        return recording.run()


def record_pid(
    pid: int,
    output: str | Path,
    options: RecordOptions | None = None,
    *,
    progress: Callable[[str], None] | None = None,
    force: bool = False,
) -> Totals:
    """Records a running process until it ends, the options say so, or Ctrl-C.  ``force``:
    ``output`` may be replaced."""
    options = options or RecordOptions()
    if options.full:
        raise TracekitError(
            "--full records from the first instruction: it needs a command to start"
        )
    with Recording(procfs.command(pid), output, options, progress, force) as recording:
        recording.attach(pid)
        return recording.run()


class Recording:
    """One recording: `start` or `attach`, then `run`.  Without `run` there is no file."""

    def __init__(
        self,
        command: list[str],
        output: str | Path,
        options: RecordOptions,
        progress: Callable[[str], None] | None = None,
        force: bool = False,
    ) -> None:
        why = available()
        if why is not None:
            raise TracekitError(why)
        options.check()
        from tracekit.record.operands import decode

        self.command, self.options = command, options
        self.totals = Totals(asked=0 if options.full else options.epoch)
        self._tell = progress or (lambda message: None)
        self._native = _core.Recorder(decode)
        self._random = random.Random(options.seed)
        self._writer = TksWriter(
            output,
            force=force,
            arch="x86",
            meta={
                "command": command,
                "host": {"machine": platform.machine(), "kernel": platform.release()},
                "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "options": {k: v for k, v in vars(options).items() if v is not None},
            },
        )
        self._writer.flush()  # whatever becomes of us, what is there can be read
        self.pid = 0
        #: Called with the program's number when the recording is over and the program, which
        #: `start` started, is still to be waited for.
        self.finish: Callable[[int], None] | None = None
        self._child = False
        self._pidfd = -1
        #: What stepping cost the program's own threads (epochs in place).
        self.stepped = Times()
        self._not_copied: set[int] = set()  # processes whose copies lack memory
        self._last: dict[int, int] = {}  # thread -> its last epoch
        self._programs: dict[int, tuple[str, str]] = {}
        self._maps: dict[int, bytes] = {}  # of each process, as last written
        self._build_ids: dict[str, str | None] = {}
        self._cost: float | None = None  # of an epoch, to the program
        self._page_copy = 0.0
        self._before = _Usage(0.0, 0, 0.0)  # the program's, when last looked at
        self._fault_rate = self._wait_rate = 0.0  # without a copy, each second

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.discard()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

    def start(
        self,
        env: Mapping[str, str] | None = None,
        *,
        output: int | None = None,
        folder: str | os.PathLike[str] | None = None,
    ) -> None:
        """Starts the command, stopped before its first instruction to record all of it.

        ``output``: the descriptor that its standard output becomes, as it is here unless given.
        ``folder``: where it runs, here unless given; UsageError where not all of it is recorded.
        """
        if folder is not None and not self.options.full:
            raise UsageError("folder: of programs that are recorded as a whole")
        env = os.environ if env is None else env
        try:
            with contextlib.nullcontext() if self.options.aslr else procfs.without_aslr():
                if self.options.full:
                    self.pid = _core.record_start(
                        [os.fsencode(word) for word in self.command],
                        [os.fsencode(f"{k}={v}") for k, v in env.items()],
                        -1 if output is None else output,
                        b"" if folder is None else os.fsencode(folder),
                    )
                else:
                    self.pid = os.posix_spawnp(
                        self.command[0],
                        self.command,
                        env,
                        file_actions=[(os.POSIX_SPAWN_DUP2, output, 1)]
                        if output is not None
                        else [],
                        setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # which Python ignores
                    )
        except _core.RecordSystemError as e:
            raise explained(e) from None
        except OSError as e:
            raise TracekitError(f"cannot start it: {e.strerror}", path=self.command[0]) from None
        self._child = True
        self._pidfd = os.pidfd_open(self.pid)

    def attach(self, pid: int) -> None:
        """Take the process ``pid`` to be recorded; TracekitError where that is not permitted."""
        self.pid = pid
        try:
            self._pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            raise ProcessEndedError(f"there is no process {pid}") from None
        except OSError as e:
            raise TracekitError(
                f"process {pid}: {e.strerror} (give a process, not a thread)"
            ) from None
        check_traceable(pid)

    def run(self) -> Totals:
        """Records until the end, completes the file, and waits for a program that we started."""
        begin = time.monotonic()
        failure: TracekitError | None = None
        number = 0
        try:
            if self.options.full:
                self._run_full()
            else:
                self._run_epochs(begin)
        except KeyboardInterrupt as e:
            self.totals.end = "user"
            if isinstance(e, TerminatedError):
                number = e.number
        except _core.RecordSystemError as e:
            failure = explained(e)
        except RecordError as e:
            failure = e
        self.totals.seconds = time.monotonic() - begin
        if failure is None:
            self._writer.close(self.totals.as_dict())
        if self.finish is not None and self._child and self.totals.exit_status is None:
            self.finish(self.pid)
        self._wait_for_child(number)
        if failure is not None:
            raise failure
        return self.totals

    def _wait_for_child(self, number: int) -> None:
        """``number``: of the signal that it is to have first; 0 for none."""
        while self._child and self.totals.exit_status is None:
            try:
                if number:
                    os.kill(self.pid, number)
                    number = 0
                self.totals.exit_status = os.waitpid(self.pid, 0)[1]
            except TerminatedError as e:
                number = e.number
            except KeyboardInterrupt:  # it has been given it too, and decides for itself
                continue
            except ChildProcessError:
                return

    # --- all of it

    def _run_full(self) -> None:
        continues = False
        while True:
            done = self.options.count is not None and self.totals.epochs + 1 >= self.options.count
            result = self._native.full(self._request(self.pid, self.pid, continues, True), done)
            self._keep(result)
            continues = True
            if result["exit_status"] is not None:
                self.totals.exit_status = result["exit_status"]
                return
            reason = _core.END_REASONS[result["info"]["reason"]]
            if done or reason not in ("length", "accesses"):
                self.totals.end = "count" if done else reason
                return

    # --- epochs

    def _run_epochs(self, begin: float) -> None:
        o = self.options
        if o.max_overhead is not None:
            self._page_copy = _core.page_copy_ns() / 1e9
        self._before = _Usage.of(self.pid)
        period = min(o.period, 1.0) if o.max_overhead is not None else o.period
        due = begin + (self._first(period) if self._child else 0.0)
        while True:
            deadline = begin + o.duration if o.duration is not None else None
            if self._ended_before(due if deadline is None else min(due, deadline)):
                return
            now = time.monotonic()
            if deadline is not None and now >= deadline:
                self.totals.end = "duration"
                return
            # What a wrapper starts in its own place before the first epoch is the program.
            program = procfs.program(self.pid)
            if self.totals.epochs == 0:
                self._programs[self.pid] = program
            elif not o.follow_exec and program != self._programs[self.pid]:
                if self._ended_before(now):
                    return
                self.totals.end = "exec"
                self._tell(
                    "the program became another one by exec (record that too with --follow-exec)"
                )
                return
            taken = self._epoch()
            if o.count is not None and self.totals.epochs >= o.count:
                self.totals.end = "count"
                return
            if o.max_overhead is not None and self._cost is not None:
                period = max(self._cost / o.max_overhead, _SHORTEST_PERIOD)
                self.totals.period = round(period, 3)
            due += self._gap(period) if taken else min(_RETRY, period)
            due = max(due, time.monotonic())

    def _first(self, period: float) -> float:
        """Soon, so that short programs have an epoch; random moments are as far apart as any."""
        return self._gap(period) if self.options.random else _FIRST * period

    def _gap(self, period: float) -> float:
        return (
            self._random.expovariate(1 / period) if self.options.random and period > 0 else period
        )

    def _ended_before(self, due: float) -> bool:
        """Sleeps until ``due``; true as soon as the program has ended."""
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        while True:
            left = due - time.monotonic()
            if poll.poll(max(0, min(left, 3600) * 1000)):
                return True
            if left <= 0:
                return False

    def _candidates(self) -> list[tuple[int, int]]:
        """(process, thread), the best first: running ones, then those that waited longest for an
        epoch.
        """
        o = self.options
        pids = [self.pid, *(procfs.descendants(self.pid) if o.follow_forks else ())]
        found: list[tuple[int, int]] = []
        for pid in pids:
            if pid != self.pid and not o.follow_exec:
                program = procfs.program(pid)
                if self._programs.setdefault(pid, program) != program:
                    continue
            for tid in procfs.threads(pid):
                if o.threads == "main" and tid != pid:
                    continue
                if isinstance(o.threads, int) and tid != o.threads:
                    continue
                found.append((pid, tid))
        if o.random:
            self._random.shuffle(found)
        running = {t for p, t in found if procfs.state(p, t) == "R"}
        found.sort(key=lambda f: (f[1] not in running, 0 if o.random else self._last.get(f[1], -1)))
        return [f for f in found if procfs.state(*f) in ("R", "S")]

    def _epoch(self) -> bool:
        """One epoch of one thread; false if there was none to be had now."""
        candidates = self._candidates()
        if not candidates:
            self.totals.skipped["no thread to record"] += 1
            return False
        now = _Usage.of(self.pid)
        if (since := now.time - self._before.time) > 0.02:
            self._fault_rate = max(0, now.faults - self._before.faults) / since
            self._wait_rate = max(0.0, now.waited - self._before.waited) / since
        pid, tid = candidates[0]
        in_place = self._must_be_in_place(pid)
        if in_place and self.options.snapshots_only:
            self.totals.skipped["lacks_memory"] += 1
            return False
        record = self._native.in_place if in_place else self._native.epoch
        before = thread_times(pid, tid) if in_place else None
        result = record(self._request(pid, tid, False, in_place))
        if before is not None and (stepped := thread_times(pid, tid)) is not None:
            self.stepped += stepped.since(before)
        if result["handled_faults"] and missing_memory(pid):  # since it was looked at
            result["outcome"] = "lacks_memory"
        self._before = after = _Usage.of(self.pid)
        self.totals.exit_status = result["exit_status"] if pid == self.pid and self._child else None
        self._last[tid] = self.totals.epochs + sum(self.totals.skipped.values())
        if result["outcome"] != "taken":
            self.totals.skipped[result["outcome"]] += 1
            if result["outcome"] == "clone_failed":
                self._tell(f"no copy could be made: {os.strerror(result['clone_errno'])}")
            # Most often it is ending just now, which its pidfd tells in a moment.
            gone = result["outcome"] == "gone" and pid == self.pid
            if gone and not self._ended_before(time.monotonic() + _ENDING):
                check_traceable(pid)
            if result["outcome"] == "lacks_memory":
                self._not_copied.add(pid)
                self._tell("an epoch is dropped: its copy lacked memory that the program has")
            return False
        self._keep(result)
        self._account(result, after.waited - now.waited)
        return True

    def _must_be_in_place(self, pid: int) -> bool:
        """Where the options say so, or a copy would not have all of the memory."""
        if self.options.in_place or pid in self._not_copied:
            return True
        missing = missing_memory(pid)
        if not missing:
            return False
        if not self.totals.missing:
            self._tell(
                f"process {pid} has {described(missing)}, which a copy would not have as it is: "
                + (
                    "no epochs"
                    if self.options.snapshots_only
                    else "epochs are stepped in the program itself"
                )
            )
        for kind, size in missing.items():
            self.totals.missing[kind] = max(size, self.totals.missing.get(kind, 0))
        return True

    def _account(self, result: _core.EpochResult, waited: float) -> None:
        """What this epoch cost the program, and the estimate for the next one."""
        info = result["info"]
        paused = (info["pause_ns"] + result["reap_ns"]) / 1e9
        alive, cpu = info["step_ns"] / 1e9, info["cpu_ns"] / 1e9
        copied = max(0.0, info["faults"] - self._fault_rate * alive) * self._page_copy
        # What it waited for a processor beyond its usual, at most what we ran: copies of the lowest
        # priority, while others wanted that core.  All of that where the kernel does not tell.
        ours = min(cpu, result["crowded_ns"] / 1e9) if self.options.lowest_priority else cpu
        if procfs.counts_waiting():
            ours = min(max(0.0, waited - self._wait_rate * alive), ours)
        contended = 0.0 if info["in_place"] else ours
        self.totals.paused += paused
        self.totals.page_copies += copied
        self.totals.contended += contended
        cost = paused + copied + contended
        self._cost = cost if self._cost is None else self._cost + _SMOOTHING * (cost - self._cost)

    def _request(self, pid: int, tid: int, continues: bool, in_place: bool) -> _core.EpochRequest:
        o = self.options
        return _core.EpochRequest(
            tid=tid,
            tgid=pid,
            number=self.totals.epochs,
            instructions=o.epoch,
            time_ns=(1 << 63) if in_place else int(o.copy_seconds * 1e9),
            wait_ns=int(o.wait * 1e9),
            accesses=o.accesses,
            pidfd=-1 if in_place else self._pidfd,
            lowest_priority=o.lowest_priority,
            follow_exec=o.follow_exec,
            continues=continues,
        )

    def _keep(self, result: _core.EpochResult) -> None:
        self._keep_maps(result)
        for block in self._native.encode():
            self._writer.block(block)
        self._writer.flush()
        info = result["info"]
        self.totals.epochs += 1
        if self.totals.epochs == 1:  # what was seen before may have been half way through exec
            self._programs[self.pid] = procfs.program(self.pid)
        self.totals.in_place += info["in_place"]
        self.totals.instructions += result["instructions"]
        self.totals.lengths.append(result["instructions"])
        self.totals.ended[_core.END_REASONS[info["reason"]]] += 1
        self.totals.processor += info["cpu_ns"] / 1e9
        self._tell(
            f"epoch {info['number']}: thread {info['tid']}, {result['instructions']} instructions, "
            f"ended by {_core.END_REASONS[info['reason']]}; pause {info['pause_ns'] / 1e6:.2f} ms, "
            f"{info['step_ns'] / 1e9:.2f} s"
        )

    def _keep_maps(self, result: _core.EpochResult) -> None:
        """A block of what is executable in the process, where that has changed."""
        pid = result["info"]["pid"]
        if self._maps.get(pid, b"") == result["maps"]:
            return
        self._maps[pid] = result["maps"]
        maps = [
            m._replace(build_id=self._build_id(pid, m.path))
            for m in procfs.code_maps(result["maps"])
        ]
        self._writer.text(MAPS, {"pid": pid, "maps": [list(m) for m in maps]})

    def _build_id(self, pid: int, path: str) -> str | None:
        if path.startswith("/") and path not in self._build_ids:
            seen = Path(f"/proc/{pid}/root")  # the program may live in a container
            self._build_ids[path] = build_id(f"{seen}{path}") or build_id(path)
        return self._build_ids.get(path)
