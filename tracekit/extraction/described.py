"""A file that was written in a line of numbers: totals, and each column's statistics."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tracekit.extraction.output_stream import OutputStream
from tracekit.extraction_types import ExtractedFile
from tracekit.store.statics import StaticTable

__all__ = ["described"]


def described(
    stream: OutputStream,
    written: ExtractedFile,
    statics: StaticTable,
    source: Mapping[str, Any],
    clock_ps: int | None,
) -> dict[str, Any]:
    """Totals (rows, instructions, bytes, cycles and CPI where it is timed, damage survived) and
    ``columns``: name -> mean, deviation, least and most of the rows that have a value, how many
    those are, and how many reuse distances are of lines never touched before.

    They were counted while the rows went by: the file is not read.  ``source``: its level, arch and
    anomalies.
    """
    found = dict(stream.stage.moments() or {})
    first, last = map(int, found.pop("ticks"))
    begun: int = found.pop("instructions")
    instructions = written.rows if source["level"] == "macro" else begun
    cycles = None
    if (unit := stream.writer.tick_unit) is not None:
        # The window's clock starts at the retirement before it, or at its own first one.
        begin = stream.writer.retired_before or first
        cycles = max(last - begin, 0) / (clock_ps or unit)
    return {
        "output": written.path,
        "rows": written.rows,
        "instructions": instructions,
        "bytes": written.bytes,
        "level": source["level"],
        "arch": source["arch"],
        "cpu": written.cpu,
        "static_instructions": len(statics),
        "cycles": cycles,
        "cpi": cycles / max(instructions, 1) if cycles is not None else None,
        "anomalies": {k: int(a["count"]) for k, a in source["anomalies"].items()},
        "columns": {name: _statistics(*m) for name, m in found.items()},
    }


def _statistics(
    rows: float, never: float, total: float, squares: float, least: float, most: float
) -> dict[str, float | int | None]:
    counts: dict[str, float | int | None] = {"rows": int(rows), "never": int(never)}
    if not rows:
        return {**dict.fromkeys(("mean", "deviation", "least", "most")), **counts}
    mean = total / rows
    deviation = math.sqrt(max(squares / rows - mean * mean, 0.0))
    return {"mean": mean, "deviation": deviation, "least": least, "most": most, **counts}
