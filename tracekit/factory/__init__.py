"""Ground truth: machines drawn, programs run on them by gem5, cycles of rows (docs/factory.md)."""

from tracekit.factory.drawing import draw_machines
from tracekit.factory.gem5_run import RunOptions, functional_run, timed_run
from tracekit.factory.plan import Plan, PlannedProgram, load_plan

__all__ = [
    "Plan",
    "PlannedProgram",
    "RunOptions",
    "draw_machines",
    "functional_run",
    "load_plan",
    "timed_run",
]
