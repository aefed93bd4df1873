"""Rows of machines whose parameters are not known, from measured times (docs/perfvec.md)."""

from tracekit.calibration.host import BASELINES, load_natives, machine_of, measure
from tracekit.calibration.informative_programs import (
    core_information,
    informations,
    most_informative,
)
from tracekit.calibration.machine_rows import add_machines, tune, write_machine

__all__ = [
    "BASELINES",
    "add_machines",
    "core_information",
    "informations",
    "load_natives",
    "machine_of",
    "measure",
    "most_informative",
    "tune",
    "write_machine",
]
