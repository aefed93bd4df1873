"""PerfVec: program representations that add up, and a row of a table for each machine
(docs/perfvec.md)."""

from tracekit.perfvec.model import PerfVec, default_model_path, load_model

__all__ = ["PerfVec", "default_model_path", "load_model"]
