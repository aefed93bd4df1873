"""What the training programs' instructions took before: statistics of each static instruction, and
of each with the path that led to it, as columns of the preset ``default``.

A program that was not trained on has no entries: its columns are 0, as they are for a part of the
training rows, so that a model knows both cases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tracekit.errors import FormatError

__all__ = ["LEAST", "PATH", "History", "Tables", "columns", "leave_one_out", "make_tables"]

#: Earlier instructions that are part of a path, and rows that an entry needs.
PATH, LEAST = 6, 3
_KINDS = ("inst", "path")
_STATS = ("zero", "log", "core")
U64 = npt.NDArray[np.uint64]
F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]


def columns(machines: Sequence[str]) -> tuple[str, ...]:
    """Of each kind of key: ln(1 + rows seen), then for each machine the share of rows with 0
    cycles, the mean of ln(1 + cycles), the share in which its core was right."""
    return tuple(
        name
        for kind in _KINDS
        for name in (f"{kind}.rows", *(f"{kind}.{m}.{s}" for m in machines for s in _STATS))
    )


class Keys:
    """The two keys of each row, block after block."""

    def __init__(self) -> None:
        self._before = np.zeros(PATH, np.uint64)

    def of(self, key: U64, first: F32) -> tuple[U64, U64]:
        """``key`` as instructions.Block has it; ``first``: the first core's cycles."""
        whole = np.concatenate([self._before, key])
        self._before = whole[len(whole) - PATH :]
        n = len(key)
        path = np.minimum(first, 31).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        for k in range(PATH + 1):
            odd = np.uint64((0xD6E8FEB86659FD93 * (2 * k + 1)) & (2**64 - 1))
            part = whole[PATH - k : PATH - k + n] * odd
            path = path + (part ^ (part >> np.uint64(29)))
        return key, path


def _stats(y: npt.NDArray[np.generic], core: F32) -> F64:
    """What is averaged, from cycles [rows, machines]: float64 [rows, 1 + 3 x machines]."""
    y = y.astype(np.float64)
    parts = np.stack([y == 0, np.log1p(y), y == core], axis=2)
    return np.hstack([np.ones((len(y), 1)), parts.reshape(len(y), parts.shape[1] * len(_STATS))])


def _means(sums: F64) -> F32:
    n = sums[:, :1]
    out = sums / np.maximum(n, 1)
    out[:, :1] = np.log1p(n)
    return np.where(n < LEAST, 0, out).astype(np.float32)


def _group(codes: npt.NDArray[np.int64], values: F64, count: int) -> F64:
    out = np.empty((count, values.shape[1]))
    for k in range(values.shape[1]):
        out[:, k] = np.bincount(codes, values[:, k], count)
    return out


def leave_one_out(
    keys: Sequence[U64], y: npt.NDArray[np.generic], core: F32, part: npt.NDArray[np.int64]
) -> npt.NDArray[np.float16]:
    """The columns of each row of a program from its other parts: float16 [rows, columns].

    ``part``: the part of each row; rows of a negative one are in no statistics, and get those of
    all parts.
    """
    stats = _stats(y, core)
    counted = part >= 0
    out = []
    for key in keys:
        _, codes = np.unique(key, return_inverse=True)
        count = int(codes.max()) + 1 if len(codes) else 0
        whole = _group(codes[counted], stats[counted], count)
        pairs, own = np.unique(
            codes * (int(part.max(initial=0)) + 2) + np.maximum(part, -1) + 1, return_inverse=True
        )
        mine = _group(own, np.where(counted[:, None], stats, 0), len(pairs))
        out.append(_means(whole[codes] - mine[own]))
    return np.hstack(out).astype(np.float16)


@dataclass(frozen=True)
class Tables:
    """Sorted keys and the columns' values of each kind."""

    keys: tuple[U64, ...]
    values: tuple[npt.NDArray[np.float16], ...]

    def tensors(self) -> dict[str, npt.NDArray[np.generic]]:
        """For a safetensors file, which has no unsigned 64-bit numbers."""
        out: dict[str, npt.NDArray[np.generic]] = {}
        for kind, key, value in zip(_KINDS, self.keys, self.values, strict=True):
            out[f"{kind}.key"], out[f"{kind}.values"] = key.view(np.int64), value
        return out

    @classmethod
    def of(cls, tensors: dict[str, npt.NDArray[np.generic]], machines: int, where: str) -> Tables:
        """The tables of a file; FormatError where it holds something else."""
        keys: list[U64] = []
        values: list[npt.NDArray[np.float16]] = []
        for kind in _KINDS:
            key, value = tensors.get(f"{kind}.key"), tensors.get(f"{kind}.values")
            width = 1 + len(_STATS) * machines
            if key is None or value is None or key.dtype != np.int64 or key.ndim != 1:
                raise FormatError(f"no table {kind}", path=where)
            if value.dtype != np.float16 or value.shape != (len(key), width):
                raise FormatError(f"table {kind} is {value.shape} of {value.dtype}", path=where)
            if not np.isfinite(value).all():
                raise FormatError(f"table {kind} has values that are no numbers", path=where)
            unsigned = key.view(np.uint64)
            if (unsigned[1:] <= unsigned[:-1]).any():
                raise FormatError(f"table {kind} is not sorted", path=where)
            keys.append(unsigned)
            values.append(value.astype(np.float16, copy=False))
        return cls(tuple(keys), tuple(values))

    def look_up(self, keys: Sequence[U64]) -> F32:
        """The columns of rows with these keys, 0 where there is no entry."""
        out = []
        for table, values, key in zip(self.keys, self.values, keys, strict=True):
            found = np.zeros((len(key), values.shape[1]), np.float32)
            if len(table):
                at = np.minimum(np.searchsorted(table, key), len(table) - 1)
                hit = table[at] == key
                found[hit] = values[at[hit]]
            out.append(found)
        return np.hstack(out)


class History:
    """Tables as columns of a stream of blocks."""

    def __init__(self, tables: Tables) -> None:
        self._tables, self._keys = tables, Keys()

    def of(self, key: U64, first: F32) -> F32:
        """The columns of a block's rows, given in order."""
        return self._tables.look_up(self._keys.of(key, first))


def make_tables(
    programs: Sequence[tuple[Sequence[U64], npt.NDArray[np.generic], F32]],
) -> Tables:
    """Tables of programs given as (keys, cycles [rows, machines], cores' cycles [rows, machines])
    of the rows that count; an entry needs LEAST rows of one program."""
    keys, values = [], []
    for k in range(len(_KINDS)):
        parts = []
        for key, y, core in programs:
            own, codes, rows = np.unique(key[k], return_inverse=True, return_counts=True)
            often = rows >= LEAST  # most paths are rare: they are left out before anything is added
            place = np.cumsum(often) - 1
            use = often[codes]
            sums = _group(place[codes[use]], _stats(y[use], core[use]), int(often.sum()))
            parts.append((own[often], sums))
        every = np.concatenate([own for own, _ in parts])
        table, codes = np.unique(every, return_inverse=True)
        sums = _group(codes, np.concatenate([s for _, s in parts]), len(table))
        keys.append(np.ascontiguousarray(table))
        values.append(_means(sums).astype(np.float16))
    return Tables(tuple(keys), tuple(values))
