"""A hub as a process of its own, and messages for it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tracekit.fleet import Aggregate, Batch, Observed, Token
from tracekit.hub import issue_agent, open_database

DESIGNS = ("ns_8w", "ns_lsq")


def tokens(database: str, count: int) -> list[Token]:
    """Tokens of new agents."""
    engine = open_database(database)
    with engine.begin() as connection:
        made = [Token(issue_agent(connection)) for _ in range(count)]
    engine.dispose()
    return made


def batch_of(
    agent: str, sequence: int, *, count: int = 2, group: str | None = None, **changed: Any
) -> Batch:
    """A batch whose aggregates are those of ``count`` / 2 epochs on two designs."""
    hour = int(time.time() // 3600) - 1
    values = {
        "model": "m",
        "model_version": "1",
        "hour": hour,
        "instructions": 100_000,
        "half_width": 800.0,
        "weight": 5.0,
        "clock_ghz": 2.0,
        **changed,
    }
    aggregates = tuple(
        Aggregate(
            design=DESIGNS[i % 2],
            signature=f"{sequence:032x}{i // 2:032x}",
            cycles=80_000.0 + 4_000 * (i % 2) + 10 * i,
            **values,
        )
        for i in range(count)
    )
    seen = (Observed(hour, 5.0 * count),)
    name = f"{sequence:032x}"
    return Batch(agent, name, sequence, time.time(), aggregates, seen, group)


class Process:
    """``tracekit hub serve`` on a port of its own; ``url`` is where."""

    def __init__(self, database: str, *options: str) -> None:
        command = [sys.executable, "-m", "tracekit", "hub", "serve", database, "--json"]
        command += ["--listen", "127.0.0.1:0", *options]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"},  # as at a pipe
        )
        assert self.process.stdout is not None
        text = ""
        while not text.rstrip().endswith("}"):
            line = self.process.stdout.readline()
            if not line:
                raise AssertionError(self.process.stderr.read() if self.process.stderr else "")
            text += line
        self.url = json.loads(text)["url"]
        self.port = int(self.url.rsplit(":", 1)[1])

    def kill(self) -> None:
        """As a power failure of the process would."""
        self.process.send_signal(signal.SIGKILL)
        self._end()

    def stop(self) -> int:
        """Ask it to end; its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self._end()

    def _end(self) -> int:
        code = self.process.wait(30)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        return code


@contextlib.contextmanager
def running(database: Path | str, *options: str) -> Iterator[Process]:
    """A hub that ends with the block."""
    process = Process(str(database), *options)
    try:
        yield process
    finally:
        if process.process.poll() is None:
            process.stop()


def certificate(folder: Path) -> tuple[str, ...]:
    """Options of a hub with a certificate of its own, ``c.pem``; skips where openssl is not."""
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj"
    names = "subjectAltName=DNS:localhost,IP:127.0.0.1"
    files = ("-keyout", "k.pem", "-out", "c.pem")
    made = subprocess.run(
        ["openssl", *words.split(), "/CN=localhost", "-addext", names, *files],
        cwd=folder,
        capture_output=True,
        check=False,
    )
    if made.returncode != 0:
        import pytest

        pytest.skip("needs openssl")
    return "--certificate", str(folder / "c.pem"), "--key", str(folder / "k.pem")


def published(folder: Path) -> Any:
    """A repository in ``folder``/r whose only model, m, is the shipped one of X86."""
    from tracekit.mixture import default_model_path
    from tracekit.repository import ROLES, KeyFolder, Repository

    with KeyFolder(folder / "k", None) as new:
        keys = {role: [new.make(role)] for role in ROLES}
        new.commit()
    made = Repository.create(folder / "r", keys, dict.fromkeys(ROLES, 1))
    made.add(default_model_path("x86"), name="m")
    made.sign([keys["targets"][0]])
    made.publish({s.public_key.keyid: s for v in keys.values() for s in v})
    return made
