"""NeuroScalar: cycles of single instructions, and comparisons of designs by them
(docs/neuroscalar.md)."""

from tracekit.neuroscalar.evaluation import evaluate
from tracekit.neuroscalar.instructions import FEATURE_SET
from tracekit.neuroscalar.intervals import known_residuals, program_intervals, save_residuals
from tracekit.neuroscalar.metrics import finite
from tracekit.neuroscalar.model import CYCLES, MEAN, CycleModel, is_cycle_model
from tracekit.neuroscalar.plotting import compare_plot
from tracekit.neuroscalar.readout import apply_mean_map
from tracekit.neuroscalar.trace_totals import piece_sums, sums_by_piece

__all__ = [
    "CYCLES",
    "FEATURE_SET",
    "MEAN",
    "CycleModel",
    "apply_mean_map",
    "compare_plot",
    "evaluate",
    "finite",
    "is_cycle_model",
    "known_residuals",
    "piece_sums",
    "program_intervals",
    "save_residuals",
    "sums_by_piece",
]
