"""Parts of a program that run the same code: vectors of code by interval, and their clusters."""

from tracekit.phases.clustering import bic, clustered, nearest
from tracekit.phases.code_vectors import code_vectors, phases_of_rows

__all__ = ["bic", "clustered", "code_vectors", "nearest", "phases_of_rows"]
