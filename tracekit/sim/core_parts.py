"""The arrays in which simulated cores are told what static instructions do."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tracekit.sim.microcode_loops import Loops
from tracekit.sim.register_values import RegisterValues

__all__ = ["CoreInstructions"]


class CoreInstructions(NamedTuple):
    """The parts of static instructions: arrays [parts], but ``src`` and ``dst`` [parts, registers];
    ``offset`` of an access from its row's address; ``begin`` of each instruction [statics + 1]."""

    pc: npt.NDArray[np.uint64]
    flags: npt.NDArray[np.uint32]
    op: npt.NDArray[np.uint8]
    branch: npt.NDArray[np.uint8]
    size: npt.NDArray[np.uint16]
    offset: npt.NDArray[np.uint8]
    src: npt.NDArray[np.uint16]
    dst: npt.NDArray[np.uint16]
    begin: npt.NDArray[np.uint32]
    values: RegisterValues
    loops: Loops

    def arguments(self) -> tuple[Any, ...]:
        """The first ones of _core.SimulatedCores, up to what says whether rows are joined."""
        return *self[:-2], *self.values, *self.loops
