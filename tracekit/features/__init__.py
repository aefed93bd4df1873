"""Feature sets, assembled on reading: one file serves all of them."""

from tracekit.features import builtin as _builtin
from tracekit.features._assemble import Assembly
from tracekit.features.plan import Plan
from tracekit.features.sets import Feature, FeatureSet, get, names, register

__all__ = ["Assembly", "Feature", "FeatureSet", "Plan", "get", "names", "register"]
del _builtin
