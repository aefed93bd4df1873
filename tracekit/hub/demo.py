"""A fleet on one computer: simulated agents that replay recordings to a hub, over its own paths."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from tracekit.analysis import epochs
from tracekit.errors import TracekitError
from tracekit.fleet import Aggregate, Batch, HubClient, Observed, Subscription, Token
from tracekit.hub.answering import Answering
from tracekit.hub.application import Settings
from tracekit.hub.serving import Place, serve
from tracekit.hub.tables import open_database
from tracekit.hub.tokens import issue_agent
from tracekit.io.output import scratch
from tracekit.opening import open_trace
from tracekit.sim import machines, simulate

__all__ = ["DESIGNS", "demonstrate"]

DESIGNS: Final = ("ns_4w_mem", "ns_6w_ls", "ns_8w", "ns_lsq", "ns_rob")
GROUPS: Final = ("desktops", "laptops", "servers")
EPOCH: Final = 100_000
SAMPLES: Final = 8
"""Epochs that an agent samples a day."""
WAIT: Final = 30.0


@dataclass(frozen=True)
class _Epoch:
    program: str
    signature: str
    instructions: int
    cycles: dict[str, float]


def _recorded(path: str) -> list[_Epoch]:
    """The epochs of a recording, each with its cycles on the designs."""
    with open_trace(path, level="macro") as trace:
        length = min(EPOCH, max(1, len(trace) // 4))  # a short one has some, too
        listed = epochs(trace, length)
        found = simulate(trace, list(DESIGNS), ranges=[e.begin for e in listed])
        name = "".join(c if c.isalnum() else "-" for c in Path(path).name.split(".")[0])
        return [
            _Epoch(name.strip("-") or "x", e.signature, e.rows, dict(zip(DESIGNS, c, strict=True)))
            for e, c in zip(listed, found.cycles_by_range.tolist(), strict=True)
            if 2 * e.rows >= length
        ]


def demonstrate(
    traces: Sequence[str],
    *,
    agents: int = 40,
    days: int = 10,
    seed: int = 0,
    port: int = 8080,
    once: bool = False,
    said: Callable[[str, dict[str, Any]], None],
) -> None:
    """Simulate the epochs of recordings on five designs, let agents report mixtures of them to a
    hub at 127.0.0.1, and tell (``said``) its address and the fleet's answer; then serve until a
    signal comes, unless ``once``.

    ``agents``: computers, each with a mixture of programs of its own, in three groups; ``days``:
    before today, of which they report.  Raises TracekitError for recordings that cannot be read.
    """
    programs = [_recorded(path) for path in traces]
    with scratch() as folder:
        database = str(folder / "hub.db")
        engine = open_database(database)
        with engine.begin() as connection:
            tokens = [Token(issue_agent(connection)) for _ in range(agents)]
        stop, up = threading.Event(), threading.Event()
        address: list[int] = []
        failed: list[BaseException] = []

        def ready(found: int) -> None:
            address.append(found)
            up.set()

        def run() -> None:
            settings = Settings(rate=1e6, burst=1e6, open_page=True, interval=0.0)
            try:
                serve(database, Place("127.0.0.1", port), settings, ready=ready, stop=stop)
            except BaseException as e:
                failed.append(e)
                up.set()

        thread = threading.Thread(target=run, name="hub")
        thread.start()
        try:
            if not up.wait(WAIT):
                raise TracekitError("the hub does not start")
            if failed:
                raise failed[0]
            url = f"http://127.0.0.1:{address[0]}"
            rng = np.random.default_rng(seed)
            key = secrets.token_bytes(32)
            for number, token in enumerate(tokens):
                _replay(url, token, programs, GROUPS[number % 3], days, rng, key)
            said(url, Answering(engine, interval=0.0).overview()["fleet"])
            while not once and thread.is_alive():
                time.sleep(0.2)
        finally:
            stop.set()
            thread.join()
            with contextlib.suppress(Exception):
                engine.dispose()


def _replay(
    url: str,
    token: Token,
    programs: list[list[_Epoch]],
    group: str,
    days: int,
    rng: np.random.Generator,
    key: bytes,
) -> None:
    """What one computer reports: a batch a day."""
    clocks = {n: float(machines()[n].to_dict()["clock_ghz"]) for n in DESIGNS}
    taste = rng.dirichlet(np.full(len(programs), 0.6))
    today = int(time.time() // 86_400)
    with HubClient(url, token) as client:
        client.subscribe(Subscription(token.agent, time.time(), DESIGNS))
        for i in range(days):
            hour = (today - days + i) * 24 + int(rng.integers(8, 18))
            busy = float(rng.uniform(1800, 20_000))
            chosen = rng.choice(len(programs), SAMPLES, p=taste)
            sampled: dict[str, tuple[_Epoch, int]] = {}
            for p in chosen:
                epoch = programs[p][int(rng.integers(len(programs[p])))]
                sampled[epoch.signature] = (epoch, sampled.get(epoch.signature, (epoch, 0))[1] + 1)
            aggregates = []
            for epoch, count in sampled.values():
                signature = hmac.new(key, epoch.signature.encode(), hashlib.sha256).hexdigest()
                for design, cycles in epoch.cycles.items():
                    aggregates.append(
                        Aggregate(
                            design,
                            "simulator",
                            "1",
                            signature,
                            hour,
                            epoch.instructions,
                            cycles,
                            0.02 * cycles,
                            busy * 0.9 * count / SAMPLES,
                            clocks[design],
                            0.0,
                            epoch.program,
                        )
                    )
            batch = Batch(
                token.agent,
                secrets.token_hex(16),
                i + 1,
                time.time(),
                tuple(aggregates),
                (Observed(hour, busy),),
                group,
            )
            client.send(batch)
