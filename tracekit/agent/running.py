"""`serve`: an agent on this computer, from its policy to its end."""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from tracekit.agent.disk import DISK_FULL, of_full_disk
from tracekit.agent.host import Computer, Host
from tracekit.agent.log import Log
from tracekit.agent.policy import Policy
from tracekit.agent.reporting import Reporter, fleet_key
from tracekit.agent.service import Agent
from tracekit.agent.state import State
from tracekit.agent.vault import trace_key
from tracekit.errors import TracekitError, UsageError
from tracekit.fleet.client import read_token

__all__ = ["reporter_of", "serve"]

T = TypeVar("T")


def reporter_of(policy: Policy, state: State, log: Log) -> Reporter | None:
    """What reports to the policy's hub; None where it has none."""
    if not policy.url:
        return None
    token = read_token(policy.token_file)
    return Reporter(policy, state, token, fleet_key(policy.key_file), log)


def serve(
    policy: Policy, *, seconds: float | None = None, log: Log | None = None
) -> dict[str, Any]:
    """Run until SIGTERM, Ctrl-C or so many ``seconds``; what was done.

    Raises `TracekitError` where the policy's state is another agent's, or a file that it names
    cannot be used, and `UsageError` where its model lacks a design.
    """
    log = log or Log()
    begin = time.monotonic()
    with contextlib.ExitStack() as stack:
        opened = _when_there_is_room(
            lambda: stack.enter_context(_opened(policy.folder)), policy, seconds, log
        )
        waited = time.monotonic() - begin
        if opened is None:
            return {"seconds": waited, "epochs": 0, "known": 0}
        state, key = opened
        host = Computer(policy, key)
        agent = Agent(policy, state, host, log, reporter_of(policy, state, log))
        _check_designs(agent, host)
        return _run(agent, host, None if seconds is None else max(0.0, seconds - waited))


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[tuple[State, bytes]]:
    """The state, which is this agent's alone, and the key of its traces."""
    with State(folder) as state:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise TracekitError(
                    "another agent runs with this state", path=str(folder)
                ) from None
            yield state, trace_key(folder)
        finally:
            os.close(lock)


def _when_there_is_room(
    make: Callable[[], T], policy: Policy, seconds: float | None, log: Log
) -> T | None:
    """What ``make`` makes on a disk that may be full: it is waited for, as an agent does that runs.
    None after so many ``seconds``, SIGTERM or Ctrl-C."""
    stops = {signal.SIGTERM, signal.SIGINT}
    end = math.inf if seconds is None else time.monotonic() + seconds
    waits = False
    before = signal.pthread_sigmask(signal.SIG_BLOCK, stops)
    try:
        while True:
            try:
                made = make()
            except TracekitError as e:
                if not of_full_disk(e, policy.folder):
                    raise
            else:
                if waits:
                    log("goes on")
                return made
            if not waits:
                waits = True
                log("waits", why=DISK_FULL)
            left = min(policy.scan_seconds, end - time.monotonic())
            if left <= 0 or signal.sigtimedwait(stops, left) is not None:
                log("stopped")
                return None
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _check_designs(agent: Agent, host: Computer) -> None:
    """Raise UsageError where each prediction would fail; what is wrong with a repository's model is
    logged, since an update may mend it."""
    done = host.check(list(agent.policy.designs))
    agent.spend(done.epoch)
    repository = agent.policy.model.startswith("repository:")
    if done.why == "UsageError" and not repository:
        raise UsageError(f"predict.designs: {done.message}", path=agent.policy.path)
    if done.why:
        agent.log("no model", why=done.why, message=done.message)


def _run(agent: Agent, host: Host, seconds: float | None) -> dict[str, Any]:
    class Stop(Exception):
        pass

    def stop(number: int, _: object) -> None:
        agent.stopped = True
        if waiting:
            raise Stop

    waiting = False
    before = {n: signal.signal(n, stop) for n in (signal.SIGTERM, signal.SIGINT)}
    begin = host.elapsed()
    end = None if seconds is None else begin + seconds
    agent.log("started", policy=agent.policy.path, designs=list(agent.policy.designs))
    try:
        while not agent.stopped and (end is None or host.elapsed() < end):
            agent.step()
            left = agent.policy.scan_seconds
            if end is not None:
                left = max(0.0, min(left, end - host.elapsed()))
            try:
                waiting = True
                if not agent.stopped:
                    host.sleep(left)
            except Stop:
                pass
            finally:
                waiting = False
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    agent.flush()
    agent.log("stopped")
    taken, known = agent.state.db.execute(
        "SELECT coalesce(sum(taken), 0), coalesce(sum(known), 0) FROM spent"
    ).fetchone()
    return {"seconds": host.elapsed() - begin, "epochs": taken, "known": known}
