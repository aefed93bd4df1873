"""Datasets: one manifest names the programs' files, the machines and the splits; a file has a
program's features and its targets on every machine."""

from tracekit.dataset.arrays import read_cycles
from tracekit.dataset.batches import batches
from tracekit.dataset.file import Dataset
from tracekit.dataset.joining import first_difference, join
from tracekit.dataset.manifest import Manifest, Program, load_manifest
from tracekit.dataset.shards import Windows

__all__ = [
    "Dataset",
    "Manifest",
    "Program",
    "Windows",
    "batches",
    "first_difference",
    "join",
    "load_manifest",
    "read_cycles",
]
