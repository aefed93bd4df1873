"""Features and traces in other people's formats (Parquet, Arrow, NumPy, ChampSim, drmemtrace), and
stacks of causes by row."""

from tracekit.exporting.causes import check_causes_output, export_causes
from tracekit.exporting.columns import FORMATS, export

__all__ = ["FORMATS", "check_causes_output", "export", "export_causes"]
