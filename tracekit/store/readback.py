"""A file that was just written, read as any reader would: are its rows those that were encoded?"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from tracekit import schema
from tracekit.errors import TracekitError
from tracekit.store import statics
from tracekit.store.reader import TraceFile

_HINT = "this is a fault of tracekit, not of the trace: please report it"


def compare(
    path: str | os.PathLike[str],
    name: str,
    hashes: Sequence[Sequence[int]],
    table: statics.StaticTable,
) -> None:
    """Raises TracekitError, under the file's ``name``, where a column of a chunk does not have the
    hash that its rows had before (``hashes``: of each chunk, one a column of schema.COLUMNS), or
    where the static table is another one than ``table``."""
    with TraceFile(path) as f:
        f.path = name  # of every message
        _compare_statics(f.statics, table, name)
        if f.chunks != len(hashes):
            raise TracekitError(f"{f.chunks} chunks read of {len(hashes)}", path=name, hint=_HINT)
        for number, want in enumerate(hashes):
            chunk = f.chunk(number)
            got = chunk.hashes()
            for column, before in zip(schema.COLUMNS, want, strict=True):
                if got[column] != before:
                    raise TracekitError(
                        f"column {column} of chunk {number} (rows {chunk.first} to "
                        f"{chunk.first + chunk.rows - 1}) is not read as it was encoded",
                        path=name,
                        hint=_HINT,
                    )


def _compare_statics(read: statics.StaticTable, table: statics.StaticTable, name: str) -> None:
    same = {k: np.array_equal(read.arrays[k], table.arrays[k]) for k in statics.ARRAYS}
    same["disassembly"] = read.disassembly == statics.one_line(table.disassembly)
    same["bytes"] = read.bytes == table.bytes
    same["op_names"] = read.op_names == table.op_names
    for what, ok in same.items():
        if not ok:
            raise TracekitError(
                f"static column {what} is not read as it was written", path=name, hint=_HINT
            )
