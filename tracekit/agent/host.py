"""This computer, as an agent sees it: its processes, its workers, what both cost."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pwd
import resource
import select
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from tracekit.agent.policy import Policy
from tracekit.agent.processes import Look, Watcher, idle_cores, on_mains
from tracekit.agent.state import Prediction
from tracekit.cpus import available_cores

__all__ = ["Computer", "Host", "Outcome", "Sampled"]

PATIENCE: Final = 120.0
"""Seconds that a worker has for a step of its work, besides the copy's life."""


@dataclass(frozen=True)
class Sampled:
    """An epoch: its signature and sketch, its instructions, and its trace, sealed as ``name``."""

    signature: str
    sketch: bytes
    instructions: int
    name: str
    trace: bytes


@dataclass
class Outcome:
    """What came of a worker: ``why`` there is no epoch, "" where there is one; seconds ``lost`` by
    the program; processor seconds of the ``epoch`` and of its ``prediction``."""

    why: str = ""
    message: str = ""
    lost: float = 0.0
    epoch: float = 0.0
    prediction: float = 0.0
    predictions: list[Prediction] = field(default_factory=list)


#: Python's -m imports from the working folder first, and the agent's may be anybody's.
_ELSEWHERE = "/"


class Host(Protocol):
    """What an agent needs of a computer; tests have others than `Computer`."""

    def now(self) -> float:
        """Seconds since 1970."""

    def elapsed(self) -> float:
        """Seconds of a clock that nobody sets, and that stands while the computer sleeps."""

    def sleep(self, seconds: float) -> None:
        """Wait."""

    def look(self) -> Look:
        """The processes."""

    def allowed(self, policy: Policy) -> str:
        """Why the policy forbids work at this moment; "" where it does not."""

    def crowded(self) -> bool:
        """Whether a copy would take a processor from somebody."""

    def update_models(self) -> Outcome:
        """Newer versions of models from their repository; ``epoch`` seconds were spent."""

    def spent(self) -> float:
        """Processor seconds of the agent itself, without workers, since it began."""

    def sample(
        self, choose: Callable[[], int | None], designs: list[str],
        wanted: Callable[[Sampled], list[str]], tick: Callable[[], None],
    ) -> Outcome:  # fmt: skip
        """One epoch.  ``choose`` says of which process when all is ready; None: of none.
        ``wanted`` says which designs to predict it on; ``tick`` is called while it takes time."""

    def predict(self, name: str, sealed: bytes, designs: list[str]) -> Outcome:
        """The designs' times of a sealed trace."""


