"""The columns of a file: names, types, units and meaning, as csrc/core/column.def has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from tracekit import _core

__all__ = ["BITS", "COLUMNS", "NEVER", "STAGES", "STATIC_COLUMNS", "Column"]


@dataclass(frozen=True)
class Column:
    """One column: ``domain`` says which rows have a value (row, memory, branch, timed, static)."""

    name: str
    dtype: np.dtype
    domain: str
    unit: str
    doc: str


#: What a file stores for every row.
COLUMNS: dict[str, Column] = {
    name: Column(name, dtype, domain, unit, doc) for name, dtype, domain, unit, doc in _core.COLUMNS
}

#: Columns that are one bit of the stored column ``bits`` (csrc/core/row_batch.hpp).
BITS: dict[str, tuple[int, str]] = {
    "is_mem": (1, "accessed memory at addr"),
    "taken": (2, "the branch was taken"),
    "fault": (4, "trapped: a system call, or a page's first touch"),
    "untimed": (8, "committed, but no stage tick is known"),
    "predicated_off": (64, "its predicate was false"),
    "mispredicted": (128, "the branch was mispredicted, where the source tells"),
}

#: Columns of the static table that can be asked for row by row.
STATIC_COLUMNS: dict[str, Column] = {
    name: Column(name, np.dtype(dtype), "static", unit, doc)
    for name, dtype, unit, doc in (
        ("pc", "u8", "byte", "address of the instruction"),
        ("upc", "u2", "", "micro-op's place in its macro-op"),
        ("op", "u1", "", "operation class, an index into tracekit.schema.OP_CLASSES"),
        ("branch", "u1", "", "branch kind, an index into tracekit.schema.BRANCH_KINDS"),
        ("access_size", "u2", "byte", "size of the memory access, 0 = none or unknown"),
        ("flags", "u8", "", "gem5's StaticInst flags, bit k = tracekit.schema.FLAGS[k]"),
    )
}

STAGES = ("fetch", "decode", "rename", "dispatch", "issue", "complete", "retire", "store")
OP_CLASSES: tuple[str, ...] = _core.OP_CLASSES
FLAGS: tuple[str, ...] = _core.FLAGS
BRANCH_KINDS: tuple[str, ...] = _core.BRANCH_KINDS

#: The stack distance of what was never touched before, and of what was touched so many distinct
#: lines ago or more: columns and functions have this one number.
NEVER: int = _core.NEVER

#: The columns by type, for type checkers.
Uint64Column = Literal[
    "addr",
    "fetch",
    "decode",
    "rename",
    "dispatch",
    "issue",
    "complete",
    "retire",
    "store",
    "pc",
    "flags",
]
Uint32Column = Literal[
    "static_id",
    "fetch_distance",
    "load_distance",
    "store_distance",
    "load_distance_ref",
    "store_distance_ref",
    "data_distance",
]
Uint16Column = Literal[
    "data_reuse",
    "upc",
    "access_size",
]
Uint8Column = Literal[
    "bits",
    "window_before",
    "window_now",
    "op",
    "branch",
]
Float32Column = Literal[
    "p_local",
    "p_global",
]
BoolColumn = Literal[
    "is_mem",
    "taken",
    "fault",
    "untimed",
    "predicated_off",
    "mispredicted",
]
