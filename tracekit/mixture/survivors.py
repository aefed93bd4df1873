"""What a machine's tuning left open: cores that explain its traces about as well as each other, and
how far apart they are on another program.

Where three programs do not tell a parameter, a search's survivors differ in it.  On a program that
needs it their times then differ, and the machine's interval is as wide as they are apart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["Survivors", "survivor_halves"]

F64 = npt.NDArray[np.float64]
#: A machine's survivors: core, and what its cycles are multiplied by to take as long as the machine
#: did on the programs that it was tuned on.
Survivors = Mapping[str, float]

#: What is added to how far the farthest survivor is from its row's time: survivors share what no
#: core explains.  It was chosen on machines used for development (docs/validation.md).
SHARED = 0.115
#: How much wider what is added is for a program all of whose instructions are outside.
WIDER = 4.0


def survivor_halves(
    machines: Sequence[str],
    survivors: Mapping[str, Survivors],
    columns: Sequence[str],
    representation: F64,
    cycles: F64,
    strange: float,
) -> F64:
    """Half the 95 % interval of the logarithm of ``cycles`` [machines]: float64 [machines]; NaN of
    machines without survivors.

    ``survivors``: by machine; ``representation`` [columns]: the cycles of each core; ``strange``:
    the share of the program outside of what the model was fitted on."""
    place = {c: k for k, c in enumerate(columns)}
    out = np.full(len(machines), math.nan)
    for j, name in enumerate(machines):
        own = survivors.get(name)
        if not own or not cycles[j] > 0:
            continue
        times = np.array([representation[place[core]] * pace for core, pace in own.items()])
        if (times > 0).all():
            out[j] = half_width(np.log(times / cycles[j]), strange)
    return out


def half_width(gaps: F64, strange: float = 0.0) -> float:
    """Of logarithms of survivors' times over the row's."""
    return float(np.abs(gaps).max() + SHARED * (1 + WIDER * strange))
