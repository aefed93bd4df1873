"""CPU inference: streams feature rows through a model folder (Numba; torch is never imported)."""

from __future__ import annotations

from tracekit.infer.engine import REPRESENTATION, Engine
from tracekit.infer.loading import load
from tracekit.infer.quantization import CORRECTIONS, quantize
from tracekit.infer.stream import Stream

__all__ = ["CORRECTIONS", "REPRESENTATION", "Engine", "Stream", "load", "quantize"]
