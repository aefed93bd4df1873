"""Datasets: one manifest names the programs, their features and targets, the machines and the
splits."""

from tracekit.dataset.manifest import Manifest, Program, load_manifest
from tracekit.dataset.targets import Targets, open_targets

__all__ = ["Manifest", "Program", "Targets", "load_manifest", "open_targets"]
