"""The timing simulator: machines by their parameters, and walks of a trace through simulated cores
(csrc/sim has the cores, docs/simulator.md what they model)."""

from tracekit.sim.cause_walk import CauseSums, cause_walk
from tracekit.sim.clock import period
from tracekit.sim.description import (
    Machine,
    MachineLike,
    is_machine_name,
    machine_list,
    machines,
    summary_of,
)
from tracekit.sim.digest import cores_digest
from tracekit.sim.gem5_config import gem5_machine, is_gem5_config
from tracekit.sim.machine import (
    PARAMETERS,
    check_known,
    check_machines,
    completed,
    core_row,
    load_machine,
)
from tracekit.sim.parameters import (
    MACHINE_PARAMETERS,
    REPLACEMENTS,
    Parameter,
    joined,
    machine_errors,
    machine_notes,
    suggestion,
)
from tracekit.sim.row_events import event_walk
from tracekit.sim.sample_plan import SampledCycles, SamplePlan, Samples, drawn, sampled_totals
from tracekit.sim.samples import sample_sums
from tracekit.sim.segments import segment_sums
from tracekit.sim.simulation import (
    SimulatedMachine,
    SimulationResult,
    result_of,
    simulate,
    simulate_samples,
    simulate_segments,
)
from tracekit.sim.trace_walk import TIMING, ClassedRows, KeptRows, RowSource, Walk, totals, walk

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
    "RowSource",
    "SamplePlan",
    "SampledCycles",
    "Samples",
    "SimulatedMachine",
    "SimulationResult",
    "Walk",
    "cause_walk",
    "check_known",
    "check_machines",
    "completed",
    "core_row",
    "cores_digest",
    "drawn",
    "event_walk",
    "gem5_machine",
    "is_gem5_config",
    "is_machine_name",
    "joined",
    "load_machine",
    "machine_errors",
    "machine_list",
    "machine_notes",
    "machines",
    "period",
    "result_of",
    "sample_sums",
    "sampled_totals",
    "segment_sums",
    "simulate",
    "simulate_samples",
    "simulate_segments",
    "suggestion",
    "summary_of",
    "totals",
    "walk",
]
