"""Targets of one program on many machines, beside one copy of its features, in one file."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.dataset.arrays import check_cycles, read_cycles
from tracekit.dataset.macro import instruction_starts
from tracekit.errors import TracekitError, UsageError
from tracekit.io.output import check_output
from tracekit.store.reader import TraceFile
from tracekit.store.targets import add_targets

__all__ = ["first_difference", "join"]

BLOCK = 1 << 16
#: Arrays of cycles; everything else is taken for an extracted trace.
_ARRAYS = (".npy", ".npy.zst")


def first_difference(a: TraceFile, b: TraceFile) -> int:
    """The first row whose (pc, micro-op) differs; the shorter length where none does."""
    n = min(len(a), len(b))
    for begin in range(0, n, BLOCK):
        rows = (begin, min(begin + BLOCK, n))
        differ = np.zeros(rows[1] - begin, bool)
        for name in ("pc", "upc"):
            differ |= a.column(name, rows) != b.column(name, rows)
        if differ.any():
            return begin + int(differ.argmax())
    return n


class _Source:
    """The cycles of one ``--target``."""

    def __init__(self, entry: str) -> None:
        label, sign, self.path = entry.partition("=")
        self.machines = tuple(x for x in label.split(",") if x)
        if not sign or not self.path or not self.machines:
            raise UsageError(f"--target {entry}: NAME=FILE")
        self.is_array = self.path.endswith(_ARRAYS)
        if not self.is_array and len(self.machines) != 1:
            raise UsageError(f"--target {entry}: a trace is of one machine")
        self._cycles: npt.NDArray[Any] | None = None
        self._trace: TraceFile | None = None

    def open(
        self, features: TraceFile, stack: ExitStack, starts: npt.NDArray[np.int64] | None, rows: int
    ) -> int:
        """Reads and checks; how many rows are the features'.  ``starts``: an array has ``rows``
        micro-ops, and those of an instruction are added up."""
        if self.is_array:
            self._cycles = read_cycles(self.path, self.machines, rows)
            if starts is not None:
                cycles = self._cycles[:, : starts[-1]]
                wide = np.float64 if cycles.dtype.kind == "f" else np.uint32
                self._cycles = np.add.reduceat(cycles, starts[:-1], axis=1, dtype=wide)
            return len(features)
        self._trace = stack.enter_context(TraceFile(self.path))
        upto = first_difference(features, self._trace)
        if upto:
            check_cycles(self._trace.targets("cycles", (0, upto)), self.machines[0], self.path)
        return upto

    def named(self, base: str | None) -> str:
        """The path as the file's records have it."""
        return self.path if base is None else Path(self.path).relative_to(base).as_posix()

    @property
    def rows(self) -> int:
        """Its own number of rows."""
        return self._cycles.shape[1] if self._trace is None else len(self._trace)  # type: ignore[union-attr]

    def block(self, begin: int, end: int) -> npt.NDArray[Any]:
        """[rows, machines]."""
        if self._trace is not None:
            return self._trace.targets("cycles", (begin, end)).reshape(-1, 1)
        assert self._cycles is not None
        return np.transpose(self._cycles[:, begin:end])


def join(
    features: str,
    targets: Sequence[str],
    output: str,
    *,
    strict: bool = False,
    force: bool = False,
    micro: str | None = None,
    base: str | None = None,
) -> dict[str, Any]:
    """Write ``output``: the features, and the targets named ``NAME[,NAME…]=FILE`` beside them.

    Where a trace's instructions part from the features', the row is named and only the rows before
    it have targets (``strict``: an error).  ``micro``: the same trace extracted at the micro level,
    whose rows the arrays have; the features are at the macro level.  ``base``: a folder that the
    records in the file name the targets' files from.  Returns ``rows`` (with
    targets), ``feature_rows``, ``machines`` and ``notes``.
    """
    sources = [_Source(entry) for entry in targets]
    names = tuple(m for s in sources for m in s.machines)
    if not names:
        raise UsageError("no targets to join")
    if twice := sorted({n for n in names if names.count(n) > 1}):
        raise UsageError(f"machine {', '.join(twice)} is named twice")
    notes: list[str] = []
    with ExitStack() as stack:
        trace = stack.enter_context(TraceFile(features))
        check_output(Path(output), force, features)
        if "targets" in trace.index:
            raise UsageError("has targets already", path=features, hint="join the features alone")
        total = common = rows = len(trace)
        starts = None
        if micro is not None:
            parts = stack.enter_context(TraceFile(micro))
            starts, rows = instruction_starts(parts, trace), len(parts)
        for s in sources:
            upto = s.open(trace, stack, starts, rows)
            if upto < max(total, s.rows):
                note = (
                    f"{s.path}: the instructions part from the features' at row {upto} "
                    f"of {total} (its own: {s.rows})"
                )
                if strict:
                    raise TracekitError(note, hint="without --strict the rows before it are kept")
                notes.append(note)
            common = min(common, upto)
        if common == 0:
            raise TracekitError(
                "; ".join(notes) or "no rows", hint="are these traces of the same program?"
            )
        if common < total:
            notes.append(f"rows from {common} on have no targets: not every machine has them")

        def block(begin: int, end: int) -> npt.NDArray[Any]:
            return np.hstack([s.block(begin, end) for s in sources])

        kept = {"sources": [{"machines": list(s.machines), "path": s.named(base)} for s in sources]}
        add_targets(trace, output, names, common, block, {**kept, "notes": notes}, force=force)
    return {"rows": common, "feature_rows": total, "machines": list(names), "notes": notes}
