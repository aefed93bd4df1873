"""Targets of one program on many machines, beside one copy of its features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.dataset.targets import Targets, open_targets, write_targets
from tracekit.errors import TracekitError, UsageError
from tracekit.store.reader import TraceFile

__all__ = ["first_difference", "join"]

BLOCK = 1 << 16


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


def join(
    features: str, targets: Sequence[str], output: str, *, strict: bool = False
) -> dict[str, Any]:
    """Write the targets named ``NAME[,NAME…]=FILE`` for ``features``; returns rows, machines and
    notes.

    Where a trace's instructions part from the features', the row is named and only the rows before
    it get targets; the later ones are 0 in the file (``strict``: an error).
    """
    if not output.endswith(".npz"):
        raise UsageError("the joined targets are an .npz file", path=output)
    names: list[str] = []
    columns: list[npt.NDArray[np.float32]] = []
    notes: list[str] = []
    common = -1
    with TraceFile(features) as trace:
        rows = len(trace)
        for entry in targets:
            label, sign, path = entry.partition("=")
            machines = tuple(x for x in label.split(",") if x)
            if not sign or not path or not machines:
                raise UsageError(f"--target {entry}: NAME=FILE")
            if path.endswith((".npy", ".npy.zst", ".npz")):
                found = open_targets(path, machines, rows)
                names += found.machines
                columns += [c.astype(np.float32) for c in found.cycles]
                continue
            if len(machines) != 1:
                raise UsageError(f"--target {entry}: a trace is of one machine")
            with TraceFile(path) as other:
                upto = first_difference(trace, other)
                if upto < max(rows, len(other)):
                    note = (
                        f"{path}: the instructions part from the features' at row {upto} "
                        f"of {rows} (its own: {len(other)})"
                    )
                    if strict:
                        raise TracekitError(
                            note, hint="without --strict the rows before it are kept"
                        )
                    notes.append(note)
                common = upto if common < 0 else min(common, upto)
                values = np.zeros(rows, np.float32)
                values[:upto] = other.targets("cycles", (0, upto))
                names.append(machines[0])
                columns.append(values)
    if len(set(names)) != len(names):
        raise UsageError("a machine is named twice")
    if 0 <= common < rows:
        for c in columns:
            c[common:] = 0
        notes.append(f"targets after row {common} are 0: not every machine has them")
    cycles = np.stack(columns)
    if np.array_equal(cycles, cycles.astype(np.uint16)):
        cycles = cycles.astype(np.uint16)
    write_targets(output, Targets(tuple(names), cycles))
    return {
        "rows": rows,
        "common": rows if common < 0 else common,
        "machines": names,
        "notes": notes,
    }
