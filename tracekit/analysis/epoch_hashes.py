"""Epochs of NeuroScalar (section 4.1): contiguous instructions, named by a hash of their pcs."""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracekit.errors import UsageError
from tracekit.store.reader import TraceFile

__all__ = ["EPOCH", "Coverage", "Epoch", "coverage", "epochs", "gaps"]

#: Instructions of an epoch.
EPOCH = 100_000
_BLOCK = 1 << 16


@dataclass(frozen=True)
class Epoch:
    """Rows [begin, begin + rows) of a file; ``first`` is the number of the first epoch with this
    signature (its own where it is the first)."""

    number: int
    begin: int
    rows: int
    signature: str
    first: int


@dataclass(frozen=True)
class Coverage:
    """A signature, how many epochs and rows bear it, its share of all rows, and the share of it and
    the more frequent ones together."""

    signature: str
    epochs: int
    rows: int
    share: float
    together: float


def epochs(trace: TraceFile, length: int = EPOCH) -> list[Epoch]:
    """A macro-level trace in epochs of ``length`` instructions, the last one what is left.

    The signature is the SHA-256 of the rows' pcs as little-endian u64 (hexadecimal).  Where a
    recording has a gap a new epoch begins: its rows are contiguous.  UsageError for rows that are
    micro-ops.
    """
    if length < 1:
        raise UsageError(f"an epoch of {length} instructions; at least 1")
    if trace.level != "macro":
        raise UsageError(
            "its rows are micro-ops; epochs count instructions",
            path=trace.path,
            hint='open it with level="macro"',
        )
    out: list[Epoch] = []
    seen: dict[str, int] = {}
    edges = gaps(trace)
    for low, high in itertools.pairwise(edges):
        for begin in range(low, high, length):
            end = min(begin + length, high)
            signature = _signature(trace, begin, end)
            first = seen.setdefault(signature, len(out))
            out.append(Epoch(len(out), begin, end - begin, signature, first))
    return out


def coverage(listed: Sequence[Epoch]) -> list[Coverage]:
    """The distinct signatures by the rows that they cover, most first."""
    count = Counter(e.signature for e in listed)
    rows: Counter[str] = Counter()
    for e in listed:
        rows[e.signature] += e.rows
    whole = max(1, rows.total())
    out: list[Coverage] = []
    sofar = 0
    for signature, n in rows.most_common():
        sofar += n
        out.append(Coverage(signature, count[signature], n, n / whole, sofar / whole))
    return out


def _signature(trace: TraceFile, begin: int, end: int) -> str:
    digest = hashlib.sha256()
    for at in range(begin, end, _BLOCK):
        pc = trace.column("pc", (at, min(at + _BLOCK, end)))
        digest.update(np.ascontiguousarray(pc, "<u8").tobytes())
    return digest.hexdigest()


def gaps(trace: TraceFile) -> list[int]:
    """Row numbers from 0 to the end between which the rows are contiguous."""
    n = len(trace)
    lengths: Any = trace.index.get("source", {}).get("epoch_lengths")
    cuts: set[int] = set()
    if isinstance(lengths, dict):  # a recording's: of this file's thread, or of all in one
        own = lengths.get(trace.cpu)
        if own is None and len(lengths) == 1:
            own = next(iter(lengths.values()))
        if isinstance(own, list) and all(isinstance(k, int) for k in own):
            start = int(trace.index["options"].get("start") or 0)
            cuts = {int(c) - start for c in np.cumsum(own)}
    return [0, *sorted(c for c in cuts if 0 < c < n), n]
