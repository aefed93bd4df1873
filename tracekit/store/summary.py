"""The numbers that ``tracekit info`` shows; its keys are stable (docs/json.md)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from tracekit import schema
from tracekit.progress import Progress
from tracekit.store.index_types import Source
from tracekit.store.instruction_bounds import instruction_count, is_blind
from tracekit.store.reader import TraceFile


def _squashed(source: Source) -> int | None:
    """None where a text of several CPUs does not tell whose blocks they are, and of formats that
    show none."""
    return None if "all_cpus" in source else source.get("squashed")


def _ticks(f: TraceFile, quiet: bool) -> int:
    """From the first row's retirement to the last one's."""
    ticks = done = 0
    with Progress(Path(f.path).name, len(f), quiet=quiet) as progress:
        for chunk, a, b in f.parts():
            ticks += int(chunk.incremental_ticks()[a:b].sum())
            done += b - a
            progress.update(done)
    return ticks


def summary(path: str | os.PathLike[str], *, quiet: bool = True) -> dict[str, Any]:
    """Everything about a file that needs no decoding of its rows, but for the total time, which
    shows progress on standard error unless ``quiet``."""
    with TraceFile(path) as f:
        index, t, rows = f.index, f.statics, len(f)
        bits = dict(zip(range(8), index["bits"], strict=True))
        column_bytes: dict[str, int] = {}
        for c in index["chunks"]:
            for name, (_, size, _) in c["streams"].items():
                column_bytes[name] = column_bytes.get(name, 0) + size
        column_bytes["statics"] = sum(size for _, size, _ in index["statics"]["streams"].values())
        mix: dict[str, int] = {}
        for i in np.argsort(-t.count.astype(np.int64)).tolist():
            name = t.op_name(i)
            mix[name] = mix.get(name, 0) + int(t.count[i])
        out: dict[str, Any] = {
            "path": f.path,
            "format": f.head["format"],
            "tracekit": f.head["tracekit"],
            "rows": rows,
            "instructions": instruction_count(f),
            "level": index["level"],
            "arch": index["arch"],
            "cpu": index["cpu"],
            "static_instructions": len(t),
            "bytes": f.size,
            "bytes_per_row": f.size / rows if rows else 0.0,
            "timed": f.timed,
            "squashed": _squashed(index["source"]),
            "trapped": bits[2],
            "trapped_unknown": is_blind(f),
            "untimed": bits[3] if f.timed else rows,
            "taken": bits[1],
            "memory_accesses": bits[0],
            "anomalies": index["anomalies"],
            "mix": {k: v / rows for k, v in sorted(mix.items(), key=lambda kv: -kv[1])},
            "flags": {n: int(t.count[t.has(n)].sum()) for n in schema.FLAGS if t.has(n).any()},
            "column_bytes": column_bytes,
            "input": index["input"],
            "source": index["source"],
            "options": index["options"],
            "binary": index.get("binary"),
        }
        for key in ("machine", "machine_notes", "machine_unknown"):
            if key in index["source"]:
                out[key] = index["source"][key]
        if targets := index.get("targets"):
            column_bytes["targets"] = sum(
                b["cycles"][1] + (b["far"][1] if "far" in b else 0) for b in targets["blocks"]
            )
            out["targets"] = {k: targets[k] for k in ("machines", "rows", "dtype")}
        if f.timed:
            ticks = _ticks(f, quiet)
            cycles = ticks / f.clock_ps
            out |= {"ticks": ticks, "clock_ps": f.clock_ps, "cycles": cycles}
            out["cpi"] = cycles / max(1, out["instructions"])
        return out
