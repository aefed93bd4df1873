"""tracekit: instruction traces to features, datasets and fast predictions.

Traces
    `extract` reads a simulator's or tracer's output into a feats.zst, which `open` reads;
    `stack_distance` and `miss_ratio_curve` work on any addresses.
Machines
    `machines` lists those known by name, `Machine` describes one, and `simulate` runs a trace on
    them.
Models
    `predict` tells a trace's time on every machine of a model; `load_model` loads one; `Dataset`
    reads what models are trained on.

The public names are imported when they are first used, so that ``import tracekit`` costs next to
nothing.
"""

from __future__ import annotations

import os

from tracekit._version import __version__

_built = (".so", ".pyd")
_files = os.listdir(__path__[0])  # noqa: PTH208 -- pathlib alone costs more than all of this module
if not any(name.startswith("_core.") and name.endswith(_built) for name in _files):
    raise ImportError(
        f"{__path__[0]} holds tracekit's sources, which are not built: start Python in another "
        'folder to use an installed tracekit, or build here with pip install -e ".[test]"'
    )

TYPE_CHECKING = False  # typing's own costs more than all the rest of this module
if TYPE_CHECKING:
    from tracekit.analysis.lru import StackDistance, stack_distance
    from tracekit.analysis.mrc import MissRatioCurve, miss_ratio_curve
    from tracekit.dataset.file import Dataset
    from tracekit.errors import FormatError, RecordError, TracekitError, UsageError
    from tracekit.extraction import extract
    from tracekit.extraction_types import ExtractedFile, ExtractionResult
    from tracekit.features import Feature, FeatureSet
    from tracekit.features import register as register_feature_set
    from tracekit.hardware.machine import HardwareMachine
    from tracekit.hardware.simulation import simulate
    from tracekit.mixture.model import Mixture, load_model
    from tracekit.opening import open_trace as open
    from tracekit.prediction.trace_times import PredictedPart, PredictionResult, predict
    from tracekit.schema import NEVER
    from tracekit.sim.description import Machine, machines
    from tracekit.sim.simulation import SimulationResult
    from tracekit.store.reader import TraceFile

#: Public name -> its module, and its name there where it has another one.
_LAZY = {
    "NEVER": ("tracekit.schema", ""),
    "Dataset": ("tracekit.dataset.file", ""),
    "ExtractedFile": ("tracekit.extraction_types", ""),
    "ExtractionResult": ("tracekit.extraction_types", ""),
    "Feature": ("tracekit.features", ""),
    "FeatureSet": ("tracekit.features", ""),
    "FormatError": ("tracekit.errors", ""),
    "HardwareMachine": ("tracekit.hardware.machine", ""),
    "Machine": ("tracekit.sim.description", ""),
    "MissRatioCurve": ("tracekit.analysis.mrc", ""),
    "Mixture": ("tracekit.mixture.model", ""),
    "PredictedPart": ("tracekit.prediction.trace_times", ""),
    "PredictionResult": ("tracekit.prediction.trace_times", ""),
    "RecordError": ("tracekit.errors", ""),
    "SimulationResult": ("tracekit.sim.simulation", ""),
    "StackDistance": ("tracekit.analysis.lru", ""),
    "TraceFile": ("tracekit.store.reader", ""),
    "TracekitError": ("tracekit.errors", ""),
    "UsageError": ("tracekit.errors", ""),
    "extract": ("tracekit.extraction", ""),
    "load_model": ("tracekit.mixture.model", ""),
    "machines": ("tracekit.sim.description", ""),
    "miss_ratio_curve": ("tracekit.analysis.mrc", ""),
    "open": ("tracekit.opening", "open_trace"),
    "predict": ("tracekit.prediction.trace_times", ""),
    "register_feature_set": ("tracekit.features", "register"),
    "simulate": ("tracekit.hardware.simulation", ""),
    "stack_distance": ("tracekit.analysis.lru", ""),
}

__all__ = [
    "NEVER",
    "Dataset",
    "ExtractedFile",
    "ExtractionResult",
    "Feature",
    "FeatureSet",
    "FormatError",
    "HardwareMachine",
    "Machine",
    "MissRatioCurve",
    "Mixture",
    "PredictedPart",
    "PredictionResult",
    "RecordError",
    "SimulationResult",
    "StackDistance",
    "TraceFile",
    "TracekitError",
    "UsageError",
    "__version__",
    "extract",
    "load_model",
    "machines",
    "miss_ratio_curve",
    "open",
    "predict",
    "register_feature_set",
    "simulate",
    "stack_distance",
]


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module 'tracekit' has no attribute {name!r}")
    import importlib

    module, attribute = _LAZY[name]
    value = getattr(importlib.import_module(module), attribute or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
