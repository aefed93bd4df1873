"""Divisions of a trace's rows into classes whose time shows one part of a machine each: units and
latencies by operation, data caches by how long ago a load's line was touched, the front end by code
lines and by where in a line a row begins, predictors by which of them were wrong.

A row is in one class of each division, whatever the machine.
"""

from __future__ import annotations

import json
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tracekit import _core, schema
from tracekit.sim import ClassedRows, walk
from tracekit.store.reader import TraceFile

__all__ = [
    "CLASSES",
    "DIVISIONS",
    "INFORMATIVE_ROWS",
    "RESIDUAL_ROWS",
    "class_labels",
    "class_residuals",
    "first_rows",
    "informative_classes",
    "log_shares",
]

F64 = npt.NDArray[np.float64]
U8 = npt.NDArray[np.uint8]
U16 = npt.NDArray[np.uint16]
I64 = npt.NDArray[np.int64]

#: Operations with latencies or units of their own: a class is of the first that its name contains.
_OPERATIONS: Final = (
    "IntAlu", "IntMult", "IntDiv", "SimdFloatMultAcc", "SimdFloatMult", "SimdFloatDiv",
    "SimdFloatSqrt", "SimdFloat", "FloatMemRead", "FloatMemWrite", "FloatMultAcc", "FloatMult",
    "FloatDiv", "FloatSqrt", "Float", "MemRead", "MemWrite", "Simd",
)  # fmt: skip
#: Buckets of distances in lines: up to 32, then twice as many each, the last for first touches.
_DATA, _CODE = 13, 8
_PREDICTORS: Final = 5
#: The first class of each division.
_FIRST: Final = np.cumsum(
    [0, len(_OPERATIONS) + 2, 2 * _DATA + 2, _CODE + 4, 3 + (1 << _PREDICTORS)]
)
#: Classes of all divisions, numbered through.
CLASSES: Final = int(_FIRST[-1])
DIVISIONS: Final = len(_FIRST) - 1
#: Rows of each program that class_residuals are of (bench/class_residuals.py).
RESIDUAL_ROWS: Final = 3 << 15
#: Rows of a trace that tell of a machine, or of a program: the first ones build data, and hardly
#: foretell what is then done with them.
INFORMATIVE_ROWS: Final = 1 << 20
#: Shares of the time are compared by the logarithms of what they are with this.
_LEAST_SHARE: Final = 1e-3
#: The rows that a class must have to tell anything, and the variance of a single one's logarithm.
_LEAST_ROWS, _ROW_VARIANCE = 20, 4.0


def _operation(name: str) -> int:
    return next((i + 1 for i, part in enumerate(_OPERATIONS) if part in name), 0)


_OF_OP: Final = np.array([_operation(n) for n in _core.OP_CLASSES], np.int64)


def class_labels(trace: TraceFile, rows: int) -> U16:
    """The class of each of the first ``rows`` in each division: uint16 [divisions, rows]."""
    rows = min(rows, len(trace))
    wrong = [w.wrong for w in walk(trace, [], 1, difficulty=True, rows=rows)]
    ids = trace.column("static_id", (0, rows)).astype(np.int64)
    kinds = trace.statics.branch.astype(np.int64)[ids]
    taken = trace.column("taken", (0, rows))
    divisions = (
        _operations(trace, ids, kinds),
        _loads(trace, ids),
        _code(trace, ids),
        _behind_branches(kinds, taken, np.concatenate([np.zeros(0, np.uint8), *wrong])),
    )
    return np.stack([d + f for d, f in zip(divisions, _FIRST, strict=False)]).astype(np.uint16)


def first_rows(trace: TraceFile, rows: int = INFORMATIVE_ROWS) -> tuple[ClassedRows, I64]:
    """The first rows of a trace in their classes, and how many each class has."""
    labels = class_labels(trace, rows)
    kept = ClassedRows(trace, labels, CLASSES, rows)
    return kept, np.bincount(labels.ravel(), minlength=CLASSES)


