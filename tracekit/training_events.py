"""Events of a training: JSON lines, an echo on the terminal, and TensorBoard where it is
installed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tracekit.io.output import append_line, kept_folder

__all__ = ["Report", "metrics"]

Report = Callable[[dict[str, Any]], None]


def metrics(folder: Path, echo: Callable[[str], None] | None = None) -> Report:
    """A report that appends to ``folder/metrics.jsonl`` with the time, echoes the line, and hands
    the numbers of an event with a ``step`` to TensorBoard (``folder/tensorboard``).  The folder is
    made at the first event."""
    board = _tensorboard(folder / "tensorboard")

    def report(event: dict[str, Any]) -> None:
        line = json.dumps({"time": round(time.time(), 3), **event})
        with kept_folder(folder):
            append_line(folder / "metrics.jsonl", line)
        if echo:
            echo(line)
        if "step" in event and (writer := board()) is not None:
            for key, value in event.items():
                if key != "step" and type(value) in (int, float):
                    writer.add_scalar(key, value, event["step"])
            writer.flush()

    return report


def _tensorboard(folder: Path) -> Callable[[], Any]:
    """The writer, made at the first event that it takes (importing it takes seconds); None where
    TensorBoard is not installed."""
    made: list[Any] = []

    def writer() -> Any:
        if not made:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ModuleNotFoundError:
                made.append(None)
            else:
                made.append(SummaryWriter(str(folder)))
        return made[0]

    return writer
