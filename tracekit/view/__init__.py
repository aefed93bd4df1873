"""The pipeline itself: rows of a trace with their stages, for viewers."""

from tracekit.view.kanata import kanata
from tracekit.view.perfetto import perfetto
from tracekit.view.stages import MOST_ROWS, View, beside, of_simulation, of_trace

__all__ = ["MOST_ROWS", "View", "beside", "kanata", "of_simulation", "of_trace", "perfetto"]
