"""Static instructions by function and line: how stacks of instructions become those of places."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import numpy.typing as npt

from tracekit.store.instruction_text import instruction_text
from tracekit.symbols import UNKNOWN, AddressMap

if TYPE_CHECKING:
    from tracekit.store.reader import TraceFile

__all__ = ["BY", "By", "Places"]

By = Literal["function", "line", "instruction"]
BY: Final[tuple[By, ...]] = ("function", "line", "instruction")


@dataclass(frozen=True)
class Places:
    """``labels``: uint32 of each static instruction, numbers of ``names``.  ``problems``: path to
    why a file could give no names."""

    by: By
    names: list[str]
    labels: npt.NDArray[np.uint32]
    problems: dict[str, str]

    @classmethod
    def of(cls, trace: TraceFile, by: By = "function", binary: str | None = None) -> Places:
        """Of a trace's instructions.

        ``binary``: the program, of a trace that does not tell it.  Without either, functions and
        lines are ranges of addresses that run on without a gap, ``0x401000-0x4013ff``.
        """
        found = symbols_of(trace, binary)
        pcs = trace.statics.pc.tolist()
        if by == "instruction":
            names = [instruction_name(trace, i) for i in range(len(pcs))]
            return cls(by, names, np.arange(len(pcs), dtype=np.uint32), {})
        if found is None:
            each = _regions(trace)
        else:
            name = AddressMap.name if by == "function" else AddressMap.line
            known = {pc: name(found, pc) for pc in set(pcs)}
            each = [known[pc] for pc in pcs]
            if by == "line":
                each = [known[pc] if known[pc] != UNKNOWN else hex(pc) for pc in pcs]
        names = list(dict.fromkeys(each))
        number = {n: k for k, n in enumerate(names)}
        labels = np.array([number[n] for n in each], np.uint32)
        return cls(by, names, labels, found.problems if found is not None else {})


def symbols_of(trace: TraceFile, binary: str | None = None) -> AddressMap | None:
    """Names of the trace's addresses; None where nobody tells them."""
    return AddressMap.of_trace(trace) if binary is None else AddressMap.of(trace, binary)


def instruction_name(trace: TraceFile, number: int) -> str:
    """``0x4010a4.1 ldr x1, [x2]``: the micro-op's number only where it is not 0."""
    s = trace.statics
    upc = int(s.upc[number])
    return f"{int(s.pc[number]):#x}{f'.{upc}' if upc else ''} {instruction_text(trace, number)}"


def _regions(trace: TraceFile) -> list[str]:
    """Of each static instruction: the stretch of code without a gap of 64 bytes around it."""
    pc = trace.statics.pc
    if not len(pc):
        return []
    order = np.argsort(pc, kind="stable")
    sorted_pc = pc[order]
    new = np.concatenate([[True], np.diff(sorted_pc) > 64])
    starts = np.flatnonzero(new)
    ends = np.concatenate([starts[1:], [len(pc)]]) - 1
    region = np.cumsum(new) - 1
    names = [
        f"{int(sorted_pc[a]):#x}-{int(sorted_pc[b]):#x}" for a, b in zip(starts, ends, strict=True)
    ]
    out = [""] * len(pc)
    for i, r in zip(order.tolist(), region.tolist(), strict=True):
        out[i] = names[r]
    return out


def short(name: str) -> str:
    """A place without its folders."""
    file, colon, rest = name.rpartition(":")
    return f"{Path(file).name}{colon}{rest}" if colon and "/" in file else name
