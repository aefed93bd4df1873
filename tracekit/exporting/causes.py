"""Stacks of causes by row: a table for Parquet and Arrow."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tracekit import _core
from tracekit.causes.names import CAUSES, modelled
from tracekit.cpus import thread_count
from tracekit.errors import UsageError
from tracekit.exporting.columns import format_of, write_batches
from tracekit.io.output import check_output
from tracekit.sim.trace_walk import RowSource, source_of
from tracekit.store import arrow
from tracekit.store.reader import TraceFile

__all__ = ["check_causes_output", "export_causes"]

#: Rows of a batch: causes x rows x 8 bytes are held.
_BATCH = 1 << 13


def check_causes_output(
    output: str | os.PathLike[str], source: str | os.PathLike[str], *, force: bool = False
) -> str:
    """The format that ``output`` tells, parquet or arrow.  Raises what `export_causes` would."""
    to = None
    with contextlib.suppress(UsageError):  # whose hint names `export`'s options
        to = format_of(output)
    if to not in ("parquet", "arrow"):
        raise UsageError(f"{Path(output).name}: each row's cycles go to .parquet or .arrow")
    check_output(output, force, source)
    return to


def export_causes(
    trace: TraceFile | RowSource,
    machine: Mapping[str, Any],
    output: str | os.PathLike[str],
    *,
    force: bool = False,
    threads: int | None = None,
) -> None:
    """Writes why each row takes its cycles on a core with the parameters of ``machine``, to
    ``.parquet`` or ``.arrow``.

    Columns: ``row`` (uint64), ``pc`` (uint64), ``cycles`` (uint32), and a uint32 of each cause that
    the machine can have (`tracekit.causes.CAUSES`), which add up to ``cycles``.  UsageError where
    the name tells another format.
    """
    to = check_causes_output(output, trace.path, force=force)
    write_batches(_batches(trace, machine, threads), Path(output), to, force=force)


def _batches(
    trace: TraceFile | RowSource, machine: Mapping[str, Any], threads: int | None
) -> Iterator[Any]:
    pa = arrow.pyarrow()
    source = source_of(trace)
    cores = source.cores([machine], causes=True)
    shown = np.flatnonzero(modelled(machine)).tolist()
    threads = thread_count(threads)
    pcs = source.pcs
    for b in source.blocks(0, len(source)):
        for i in range(0, len(b.ids), _BATCH):
            j = min(i + _BATCH, len(b.ids))
            out = np.zeros((j - i, 1, len(_core.CAUSES)))
            p = b.part(i, j)
            labels = np.arange(j - i, dtype=np.uint32)
            cores.cause_sums(p.ids, p.addr, p.bits, p.following, labels, out, threads)
            stack = out[:, 0].astype(np.uint32)
            columns = {
                "row": np.arange(b.begin + i, b.begin + j, dtype=np.uint64),
                "pc": pcs[b.ids[i:j]],
                "cycles": stack.sum(1, dtype=np.uint32),
                **{CAUSES[k]: np.ascontiguousarray(stack[:, k]) for k in shown},
            }
            yield pa.RecordBatch.from_arrays([pa.array(c) for c in columns.values()], list(columns))
