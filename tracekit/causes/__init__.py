"""Why a trace takes the time that it takes on a machine, and what would change it.

Every cycle of a simulated core has a cause (docs/causes.md).  `stacks` adds them up, `what_if`
changes the machine, `explain` compares two stacks.
"""

from tracekit.causes.changes import Change, idealizations, parse_change, steps
from tracekit.causes.explain import Difference, explain
from tracekit.causes.names import CAUSES, GROUPS, TITLES, modelled
from tracekit.causes.places import Places
from tracekit.causes.stacks import Stacks, spread, stacks
from tracekit.causes.what_if import Effect, WhatIf, limits, what_if

__all__ = [
    "CAUSES",
    "GROUPS",
    "TITLES",
    "Change",
    "Difference",
    "Effect",
    "Places",
    "Stacks",
    "WhatIf",
    "explain",
    "idealizations",
    "limits",
    "modelled",
    "parse_change",
    "spread",
    "stacks",
    "steps",
    "what_if",
]
