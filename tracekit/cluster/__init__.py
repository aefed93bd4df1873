"""Runs over many traces: folders of tasks, done here or by Dask's workers (docs/cluster.md)."""

from tracekit.cluster.ground_truth import GroundTruth, make_ground_truth
from tracekit.cluster.instruction_models import predict_instructions
from tracekit.cluster.joins import join_many
from tracekit.cluster.many import (
    extract_many,
    extraction_of,
    predict_many,
    simulate_many,
)
from tracekit.cluster.run import Run
from tracekit.cluster.summary import RunState, runs_in, state_of, table, write_parquet

__all__ = [
    "GroundTruth",
    "Run",
    "RunState",
    "extract_many",
    "extraction_of",
    "join_many",
    "make_ground_truth",
    "predict_instructions",
    "predict_many",
    "runs_in",
    "simulate_many",
    "state_of",
    "table",
    "write_parquet",
]
