"""A report on one trace and some machines: one HTML file that needs nothing else."""

from tracekit.report.collect import collect
from tracekit.report.page import PARTS, Report, page

__all__ = ["PARTS", "Report", "collect", "page"]
