"""The columns of the preset ``default``, one row an instruction: what simulated cores with the
machines' parameters do with it, and a few of its own properties.

A feats.zst of either level serves.  Micro-op rows are the better input: a core then knows which
result of an instruction is there when.  They are joined as the macro level joins them (features.md,
"The macro level").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from tracekit.sim import TIMING, walk
from tracekit.store.instruction_bounds import begins
from tracekit.store.reader import TraceFile

__all__ = ["FEATURE_SET", "SHARED", "Block", "blocks", "columns", "instruction_starts", "to_rows"]

#: Name of the columns' schema in the card; the number changes when one of them means another thing.
FEATURE_SET = "core-timing-6"

#: Columns beside those of the cores.  Of several micro-ops' values the largest counts.
SHARED = (
    *("op", "micro_ops", "is_mem", "taken", "fault", "load", "store", "conditional", "control"),
    *("serializing", "barrier", "mispredicting", "fetch_distance", "data_distance", "p_global"),
)
Array = npt.NDArray[Any]
F32 = npt.NDArray[np.float32]


def columns(machines: Sequence[str]) -> tuple[str, ...]:
    """Names of the columns, in order: those of each core, then the shared ones."""
    return (*(f"{m}.{part}" for m in machines for part in TIMING), *SHARED)


@dataclass(frozen=True)
class Block:
    """Instructions [begin, begin + len(values)): ``values`` float32 [rows, columns]; ``key`` uint64
    names the static instruction, whatever the file: a hash of its pc, op class, flags and
    operands."""

    begin: int
    values: F32
    key: npt.NDArray[np.uint64]


def _ended(trace: TraceFile) -> bool:
    """Whether the last row ends its instruction."""
    n = len(trace)
    s = trace.statics
    k = int(trace.column("static_id", (n - 1, n))[0])
    if trace.column("fault", (n - 1, n))[0]:
        return bool(s.has("IsSyscall")[k])
    return bool(s.ends()[k])


def instruction_starts(trace: TraceFile) -> tuple[npt.NDArray[np.int64], int]:
    """The row with which each instruction begins, and the row behind the last one.

    An instruction that the trace ends inside of is left out, as at the macro level.
    """
    n = len(trace)
    if trace.level == "macro":
        return np.arange(n, dtype=np.int64), n
    starts = np.flatnonzero(begins(trace, (0, n)))
    if len(starts) and not _ended(trace):
        return starts[:-1], int(starts[-1])
    return starts, n


def to_rows(trace: TraceFile, values: Array) -> Array:
    """Sums of ``values`` [machines, rows of the trace, or its first] over instructions: [machines,
    instructions]; one whose rows are not all there is left out."""
    starts, end = instruction_starts(trace)
    if values.shape[1] < end:
        kept = int(np.searchsorted(starts, values.shape[1], "right"))
        starts, end = starts[: max(kept - 1, 0)], int(starts[max(kept - 1, 0)])
    if not len(starts):
        return np.zeros((len(values), 0), values.dtype)
    wide = np.int64 if values.dtype.kind in "ui" else np.float64
    return np.add.reduceat(values[:, :end].astype(wide), starts, axis=1)


def blocks(
    trace: TraceFile, machines: Sequence[Mapping[str, Any]], threads: int | None = None
) -> Iterator[Block]:
    """The trace's instructions in blocks, their columns as ``columns`` names them."""
    macro = trace.level == "macro"
    drop_last = not macro and len(trace) > 0 and not _ended(trace)
    parts = _Parts(trace)
    left: list[Array] = []  # rows of an instruction whose end has not come: what each row gives
    before: Array | None = None
    done = 0
    n = len(trace)
    for part in walk(trace, machines, threads, timed=True, difficulty=True):
        rows = (part.begin, part.begin + len(part.cycles))
        own = parts.of(rows, part.wrong)
        if macro:
            first = np.ones(len(own.key), bool)
        else:
            first = begins(trace, rows, before)
            before = np.array([trace.column("static_id", (rows[1] - 1, rows[1]))[0],
                               trace.column("fault", (rows[1] - 1, rows[1]))[0]])  # fmt: skip
        now: list[Array] = [part.cycles, own.values, own.key, first]
        if left:
            now = [np.concatenate(pair) for pair in zip(left, now, strict=True)]
        starts = np.flatnonzero(now[3])
        final = rows[1] == n
        cut = len(now[3])
        if not final or drop_last:
            cut = int(starts[-1])
            left = [a[cut:] for a in now]
            starts = starts[:-1]
        if len(starts):
            values = _join(now[0][:cut], now[1][:cut], starts)
            yield Block(done, values, now[2][starts])
            done += len(starts)


