"""One CPU's rows to its file, and what that file is called."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tracekit import _core
from tracekit._version import __version__
from tracekit.extraction_types import Options
from tracekit.store.writer import Writer

__all__ = ["OutputStream", "with_name"]


class OutputStream:
    """One CPU's way from rows to a file."""

    def __init__(self, number: int, name: str, output: Path, level: str, options: Options) -> None:
        self.number, self.name = number, name
        self.seen = 0  # rows that came, kept or not
        self.stage = _core.FeatureStage(
            options.history,
            options.line_bits,
            level == "macro",
            unseen=options.start if options.cold else 0,
            skip=0 if options.cold else options.start,
            count=options.count,
            chunk_rows=options.chunk_rows,
            hashes=options.verify,
            moments=options.statistics,
        )
        head = {"tracekit": __version__}
        self.writer = Writer(output, head, force=options.force)

    @property
    def done(self) -> bool:
        """Whether ``count`` rows are written."""
        return self.stage.done

    def add(self, rows: Any) -> None:
        """Rows to features, and whole chunks to the file."""
        self.seen += len(rows)
        while self.stage.add(rows):
            self.writer.chunk(self.stage.chunk())

    def finish(self) -> None:
        """What is left, after the last row."""
        if not self.done:
            while self.stage.finish():
                self.writer.chunk(self.stage.chunk())


def with_name(output: Path, cpu: str) -> Path:
    """feats.zst -> feats.system.cpu0.zst.  A name comes from the trace: it must not lead
    elsewhere."""
    return output.with_name(
        f"{output.stem}.{re.sub(r'[^A-Za-z0-9_.-]', '_', cpu)[:100]}{output.suffix}"
    )
