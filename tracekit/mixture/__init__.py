"""PerfVec: program representations that add up, and a row of a table for each machine
(docs/perfvec.md)."""

from tracekit.mixture.model import FEATURE_SET, Mixture, default_model_path, load_model
from tracekit.mixture.training import train_default

__all__ = ["FEATURE_SET", "Mixture", "default_model_path", "load_model", "train_default"]
