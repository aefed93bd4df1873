"""A systemd unit of the user's own manager for the agent."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from tracekit.agent.vault import CREDENTIAL
from tracekit.errors import UsageError

__all__ = ["unit_text"]


def unit_text(policy: str, *, key: str | None = None) -> str:
    """The unit; ``policy`` is its file, ``key`` a file with the traces' key for LoadCredential."""
    arguments = [sys.executable, "-m", "tracekit", "agent", "run", "--policy"]
    words = [_word(w) for w in (*arguments, str(Path(policy).absolute()))]
    credential = f"LoadCredential={CREDENTIAL}:{_plain(str(Path(key).absolute()))}\n" if key else ""
    return f"""[Unit]
Description=tracekit agent: what this computer's programs would take on other designs
Documentation=man:proc(5)
After=default.target

[Service]
Type=simple
ExecStart={" ".join(words)}
{credential}Restart=on-failure
RestartSec=60
CPUWeight=20
IOSchedulingClass=idle
MemoryMax=2G
TasksMax=64
LimitCORE=0
UMask=0077
NoNewPrivileges=yes

[Install]
WantedBy=default.target
"""


def _word(text: str) -> str:
    """As systemd splits command lines: its quotes are the shell's, % and $ stand twice."""
    return shlex.quote(_plain(text)).replace("$", "$$")


def _plain(text: str) -> str:
    if any(ord(c) < 32 for c in text):
        raise UsageError("a unit cannot name a file with control characters")
    return text.replace("\\", "\\\\").replace("%", "%%")
