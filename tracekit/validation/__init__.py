"""Predicted against measured: times of programs on this computer, beside simple baselines
(docs/hardware.md, docs/validation.md)."""

from tracekit.validation.judging import Judgement, judge
from tracekit.validation.picture import plot
from tracekit.validation.program_list import Group, ListedProgram, ProgramList, draw, load_list
from tracekit.validation.steps import Validation

__all__ = [
    "Group",
    "Judgement",
    "ListedProgram",
    "ProgramList",
    "Validation",
    "draw",
    "judge",
    "load_list",
    "plot",
]
