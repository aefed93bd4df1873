"""What a file of features holds, in a line of numbers: totals, and each column's statistics."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracekit import schema
from tracekit.store.reader import TraceFile

__all__ = ["COLUMNS", "statistics_of"]

#: Columns whose statistics are told: what features are made of, without identifiers.
COLUMNS = tuple(
    name
    for name, c in schema.COLUMNS.items()
    if c.domain != "timed" and name not in ("static_id", "addr", "bits")
)


class _Moments:
    """Sum, sum of squares, least and most of a column, chunk by chunk."""

    def __init__(self) -> None:
        self.count, self.never = 0, 0
        self.total = self.squares = 0.0
        self.least, self.most = np.inf, -np.inf

    def add(self, values: Any, *, distance: bool) -> None:
        x = values.astype(np.float64)
        if distance:
            never = values == schema.NEVER
            self.never += int(never.sum())
            x = x[~never]
        if len(x):
            self.count += len(x)
            self.total += float(x.sum())
            self.squares += float((x * x).sum())
            self.least, self.most = min(self.least, float(x.min())), max(self.most, float(x.max()))

    def to_dict(self) -> dict[str, float | int | None]:
        if not self.count:
            return {
                **dict.fromkeys(("mean", "deviation", "least", "most")),
                "rows": 0,
                "never": self.never,
            }
        mean = self.total / self.count
        variance = max(self.squares / self.count - mean * mean, 0.0)
        return {
            "mean": mean,
            "deviation": variance**0.5,
            "least": self.least,
            "most": self.most,
            "rows": self.count,
            "never": self.never,
        }


def statistics_of(path: str) -> dict[str, Any]:
    """Totals of a feats.zst (rows, instructions, bytes, cycles and CPI where it is timed, damage
    survived) and ``columns``: name -> mean, deviation, least and most of the rows that have a
    value, how many those are, and how many reuse distances are of lines never touched before.
    Read chunk by chunk."""
    with TraceFile(path) as f:
        moments = {name: _Moments() for name in COLUMNS}
        ticks = 0
        for chunk, begin, end in f.parts():
            memory = (chunk.column("bits")[begin:end] & schema.BITS["is_mem"][0]) != 0
            for name, m in moments.items():
                values = chunk.column(name)[begin:end]
                if schema.COLUMNS[name].domain == "memory":
                    values = values[memory]
                m.add(values, distance=name.endswith(("_distance", "_distance_ref")))
            if f.timed:
                ticks += int(chunk.incremental_ticks()[begin:end].sum())
        statics = f.statics
        instructions = int(statics.count[statics.ends()].sum())
        cycles = ticks / f.clock_ps if f.timed else None
        return {
            "output": f.path,
            "rows": len(f),
            "instructions": instructions,
            "bytes": f.size,
            "level": f.level,
            "arch": f.arch,
            "cpu": f.cpu,
            "static_instructions": len(statics),
            "cycles": cycles,
            "cpi": cycles / max(instructions, 1) if cycles is not None else None,
            "anomalies": {k: int(a["count"]) for k, a in f.index["anomalies"].items()},
            "columns": {name: m.to_dict() for name, m in moments.items()},
        }
