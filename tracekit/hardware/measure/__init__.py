"""Measures the computer at hand: kernels of machine code, timed beside a chain of additions
(docs/measuring.md)."""

from tracekit.hardware.measure.computer import Calibration, calibrate

__all__ = ["Calibration", "calibrate"]
