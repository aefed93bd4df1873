"""PerfVec's own network (the preset ``paper``); tracekit.train.perfvec trains it."""

from tracekit.perfvec.network import FEATURES

__all__ = ["FEATURES"]
