"""Times of traces and of real programs on every machine that a model knows (docs/predict.md)."""

from tracekit.prediction.live import features_of, is_recording, is_trace_file, sample
from tracekit.prediction.program import predict_program
from tracekit.prediction.sampling import interleaved_threads
from tracekit.prediction.trace_times import predict, total
from tracekit.prediction.trace_weights import check_one_program, weighted

__all__ = [
    "check_one_program",
    "features_of",
    "interleaved_threads",
    "is_recording",
    "is_trace_file",
    "predict",
    "predict_program",
    "sample",
    "total",
    "weighted",
]
