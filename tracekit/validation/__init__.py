"""Predicted against measured: times of programs on this computer, beside simple baselines
(docs/hardware.md, docs/validation.md)."""

from tracekit.validation.judging import Judgement, fitted_factor, judge
from tracekit.validation.picture import plot
from tracekit.validation.program_list import (
    HALVES,
    Group,
    ListedProgram,
    ProgramList,
    draw,
    load_list,
)
from tracekit.validation.steps import Validation

__all__ = [
    "HALVES",
    "Group",
    "Judgement",
    "ListedProgram",
    "ProgramList",
    "Validation",
    "draw",
    "fitted_factor",
    "judge",
    "load_list",
    "plot",
]
