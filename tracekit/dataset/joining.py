"""Targets of one program on many machines, beside one copy of its features, in one file."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.dataset.arrays import check_numbers, no_time, open_cycles, read_cycles
from tracekit.dataset.macro import instruction_starts
from tracekit.errors import TracekitError, UsageError
from tracekit.io.output import check_apart, check_output
from tracekit.store.reader import TraceFile
from tracekit.store.targets import Blocks, BlockWriter, add_targets, copy_blocks
from tracekit.store.writer import Output

__all__ = ["JoinPart", "first_difference", "join", "join_part"]

BLOCK = 1 << 16
_KEPT = 2 * BLOCK
#: Arrays of cycles; everything else is taken for an extracted trace.
_ARRAYS = (".npy", ".npy.zst")


def first_difference(a: TraceFile, b: TraceFile, rows: tuple[int, int] | None = None) -> int:
    """The first row whose (pc, micro-op) differs; the shorter length where none does.  ``rows``:
    of these alone, whose end counts as both traces' where it comes before theirs."""
    first, end = rows or (0, len(a))
    n = max(first, min(end, len(a), len(b)))
    for begin in range(first, n, BLOCK):
        block = (begin, min(begin + BLOCK, n))
        differ = np.zeros(block[1] - begin, bool)
        for name in ("pc", "upc"):
            differ |= a.column(name, block) != b.column(name, block)
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
        self.rows = 0  #: its own number of rows

    def open(
        self, features: TraceFile, stack: ExitStack, starts: npt.NDArray[np.int64] | None, rows: int
    ) -> None:
        """``starts``: an array has ``rows`` micro-ops, and those of an instruction are added up."""
        if not self.is_array:
            # Chunks of the features may lie across two of the target's.
            self._trace = stack.enter_context(TraceFile(self.path, kept=_KEPT))
            if self._trace.level != features.level:
                raise UsageError(
                    f"is of level {self._trace.level}, the features of level {features.level}",
                    path=self.path,
                    hint=f"extract it with --level {features.level}",
                )
            self.rows = len(self._trace)
            return
        if starts is None:
            self._cycles = open_cycles(self.path, self.machines, rows)
        else:  # checked before they are added up
            cycles = read_cycles(self.path, self.machines, rows)[:, : starts[-1]]
            wide = np.float64 if cycles.dtype.kind == "f" else np.uint32
            self._cycles = np.add.reduceat(cycles, starts[:-1], axis=1, dtype=wide)
        self.rows = self._cycles.shape[1]

    def check(self, features: TraceFile, rows: tuple[int, int]) -> tuple[int, list[bool]]:
        """Up to which of the rows they are the features', and whether each machine takes time in
        them.  `FormatError` names the first row whose target is no number of cycles."""
        begin, end = rows
        if self._trace is None:
            assert self._cycles is not None
            own = zip(self.machines, self._cycles[:, begin:end], strict=True)
            return end, [check_numbers(c, m, self.path, begin) for m, c in own]
        upto = first_difference(features, self._trace, rows)
        if upto == begin:
            return upto, [False]
        cycles = self._trace.targets("cycles", (begin, upto))
        return upto, [check_numbers(cycles, self.machines[0], self.path, begin)]

    def named(self, base: str | None) -> str:
        """The path as the file's records have it."""
        return self.path if base is None else Path(self.path).relative_to(base).as_posix()

    def block(self, begin: int, end: int) -> npt.NDArray[Any]:
        """[rows, machines]."""
        if self._trace is not None:
            return self._trace.targets("cycles", (begin, end)).reshape(-1, 1)
        assert self._cycles is not None
        return np.transpose(self._cycles[:, begin:end])


@dataclass(frozen=True)
class JoinPart:
    """What was found in some chunks of a join, the last row of which stands before ``end``.

    Of each source ``upto`` which row they are the features', the ``lengths`` in rows, and whether
    ``some`` cycles of each machine are more than 0.  ``blocks``: the chunks' targets, as far as all
    sources have them; those of a task are all that the file ``path`` holds.
    """

    end: int
    upto: list[int]
    lengths: list[int]
    some: list[list[bool]]
    blocks: Blocks
    path: str = ""


def _sources(targets: Sequence[str]) -> tuple[list[_Source], tuple[str, ...]]:
    """The sources and the names of all machines."""
    sources = [_Source(entry) for entry in targets]
    names = tuple(m for s in sources for m in s.machines)
    if not names:
        raise UsageError("no targets to join")
    if twice := sorted({n for n in names if names.count(n) > 1}):
        raise UsageError(f"machine {', '.join(twice)} is named twice")
    return sources, names


