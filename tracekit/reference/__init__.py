"""Reference cores: a fixed set of abstract out-of-order machines that every trace is walked with.

The cycles that each of them spends on a row are a feature of the program that is the same whatever
machine is to be predicted (csrc/reference has the cores, docs/perfvec.md the idea and what it is
worth).
"""

from tracekit.reference.digest import cores_digest
from tracekit.reference.machine import PARAMETERS, core_row, load_machine
from tracekit.reference.walk import TIMING, ClassedRows, KeptRows, Walk, totals, walk

__all__ = [
    "PARAMETERS",
    "TIMING",
    "ClassedRows",
    "KeptRows",
    "Walk",
    "core_row",
    "cores_digest",
    "load_machine",
    "totals",
    "walk",
]
