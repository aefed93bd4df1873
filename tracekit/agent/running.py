"""`serve`: an agent on this computer, from its policy to its end."""

from __future__ import annotations

import fcntl
import os
import signal
from typing import Any

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
    with State(policy.folder) as state:
        lock = os.open(policy.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise TracekitError(
                    "another agent runs with this state", path=str(policy.folder)
                ) from None
            host = Computer(policy, trace_key(policy.folder))
            agent = Agent(policy, state, host, log, reporter_of(policy, state, log))
            _check_designs(agent, host)
            return _run(agent, host, seconds)
        finally:
            os.close(lock)


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