def _walk(
    features: TraceFile, sources: Sequence[_Source], chunks: tuple[int, int], out: Output
) -> JoinPart:
    """Checks chunks [first, end) and appends their targets, each chunk while it is decoded."""
    writer = BlockWriter(out, sum(len(s.machines) for s in sources))
    edges = features.starts[chunks[0] : chunks[1] + 1].tolist()
    upto = [edges[0]] * len(sources)
    some = [[False] * len(s.machines) for s in sources]
    for begin, end in itertools.pairwise(edges):
        for k, s in enumerate(sources):
            if upto[k] == begin:  # they have not parted
                upto[k], found = s.check(features, (begin, end))
                some[k] = [a or b for a, b in zip(some[k], found, strict=True)]
        if (common := min(upto)) > begin:
            writer.add(np.hstack([s.block(begin, common) for s in sources]))
    return JoinPart(edges[-1], upto, [s.rows for s in sources], some, writer.blocks)


def join_part(
    features: str, targets: Sequence[str], chunks: tuple[int, int], output: str
) -> JoinPart:
    """Some chunks [first, end) of `join`, without ``micro``: their targets to a file of their
    own."""
    sources, _ = _sources(targets)
    with ExitStack() as stack:
        trace = stack.enter_context(TraceFile(features))
        for s in sources:
            s.open(trace, stack, None, len(trace))
        out = Output(output, force=True)
        stack.callback(out.discard)
        found = _walk(trace, sources, chunks, out)
        out.commit()
    return replace(found, path=output)


def _judged(
    sources: Sequence[_Source], parts: Sequence[JoinPart], total: int, strict: bool
) -> tuple[int, list[str]]:
    """How many of the features' ``total`` rows have targets, and what there is to say."""
    common = total
    notes: list[str] = []
    for k, s in enumerate(sources):
        upto, length, some = 0, 0, [False] * len(s.machines)
        for part in parts:
            upto, length = part.upto[k], part.lengths[k]
            some = [a or b for a, b in zip(some, part.some[k], strict=True)]
            if upto < part.end:
                break
        if upto and not all(some):
            raise no_time(s.machines[some.index(False)], s.path)
        if upto < max(total, length):
            note = (
                f"{s.path}: the instructions part from the features' at row {upto} "
                f"of {total} (its own: {length})"
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
    return common, notes


def join(
    features: str,
    targets: Sequence[str],
    output: str,
    *,
    strict: bool = False,
    force: bool = False,
    micro: str | None = None,
    base: str | None = None,
    parts: Sequence[JoinPart] = (),
) -> dict[str, Any]:
    """Write ``output``: the features, and the targets named ``NAME[,NAME…]=FILE`` beside them.

    Where a trace's instructions part from the features', the row is named and only the rows before
    it have targets (``strict``: an error).  ``micro``: the same trace extracted at the micro level,
    whose rows the arrays have; the features are at the macro level.  ``base``: a folder that the
    records in the file name the targets' files from.  ``parts``: `join_part` of all chunks in their
    order; then no target is read again.  Returns ``rows`` (with targets), ``feature_rows``,
    ``machines`` and ``notes``.
    """
    sources, names = _sources(targets)
    with ExitStack() as stack:
        trace = stack.enter_context(TraceFile(features))
        check_output(Path(output), force, features)
        for path in [s.path for s in sources] + ([micro] if micro is not None else []):
            check_apart(output, path)
        if "targets" in trace.index:
            raise UsageError("has targets already", path=features, hint="join the features alone")
        total = rows = len(trace)
        starts = None
        if micro is not None:
            micro_ops = stack.enter_context(TraceFile(micro))
            starts, rows = instruction_starts(micro_ops, trace), len(micro_ops)
        if not parts:
            for s in sources:
                s.open(trace, stack, starts, rows)
        common = 0
        notes: list[str] = []

        def append(out: Output) -> tuple[Blocks, int, dict[str, Any]]:
            nonlocal common, notes
            if parts:
                common, notes = _judged(sources, parts, total, strict)
                begins = [0, *(p.end for p in parts)]
                used = [p for p, begin in zip(parts, begins, strict=False) if begin < common]
                blocks = copy_blocks(out, [(p.path, p.blocks) for p in used])
            else:
                found = _walk(trace, sources, (0, trace.chunks), out)
                common, notes = _judged(sources, [found], total, strict)
                blocks = found.blocks
            told = [{"machines": list(s.machines), "path": s.named(base)} for s in sources]
            return blocks, common, {"sources": told, "notes": notes}

        add_targets(trace, output, names, append, force=force)
    return {"rows": common, "feature_rows": total, "machines": list(names), "notes": notes}
