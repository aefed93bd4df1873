"""The parts of a trace that a prediction tells the time of: phases, pcs and functions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from tracekit.errors import UsageError
from tracekit.store.reader import TraceFile
from tracekit.store.statics import StaticTable
from tracekit.symbols import AddressMap

__all__ = ["By", "Groups", "groups_of"]

By = Literal["phase", "pc", "symbol"]


class Groups:
    """Parts of a trace: ranges of rows, whose first rows and end are ``edges``, or of each static
    instruction the number of its part."""

    def __init__(
        self,
        names: Sequence[str],
        of_static: npt.NDArray[np.int64] | None = None,
        edges: npt.NDArray[np.int64] | None = None,
    ) -> None:
        self.names, self._of_static, self.edges = list(names), of_static, edges

    def of(self, trace: TraceFile, begin: int, end: int) -> npt.NDArray[np.int64]:
        """The part of each row."""
        assert self._of_static is not None
        return self._of_static[trace.column("static_id", (begin, end))]


def groups_of(trace: TraceFile, by: By | None, phases: int, binary: str | None) -> Groups:
    """The parts of a trace; all of it is one where ``by`` is None."""
    symbols = AddressMap.of(trace, binary) if by == "symbol" else None
    return _groups(by, phases, len(trace), trace.statics, symbols)


def _groups(
    by: By | None, phases: int, rows: int, statics: StaticTable, symbols: AddressMap | None
) -> Groups:
    if by in (None, "phase"):
        if phases < 1:
            raise UsageError("phases: at least 1")
        n = min(phases, rows) if by else 1
        edges = [-(-k * rows // n) for k in range(n + 1)]  # the first row of group k
        names = [f"{a}:{b}" for a, b in itertools.pairwise(edges)]
        return Groups(names, edges=np.array(edges, np.int64))
    if symbols is not None and by == "symbol":
        labels = [symbols.place(p).symbol or f"{p:#x}" for p in statics.pc.tolist()]
    else:
        labels = [f"{p:#x}" for p in statics.pc.tolist()]
    names = list(dict.fromkeys(labels))
    number = {n: i for i, n in enumerate(names)}
    return Groups(names, np.array([number[x] for x in labels], np.int64))
