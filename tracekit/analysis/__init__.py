"""What a trace shows by itself: hot spots, miss ratios, epochs, differences of two traces."""

from tracekit.analysis.epoch_hashes import coverage, epochs
from tracekit.analysis.hotspots import BY, hot
from tracekit.analysis.trace_diff import Diff, diff_files

__all__ = ["BY", "Diff", "coverage", "diff_files", "epochs", "hot"]
