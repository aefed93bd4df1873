"""Times of traces and of real programs on every machine that a model knows (docs/predict.md)."""

from tracekit.prediction.live import features_of, is_recording, is_trace_file, sample
from tracekit.prediction.program import predict_program
from tracekit.prediction.trace_times import predict, total

__all__ = [
    "features_of",
    "is_recording",
    "is_trace_file",
    "predict",
    "predict_program",
    "sample",
    "total",
]
