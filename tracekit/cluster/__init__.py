"""Runs over many traces: folders of tasks, done here or by Dask's workers (docs/cluster.md)."""

from tracekit.cluster.many import (
    extract_many,
    extraction_of,
    join_many,
    predict_many,
    simulate_many,
)
from tracekit.cluster.run import Run
from tracekit.cluster.summary import RunState, state_of, table, write_parquet

__all__ = [
    "Run",
    "RunState",
    "extract_many",
    "extraction_of",
    "join_many",
    "predict_many",
    "simulate_many",
    "state_of",
    "table",
    "write_parquet",
]
