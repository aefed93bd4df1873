"""The hub under load, on this computer alone: aggregates a second, waiting times, single posts.

``python bench/hub_load.py`` starts `tracekit hub serve` on a database of its own (SQLite,
synchronous=FULL) and loads it over 127.0.0.1 from one other process, in three ways:

- batches of 100 aggregates, as fast as 32 connections take them;
- 1,000 connected agents, each a batch of 100 a minute, spread over it: what it takes to be
  acknowledged;
- single aggregates, as fast as 64 connections take them: one commit for all that wait.

``--seconds`` is of each; ``--json`` prints one object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tests.hub_process import Process, batch_of, tokens
from tracekit.fleet import Token

Body = Callable[[int, int], bytes]


def template(token: Token, count: int) -> tuple[bytes, bytes, bytes, bytes]:
    """A message in four pieces, between which its numbers go: the load must not cost more than what
    it loads."""
    text = batch_of(token.agent, 1, count=count).to_bytes()
    name, number = b"%032x" % 1, b'"sequence":1,'
    head, rest = text.split(b'"batch":"' + name + b'",' + number, 1)
    return head, rest, b'"batch":"', name


def message(parts: tuple[bytes, bytes, bytes, bytes], path: bytes, token: bytes, n: int) -> bytes:
    """An HTTP request with the n-th batch; its signatures are those of the n-th batch, too."""
    head, rest, key, old = parts
    new = b"%032x" % n
    body = head + key + new + b'","sequence":%d,' % n + rest.replace(b'"' + old, b'"' + new)
    return (
        b"POST "
        + path
        + b" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "
        + token
        + b"\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
        + body
    )


class Agent:
    """One connection, its token, and the batches that it has sent."""

    def __init__(self, token: Token, count: int) -> None:
        self._parts = template(token, count)
        self._token = token.reveal().encode()
        self.sent = 0
        self.waits: list[float] = []

    async def connect(self, port: int) -> None:
        self._in, self._out = await asyncio.open_connection("127.0.0.1", port)

    async def send(self) -> None:
        self.sent += 1
        data = message(self._parts, b"/v1/batches", self._token, self.sent)
        began = time.perf_counter()
        self._out.write(data)
        head = await self._in.readuntil(b"\r\n\r\n")
        size = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        answer = await self._in.readexactly(size)
        self.waits.append(time.perf_counter() - began)
        if not head.startswith(b"HTTP/1.1 200") or b"accepted" not in answer:
            raise SystemExit(f"refused: {head[:20]!r} {answer!r}")


async def flat_out(agents: list[Agent], port: int, seconds: float) -> float:
    """Batches a second."""
    await asyncio.gather(*(a.connect(port) for a in agents))
    began = time.perf_counter()

    async def one(agent: Agent) -> None:
        while time.perf_counter() - began < seconds:
            await agent.send()

    await asyncio.gather(*(one(a) for a in agents))
    return sum(a.sent for a in agents) / (time.perf_counter() - began)


async def paced(agents: list[Agent], port: int, seconds: float, every: float) -> None:
    """A batch of each agent ``every`` seconds, from a moment of its own on."""
    for some in range(0, len(agents), 100):
        await asyncio.gather(*(a.connect(port) for a in agents[some : some + 100]))
    began = time.perf_counter()
    rng = random.Random(1)

    async def one(agent: Agent) -> None:
        at = rng.uniform(0, every)
        while at < seconds:
            await asyncio.sleep(max(0.0, began + at - time.perf_counter()))
            await agent.send()
            at += every

    await asyncio.gather(*(one(a) for a in agents))


def rest(agents: list[Agent]) -> dict[str, float]:
    """What acknowledgements took, in milliseconds."""
    waits = np.array([w for a in agents for w in a.waits]) * 1e3
    return {
        "median_ms": float(np.median(waits)),
        "p99_ms": float(np.percentile(waits, 99)),
        "most_ms": float(waits.max()),
    }


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--seconds", type=float, default=20.0)
    p.add_argument("--agents", type=int, default=1000)
    p.add_argument("--only", choices=("batches", "agents", "single"), help="one of the three")
    p.add_argument("--folder", help="of the database; else a temporary one")
    p.add_argument("--json", action="store_true")
    args = p.parse_args()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(limit, 8192), limit))
    found: dict[str, object] = {"cores": os.cpu_count(), "seconds": args.seconds}
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        for name, count, agents in (
            ("batches", 100, 32),
            ("agents", 100, args.agents),
            ("single", 1, 64),
        ):
            if args.only not in (None, name):
                continue
            database = f"{folder}/{name}.db"
            made = [Agent(t, count) for t in tokens(database, agents)]
            process = Process(database, "--rate", "1000000", "--burst", "1000000")
            if name == "agents":
                asyncio.run(paced(made, process.port, max(60.0, args.seconds), 60.0))
                found[name] = {"agents": agents, "batches": sum(a.sent for a in made), **rest(made)}
            else:
                rate = asyncio.run(flat_out(made, process.port, args.seconds))
                found[name] = {
                    "posts_a_second": rate,
                    "aggregates_a_second": rate * count,
                    **rest(made),
                }
            used = cpu_seconds(process.process)
            process.stop()
            found[name]["hub_cpu_seconds"] = used  # type: ignore[index]
    if args.json:
        print(json.dumps(found, indent=1))
        return
    for name, values in found.items():
        print(f"{name}: {values}")


def cpu_seconds(process: subprocess.Popen[str]) -> float:
    """Of a process that runs."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
