"""This computer's machine, as it was measured last: a file in the user's cache, by processor."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tracekit.hardware.machine import HardwareMachine
from tracekit.hardware.measure.processor import cpu_name
from tracekit.io.output import kept_folder, write_json

__all__ = ["keep_machine", "kept_machine", "kept_path"]


def kept_path() -> Path:
    """Where the machine of this processor is kept: ``$XDG_CACHE_HOME/tracekit/machines``."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    name = re.sub(r"[^a-z0-9]+", "-", cpu_name().lower()).strip("-")
    return Path(base) / "tracekit" / "machines" / f"{name}.json"


def keep_machine(machine: HardwareMachine) -> Path:
    """Keeps it as this computer's; where.  Raises `TracekitError` where that cannot be written."""
    path = kept_path()
    with kept_folder(path.parent):
        write_json(path, machine.to_dict(), force=True)
    return path


def kept_machine() -> tuple[HardwareMachine, Path] | None:
    """What was kept of a processor of this name, and where; None where nothing was.

    Raises `FormatError` for a file that is damaged.
    """
    path = kept_path()
    return (HardwareMachine.load(path), path) if path.exists() else None
