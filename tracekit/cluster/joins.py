"""Joins as tasks of a run: each file of features by itself, a long one in pieces of its chunks.

A piece writes the targets of its chunks to a file of its own, in a folder beside the output; the
join puts them one after another.  No records of pieces are kept, whose files are gone at the end.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tracekit.cluster.run import Run
from tracekit.cluster.task import Outcome, Task
from tracekit.errors import TracekitError, UsageError
from tracekit.io.output import scratch
from tracekit.io.remote import public_name, remote_url
from tracekit.store.reader import TraceFile

__all__ = ["join_many", "map_joins"]

#: Rows x machines of a piece whose targets are traces, or arrays: about a second.
TRACES, ARRAYS = 15_000_000, 100_000_000
#: Rows of a piece at least: each reads the static instructions of all targets anew.
ROWS = 1_000_000


def join_many(
    run: Run,
    features: Sequence[str],
    targets: Sequence[str],
    folder: str,
    *,
    micro: str | None = None,
    strict: bool = False,
    force: bool = False,
) -> list[Outcome]:
    """`tracekit join` of each file of features into ``folder``, under its own name.  In ``targets``
    and ``micro`` ``{}`` stands for that name up to the first dot."""
    tasks = []
    for path in features:
        name = Path(public_name(path)).name
        stem = name.split(".")[0]
        named = [t.replace("{}", stem).partition("=") for t in targets]
        if bad := next((t for t in named if not t[1] or not t[0] or not t[2]), None):
            raise UsageError(f"--target {''.join(bad)}: NAME=FILE")
        more = (micro.replace("{}", stem),) if micro else ()
        files = (path, *(t[2] for t in named), *more)
        options = {"targets": [t[0] for t in named]}
        tasks.append(Task(name, files, options, (f"{folder.rstrip('/')}/{name}",)))
    if len({t.outputs[0] for t in tasks}) != len(tasks):
        raise UsageError("two features would have the same output name")
    common = {"micro": micro is not None, "strict": strict}
    return map_joins(run, tasks, common, force=force)


def map_joins(
    run: Run, tasks: Sequence[Task], common: Mapping[str, Any], *, force: bool = False
) -> list[Outcome]:
    """`Run.map` of tasks of kind "join", of which long ones are done in pieces."""
    cuts: list[list[Task]] = []
    with contextlib.ExitStack() as stack:
        missing = run.missing("join", tasks, common, force=force)
        for task, wanted in zip(tasks, missing, strict=True):
            own = _chunks(task, common, run.executor.workers) if wanted else []
            if own:
                folder = stack.enter_context(scratch([Path(task.outputs[0]).parent]))
                own = [replace(t, outputs=(str(folder / str(k)),)) for k, t in enumerate(own)]
            cuts.append(own)
        pieces = [t for own in cuts for t in own]
        done = iter(run.map("join_chunks", pieces, keep=False) if pieces else [])
        found = []
        for task, own in zip(tasks, cuts, strict=True):
            parts = list(itertools.islice(done, len(own)))
            # Where a piece failed the join itself says what is wrong, as it does without pieces.
            if parts and all(o.error is None for o in parts):
                task = replace(task, found={"parts": [o.value["part"] for o in parts]})
            found.append(task)
        return run.map("join", found, common, force=force)


def _chunks(task: Task, common: Mapping[str, Any], workers: int) -> list[Task]:
    """The pieces of a join, without their outputs; none where it is one task."""
    output = task.outputs[0]
    if workers == 1 or common["micro"] or remote_url(output) is not None:
        return []
    share = 0.0
    for names, path in zip(task.options["targets"], task.inputs[1:], strict=True):
        share += len(names.split(",")) / (ARRAYS if path.endswith((".npy", ".npy.zst")) else TRACES)
    try:
        with TraceFile(task.inputs[0]) as trace:
            rows, chunks = len(trace), trace.chunks
    except TracekitError:
        return []  # the join says it
    count = min(chunks, math.ceil(rows * share), max(1, rows // ROWS))
    if any(p.endswith(".npy.zst") for p in task.inputs[1:]):
        count = min(count, max(workers, 2))  # each piece decompresses the whole of it
    edges = [k * chunks // count for k in range(count + 1)] if count > 1 else []
    return [
        Task(task.name, task.inputs, {**task.options, "chunks": [a, b]}, label=f"chunks {a}:{b}")
        for a, b in itertools.pairwise(edges)
    ]
