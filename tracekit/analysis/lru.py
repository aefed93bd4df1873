"""Exact LRU stack distance of a stream of accesses.

The distance of an access is 1 + the number of distinct lines touched since its line was last
touched (Mattson, Gecsei, Slutz and Traiger, IBM Systems Journal 9(2), 1970): it hits in every
fully associative LRU cache of at least so many lines, and in no smaller one.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tracekit import _core
from tracekit.errors import UsageError
from tracekit.schema import NEVER

Addresses = npt.NDArray[np.uint64]
Distances = npt.NDArray[np.uint32]


def _line_bits(line_size: int) -> int:
    if line_size < 1 or line_size & (line_size - 1) or line_size > 1 << 63:
        raise UsageError(f"line_size: a power of two, not {line_size}")
    return line_size.bit_length() - 1


def _addresses(values: npt.ArrayLike) -> Addresses:
    a = np.asarray(values)
    if a.ndim != 1:
        raise UsageError(f"addresses: one dimension is needed, not {a.ndim}")
    if a.dtype == np.uint64:
        return np.ascontiguousarray(a)
    if a.size and a.dtype.kind not in "iu":
        raise UsageError(f"addresses: integers are needed, not {a.dtype}")
    if a.dtype.kind == "i" and a.size and int(a.min()) < 0:
        raise UsageError("addresses: none may be negative (view them as uint64)")
    return a.astype(np.uint64)


def _capped(distances: Distances) -> Distances:
    np.minimum(distances, NEVER, out=distances)
    return distances


class StackDistance:
    """An LRU stack that lives on from call to call.

    ``line_size``: bytes (or whatever the addresses count) a line, a power of two; 1 = they are
    lines already.  Memory is about 5 bytes a distinct line where lines lie densely, at most 60
    where they are strewn over the address space; the number of accesses is not limited, that of
    distinct lines is 1e9.  ``isa`` forces one kind of code ("portable", "avx2", "avx512").
    """

    def __init__(self, line_size: int = 1, *, isa: str | None = None) -> None:
        try:
            self._stack = _core.StackDistance(_line_bits(line_size), isa=isa)
        except ValueError as e:
            raise UsageError(str(e)) from None

    def access(
        self,
        addresses: npt.ArrayLike,
        updates: npt.NDArray[np.bool_] | None = None,
        *,
        out: Distances | None = None,
    ) -> Distances:
        """One distance an access, uint32 of the same length; ``NEVER`` for a line's first
        and for those that lie as far apart or farther.

        Where ``updates`` (bool, one an access) is False the stack is only asked: the distance that
        the access would have, NEVER for a line that it does not hold, and nothing changes.
        ``out`` (contiguous uint32, as long) is filled and returned where given.
        """
        a = _addresses(addresses)
        if out is not None and not (
            isinstance(out, np.ndarray)
            and (out.dtype, out.shape) == (np.dtype(np.uint32), a.shape)
            and out.flags.c_contiguous
            and out.flags.writeable
        ):
            raise UsageError(f"out: a contiguous uint32 array of {len(a)} elements is needed")
        if updates is None:
            return _capped(self._stack.access(a, out=out))
        if updates.shape != a.shape or updates.dtype != np.bool_:
            raise UsageError(f"updates: a bool array of {len(a)} elements is needed")
        return _capped(self._stack.access(a, np.ascontiguousarray(updates), out=out))

    def copy(self) -> StackDistance:
        """An independent stack in the same state."""
        other = StackDistance.__new__(StackDistance)
        other._stack = self._stack.copy()
        return other

    @property
    def distinct(self) -> int:
        """How many distinct lines were touched."""
        return self._stack.distinct

    @property
    def nbytes(self) -> int:
        """Memory in use."""
        return self._stack.nbytes


def stack_distance(lines: npt.ArrayLike, line_size: int = 1) -> Distances:
    """The exact LRU stack distance of every access of a stream.

    ``lines``: n integers from 0 to 2**64 - 1 (uint64 is not copied); with ``line_size`` they are
    byte addresses, and accesses to the same ``line_size`` bytes are to one line.  Returns n
    uint32: 1 + the number of distinct lines touched since the line was last touched, so 1 for a
    line touched twice in a row; ``tracekit.NEVER`` (100,000,000) where it never was, and where as
    many lines or more lie between: columns of distances have the same number.
    UsageError where the arguments do not fit.

    >>> tracekit.stack_distance([1, 2, 2, 1])
    array([100000000, 100000000,         1,         2], dtype=uint32)
    """
    return StackDistance(line_size).access(lines)