@lru_cache(maxsize=1)
def class_residuals() -> tuple[F64, F64]:
    """How far each class's share of the time is from a machine's in the core with the machine's own
    parameters: the mean and the spread of differences of logarithms (bench/class_residuals.py)."""
    text = (files("tracekit.calibration") / "class_residuals.json").read_text(encoding="utf-8")
    known = json.loads(text)
    return np.array(known["bias"], np.float64), np.array(known["spread"], np.float64)


def log_shares(times: F64, total: F64 | float) -> F64:
    """Times of classes as parts of ``total``, as what is compared of them."""
    return np.asarray(np.log(times / total + _LEAST_SHARE))


def informative_classes(counts: I64) -> tuple[npt.NDArray[np.bool_], F64, F64]:
    """Of classes with ``counts`` rows: which ones tell something; of those, by how much log_shares
    in the machine's own core are more than the machine's, and how far from that they are."""
    informative = counts >= _LEAST_ROWS
    bias, spread = class_residuals()
    return (
        informative,
        bias[informative],
        np.sqrt(spread[informative] ** 2 + _ROW_VARIANCE / counts[informative]),
    )


def _operations(trace: TraceFile, ids: I64, kinds: I64) -> I64:
    operation = _OF_OP[trace.statics.op.astype(np.int64)][ids]
    return np.where(kinds != 0, len(_OPERATIONS) + 1, operation)


def _bucket(distance: npt.NDArray[Any], buckets: int) -> I64:
    lines = np.maximum(distance, 1).astype(np.float64)
    power = np.frexp(lines - 0.5)[1].astype(np.int64)  # the least with lines <= 2^power
    near = np.clip(power - 5, 0, buckets - 2)
    return np.where(distance >= schema.NEVER, buckets - 1, near)


def _loads(trace: TraceFile, ids: I64) -> I64:
    """By the lines touched since theirs was; apart those that go on by the stride of the last two
    of the same instruction, which a prefetcher knows."""
    s, rows = trace.statics, (0, len(ids))
    loads, stores = s.has("IsLoad")[ids], s.has("IsStore")[ids]
    at = np.flatnonzero(loads)
    order = at[np.argsort(ids[at], kind="stable")]
    step = np.diff(trace.column("addr", rows)[order].astype(np.int64), prepend=0)
    step[np.diff(ids[order], prepend=-1) != 0] = 0
    steady = np.zeros(len(ids), np.int64)
    steady[order[1:]] = (step[1:] == step[:-1]) & (step[1:] != 0)
    bucket = _bucket(trace.column("data_distance", rows), _DATA)
    return np.where(loads, 2 + 2 * bucket + steady, np.where(stores, 1, 0))


def _code(trace: TraceFile, ids: I64) -> I64:
    """Entered lines by their distance; within a line rows that are jumped to, or that begin 32 or
    16 bytes."""
    pc = trace.statics.pc.astype(np.int64)[ids]
    before = np.concatenate([pc[:1], pc[:-1]])
    bucket = _bucket(trace.column("fetch_distance", (0, len(ids))), _CODE)
    inside = np.where(before >> 4 == pc >> 4, 0, np.where(before >> 5 == pc >> 5, 1, 2))
    inside[np.abs(pc - before) > 8] = 3
    return np.where(before >> 6 == pc >> 6, inside, 4 + bucket)


def _behind_branches(kinds: I64, taken: npt.NDArray[np.bool_], wrong: U8) -> I64:
    """Rows behind a branch by the predictors that were wrong; behind others, taken or not."""
    right = np.where(taken, 2, 1)
    own = np.where(kinds == 0, 0, np.where(wrong != 0, 2 + wrong.astype(np.int64), right))
    return np.concatenate([np.zeros(min(1, len(own)), np.int64), own[:-1]])
