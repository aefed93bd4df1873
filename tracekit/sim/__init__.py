"""Reference cores: a fixed set of abstract out-of-order machines that every trace is walked with.

The cycles that each of them spends on a row are a feature of the program that is the same whatever
machine is to be predicted (csrc/sim has the cores, docs/perfvec.md the idea and what it is
worth).
"""

from tracekit.sim.cause_walk import CauseSums, cause_walk
from tracekit.sim.description import Machine, MachineLike, machines, summary_of
from tracekit.sim.digest import cores_digest
from tracekit.sim.gem5_config import gem5_machine
from tracekit.sim.machine import PARAMETERS, check_machines, core_row, load_machine
from tracekit.sim.parameters import (
    MACHINE_PARAMETERS,
    REPLACEMENTS,
    Parameter,
    machine_errors,
    machine_notes,
)
from tracekit.sim.simulation import SimulationResult, simulate
from tracekit.sim.trace_walk import TIMING, ClassedRows, KeptRows, Walk, totals, walk

__all__ = [
    "MACHINE_PARAMETERS",
    "PARAMETERS",
    "REPLACEMENTS",
    "TIMING",
    "CauseSums",
    "ClassedRows",
    "KeptRows",
    "Machine",
    "MachineLike",
    "Parameter",
    "SimulationResult",
    "Walk",
    "cause_walk",
    "check_machines",
    "core_row",
    "cores_digest",
    "gem5_machine",
    "load_machine",
    "machine_errors",
    "machine_notes",
    "machines",
    "simulate",
    "summary_of",
    "totals",
    "walk",
]