class Computer:
    """The real one.  ``lowest_priority``: of the copies that are stepped; False for tests, which
    may not wait for a core to be idle."""

    def __init__(self, policy: Policy, key: bytes, *, lowest_priority: bool = True) -> None:
        self._lowest_priority = lowest_priority
        self._policy, self._key = policy, base64.b64encode(key).decode()
        self._watcher = Watcher(policy.uid, policy.admits)
        self._idle: tuple[float, float] | None = None
        self._free, self._idle = idle_cores(None)

    def now(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def elapsed(self) -> float:
        """Seconds of a clock that nobody sets, and that stands while the computer sleeps."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def look(self) -> Look:
        """The processes of the policy's user, and how many cores were idle meanwhile."""
        self._free, self._idle = idle_cores(self._idle)
        return self._watcher.look(self.elapsed())

    def allowed(self, policy: Policy) -> str:
        """Why the policy forbids work at this moment; "" where it does not."""
        if policy.idle and self.crowded():
            return "busy"
        if policy.mains and not on_mains():
            return "on battery"
        return ""

    def crowded(self) -> bool:
        """Whether no core was idle since the look before last: half of one where there is but
        one."""
        return self._free < min(1.0, available_cores() / 2)

    def update_models(self) -> Outcome:
        """Ask the repository of models what it offers, in a process of its own."""
        p = self._policy
        command = [sys.executable, "-m", "tracekit", "models", "update"]
        if p.store:
            command += ["--store", p.store]
        out = Outcome()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                timeout=300, env=_environment(), cwd=_ELSEWHERE,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as e:
            out.why, out.message = "models update failed", str(e)[:500]
        else:
            if done.returncode:
                out.why, out.message = "models update failed", done.stderr.strip()[-500:]
            else:
                out.message = " ".join(done.stdout.split())[:500]
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        out.epoch = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return out

    def _model(self) -> list[object]:
        return [self._policy.model, self._policy.store, self._policy.days_off]

    def spent(self) -> float:
        """Processor seconds of this process."""
        use = resource.getrusage(resource.RUSAGE_SELF)
        return use.ru_utime + use.ru_stime

    def sample(
        self, choose: Callable[[], int | None], designs: list[str],
        wanted: Callable[[Sampled], list[str]], tick: Callable[[], None],
    ) -> Outcome:  # fmt: skip
        """One epoch of a process, by a worker."""
        p = self._policy
        request = {
            "op": "sample", "epoch": p.epoch, "copy_seconds": p.copy_seconds,
            "designs": designs, "model": self._model(),
            "lowest_priority": self._lowest_priority,
        }  # fmt: skip
        return self._work(request, choose, wanted, tick, p.copy_seconds + PATIENCE)

    def predict(self, name: str, sealed: bytes, designs: list[str]) -> Outcome:
        """The designs' times of a sealed trace, by a worker."""
        request = {
            "op": "predict", "name": name, "trace": base64.b64encode(sealed).decode(),
            "designs": designs, "model": self._model(),
        }  # fmt: skip
        return self._work(request, lambda: None, lambda _: [], lambda: None, PATIENCE)

    def check(self, designs: list[str]) -> Outcome:
        """Whether the policy's model has all designs, by a worker: ``why`` not is the name of an
        error."""
        request = {"op": "check", "designs": designs, "model": self._model()}
        return self._work(request, lambda: None, lambda _: [], lambda: None, PATIENCE)

    def _work(
        self,
        request: dict[str, Any],
        choose: Callable[[], int | None],
        wanted: Callable[[Sampled], list[str]],
        tick: Callable[[], None],
        patience: float,
    ) -> Outcome:
        user = None
        if os.geteuid() == 0:
            entry = pwd.getpwnam(self._policy.user)
            user = [entry.pw_uid, entry.pw_gid]
        out = Outcome()
        worker = subprocess.Popen(
            [sys.executable, "-m", "tracekit.agent.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**_environment(), "OPENBLAS_NUM_THREADS": "1"},
            cwd=_ELSEWHERE,
        )
        self._watcher.ours.add(worker.pid)
        try:
            self._talk(worker, {**request, "key": self._key, "user": user}, choose, wanted, tick,
                       patience, out)  # fmt: skip
        except (OSError, ValueError, KeyError) as e:
            out.why, out.message = "worker failed", str(e)[:500]
        finally:
            with contextlib.suppress(OSError):
                if worker.stdin is not None:
                    worker.stdin.close()
            use = _ended(worker)
            self._watcher.ours.discard(worker.pid)
            out.epoch += max(0.0, use - out.prediction)
        if request["op"] == "predict":
            out.prediction, out.epoch = out.prediction + out.epoch, 0.0
        return out

    def _talk(
        self,
        worker: subprocess.Popen[bytes],
        request: dict[str, Any],
        choose: Callable[[], int | None],
        wanted: Callable[[Sampled], list[str]],
        tick: Callable[[], None],
        patience: float,
        out: Outcome,
    ) -> None:
        assert worker.stdin is not None and worker.stdout is not None
        worker.stdin.write(json.dumps(request).encode() + b"\n")
        worker.stdin.flush()
        deadline = time.monotonic() + patience
        lines = _Lines(worker.stdout.fileno())
        said = False
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise ValueError("the worker takes too long")
            line = lines.next(min(left, self._policy.scan_seconds))
            if line is None:
                tick()
                continue
            if not line:
                if not said:
                    raise ValueError("the worker said nothing")
                return
            said = True
            answer = json.loads(line)
            if answer["event"] == "ready":
                pid = choose()
                if pid is None:
                    out.why = "nothing runs"
                    return
                worker.stdin.write(b"%d\n" % pid)
                worker.stdin.flush()
            if answer["event"] == "none":
                out.why, out.message = answer["why"], answer.get("message", "")
            if answer["event"] in ("none", "sampled"):
                out.lost, out.epoch = answer["lost"], out.epoch + answer["copy"]
            if answer["event"] == "sampled":
                found = Sampled(
                    answer["signature"],
                    base64.b64decode(answer["sketch"]),
                    answer["instructions"],
                    answer["name"],
                    base64.b64decode(answer["trace"]),
                )
                word = b"predict\n" if wanted(found) else b"end\n"
                worker.stdin.write(word)
                worker.stdin.flush()
            if answer["event"] == "predicted":
                out.prediction = answer["cpu"]
                out.predictions = [Prediction(**p) for p in answer["predictions"]]


class _Lines:
    """Lines of a pipe, with patience."""

    def __init__(self, fd: int) -> None:
        self._fd, self._rest = fd, bytearray()

    def next(self, seconds: float) -> bytes | None:
        """A line; b"" at the end, None where none came in that time."""
        until = time.monotonic() + seconds
        while b"\n" not in self._rest:
            ready, _, _ = select.select([self._fd], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                return None
            piece = os.read(self._fd, 1 << 16)
            if not piece:
                return b""
            self._rest += piece
        line, _, rest = bytes(self._rest).partition(b"\n")
        self._rest = bytearray(rest)
        return line


def _ended(worker: subprocess.Popen[bytes]) -> float:
    """Processor seconds of a worker and its children, which is waited for; one that does not end
    is killed."""
    if worker.stdout is not None:
        worker.stdout.close()
    until = time.monotonic() + 5.0
    while True:
        pid, status, use = os.wait4(worker.pid, os.WNOHANG)
        if pid:
            worker.returncode = os.waitstatus_to_exitcode(status)
            return use.ru_utime + use.ru_stime
        if time.monotonic() > until:
            worker.kill()
        time.sleep(0.005)


def _environment() -> dict[str, str]:
    """What a worker is given of ours: nothing that could be a secret."""
    kept = ("PATH", "PYTHONPATH", "LANG", "LC_ALL", "XDG_RUNTIME_DIR", "HOME", "VIRTUAL_ENV")
    return {k: v for k, v in os.environ.items() if k in kept}
