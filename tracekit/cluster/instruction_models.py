"""Models of single instructions over many traces, as tasks of a run: a trace each; a long one in
pieces of rows, where the model reads nothing that goes through the whole of it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracekit.cluster.run import Run, values
from tracekit.cluster.task import Task
from tracekit.model import folder_digest
from tracekit.neuroscalar import CycleModel
from tracekit.neuroscalar.trace_totals import row_pieces
from tracekit.opening import open_trace

__all__ = ["predict_instructions"]


def predict_instructions(
    run: Run, paths: Sequence[str], model: CycleModel, device: str
) -> list[dict[str, Any]]:
    """Of each trace ``rows``, ``instructions``, ``totals`` (expected cycles, float64 [machines])
    and the engine's ``isa`` and ``dtype``; the first error where one fails.  ``device``: that of
    the workers."""
    folder = str(model.folder)
    tasks: list[Task] = []
    counts = []
    for path in paths:
        with open_trace(path) as trace:
            rows = len(trace)
        parts = row_pieces(rows, cut=model.cut)
        counts.append(len(parts))
        for a, b in parts:
            label = "" if len(parts) == 1 else f"rows {a}:{b}"
            name = path.rpartition("/")[2]
            tasks.append(Task(name, (path, folder), {"rows": [a, b]}, label=label))
    common = {"model": folder, "digest": folder_digest(folder), "device": device}
    found = iter(values(run.map("instruction_sums", tasks, common)))
    out = []
    for n in counts:
        own = list(itertools.islice(found, n))
        sums = np.concatenate([v["sums"].reshape(-1, len(model.machines)) for v in own])
        out.append(
            {
                "rows": sum(v["rows"] for v in own),
                "instructions": sum(v["instructions"] for v in own),
                "totals": sums.sum(axis=0),
                "isa": own[0]["isa"],
                "dtype": own[0]["dtype"],
            }
        )
    return out