def _keys(statics: Any) -> npt.NDArray[np.uint64]:
    """A hash of each static instruction that does not depend on its number in the table."""
    a = statics.arrays
    fields = [a[n] for n in ("pc", "upc", "op", "flags")]
    fields += [a[f"{k}_{part}"] for k in ("src", "dst") for part in ("class", "index")]
    raw = [np.ascontiguousarray(f).view(np.uint8).reshape(len(statics), -1) for f in fields]
    rows = np.concatenate(raw, axis=1)
    return np.array([xxhash.xxh3_64_intdigest(r.tobytes()) for r in rows], np.uint64)


@dataclass
class _Own:
    values: F32
    key: npt.NDArray[np.uint64]


class _Parts:
    """Columns of SHARED for rows of a trace, from static tables made once."""

    def __init__(self, trace: TraceFile) -> None:
        s = trace.statics
        self._trace, self._key = trace, _keys(s)
        flags = (
            ("IsLoad",),
            ("IsStore",),
            ("IsCondControl",),
            ("IsControl",),
            ("IsSerializeBefore", "IsSerializeAfter"),
            ("IsReadBarrier", "IsWriteBarrier", "IsNonSpeculative"),
        )
        table = [s.op.astype(np.float32)]
        table += [
            np.logical_or.reduce([s.has(n) for n in names]).astype(np.float32) for names in flags
        ]
        self._static = np.stack(table, axis=1)

    def of(self, rows: tuple[int, int], wrong: Array) -> _Own:
        t = self._trace
        ids = t.column("static_id", rows)
        out = np.empty((len(ids), len(SHARED)), np.float32)
        out[:, [0, 5, 6, 7, 8, 9, 10]] = self._static[ids]
        out[:, 1] = 1
        for k, name in ((2, "is_mem"), (3, "taken"), (4, "fault")):
            out[:, k] = t.column(name, rows)
        # how many of the reference predictors were wrong
        out[:, 11] = np.unpackbits(wrong[:, None], axis=1).sum(axis=1)
        for k, name in ((12, "fetch_distance"), (13, "data_distance"), (14, "p_global")):
            out[:, k] = t.column(name, rows)
        return _Own(out, self._key[ids])


def _join(timing: F32, shared: F32, starts: Array) -> F32:
    """Rows of instructions from those of their micro-ops: cycles and gaps add up, a margin counts
    from the instruction's first row, of everything else the largest counts."""
    n, cores = len(starts), timing.shape[1]
    out = np.empty((n, cores * len(TIMING) + shared.shape[1]), np.float32)
    own = out[:, : cores * len(TIMING)].reshape(n, cores, len(TIMING))
    if n == len(timing):
        own[:] = timing
        out[:, cores * len(TIMING) :] = shared
        return out
    cycles = timing[:, :, 0].astype(np.float64)
    sofar = np.cumsum(cycles, axis=0) - cycles
    own[:, :, 0] = np.add.reduceat(cycles, starts, axis=0)
    own[:, :, 1] = np.maximum.reduceat(timing[:, :, 1] + sofar, starts, axis=0) - sofar[starts]
    own[:, :, 2] = np.add.reduceat(timing[:, :, 2], starts, axis=0)
    own[:, :, 3:] = np.maximum.reduceat(timing[:, :, 3:], starts, axis=0)
    out[:, cores * len(TIMING) :] = np.maximum.reduceat(shared, starts, axis=0)
    out[:, cores * len(TIMING) + 1] = np.diff(np.append(starts, len(timing)))
    return out
