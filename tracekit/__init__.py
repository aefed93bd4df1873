"""tracekit: instruction traces to features, datasets and fast predictions.

The public names are imported when they are first used, so that ``import tracekit`` costs next to
nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tracekit._version import __version__

if TYPE_CHECKING:
    from tracekit.errors import FormatError, TracekitError, UsageError
    from tracekit.extraction import extract
    from tracekit.features import Feature, FeatureSet
    from tracekit.features import register as register_feature_set
    from tracekit.lru import StackDistance, stack_distance
    from tracekit.mrc import miss_ratio_curve
    from tracekit.store.reader import TraceFile
    from tracekit.store.reader import TraceFile as open

_LAZY = {
    "extract": ("tracekit.extraction", "extract"),
    "open": ("tracekit.store.reader", "TraceFile"),
    "TraceFile": ("tracekit.store.reader", "TraceFile"),
    "Feature": ("tracekit.features", "Feature"),
    "FeatureSet": ("tracekit.features", "FeatureSet"),
    "register_feature_set": ("tracekit.features", "register"),
    "StackDistance": ("tracekit.lru", "StackDistance"),
    "stack_distance": ("tracekit.lru", "stack_distance"),
    "miss_ratio_curve": ("tracekit.mrc", "miss_ratio_curve"),
    "TracekitError": ("tracekit.errors", "TracekitError"),
    "FormatError": ("tracekit.errors", "FormatError"),
    "UsageError": ("tracekit.errors", "UsageError"),
}

__all__ = [
    "Feature",
    "FeatureSet",
    "FormatError",
    "StackDistance",
    "TraceFile",
    "TracekitError",
    "UsageError",
    "__version__",
    "extract",
    "miss_ratio_curve",
    "open",
    "register_feature_set",
    "stack_distance",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'tracekit' has no attribute {name!r}")
    module, attribute = _LAZY[name]
    value = getattr(importlib.import_module(module), attribute)
    globals()[name] = value
    return value
