"""Features and traces in other people's formats: Parquet, Arrow, NumPy, ChampSim."""

from tracekit.exporting.columns import FORMATS, export

__all__ = ["FORMATS", "export"]
